// SPDX-License-Identifier: Apache-2.0

package server

// The socket in the file system: made with its owner, group and mode before anyone
// can connect, in the place of one that no process serves any more.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// unixPacket is SOCK_SEQPACKET on a Unix socket: datagrams, in order, with a peer that
// is known and an end that is noticed.
const unixPacket = "unixpacket"

// DefaultMode lets owner and group connect. All of them may read; who may write is
// decided by Options.Writers.
const DefaultMode fs.FileMode = 0o660

// Access says who may connect to a socket.
type Access struct {
	Mode fs.FileMode // 0: DefaultMode
	UID  int         // owner of the file; -1: as it is made
	GID  int         // group of the file; -1: as it is made
}

// Listener is a mapping socket that waits for clients.
type Listener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	once sync.Once
}

// Listen makes the socket. A file of that name is replaced when it is a socket that
// no process listens on, and an error otherwise.
func Listen(path string, access Access) (*Listener, error) {
	if err := vacant(path); err != nil {
		return nil, err
	}
	made, err := (&net.ListenConfig{Control: closed}).Listen(context.Background(), unixPacket, path)
	if err != nil {
		return nil, fmt.Errorf("mapping socket: %w", err)
	}
	l := made.(*net.UnixListener) // by the name of the network
	l.SetUnlinkOnClose(false)
	listener := &Listener{UnixListener: l, path: path}
	if err := listener.open(access); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping socket %s: %w", path, err), l.Close())
	}
	return listener, nil
}

// closed makes Linux create the socket's file for its owner alone, so that no process
// connects by permissions that were not meant before they are set.
func closed(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
	return errors.Join(err, failed)
}

// vacant makes sure that no one serves the path, and removes what a process left there.
func vacant(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mapping socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("mapping socket %s: a file of that name exists and is not a socket", path)
	}
	if c, err := net.DialUnix(unixPacket, nil, &net.UnixAddr{Name: path, Net: unixPacket}); err == nil {
		_ = c.Close() // it was only to see whether someone answers
		return fmt.Errorf("mapping socket %s: another process serves it", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("mapping socket of a process that has ended: %w", err)
	}
	return nil
}

// open sets who may connect.
func (l *Listener) open(access Access) error {
	if access.Mode == 0 {
		access.Mode = DefaultMode
	}
	if err := os.Lchown(l.path, access.UID, access.GID); err != nil {
		return err
	}
	if err := os.Chmod(l.path, access.Mode); err != nil {
		return err
	}
	info, err := os.Lstat(l.path)
	l.made = info
	return err
}

// Close ends listening and removes the socket, unless another has taken its place.
func (l *Listener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.made) && info.ModTime().Equal(l.made.ModTime()) {
			_ = os.Remove(l.path) // the next Listen removes it, too
		}
	})
	return l.UnixListener.Close()
}
