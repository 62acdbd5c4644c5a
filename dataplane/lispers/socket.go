// SPDX-License-Identifier: Apache-2.0

package lispers

// The two sockets. Ours is bound to its name and only receives; what we send goes
// through a second, nameless socket that is connected to the peer's name, because the
// kernel tells only a connected sender when a full peer has room again. The peer is
// known by the file it bound: another file is another peer. Nothing here reads or
// writes a message's meaning.

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// DefaultSocketMode lets the own user alone send to us: who may, may change where
	// packets go.
	DefaultSocketMode fs.FileMode = 0o600

	// maxPath is the longest name of a Unix socket, in octets.
	maxPath = 107
	// receiveOctets asks for room for a burst of messages.
	receiveOctets = 1 << 20
	// sendPatience is how long a peer that does not read may hold up one message.
	sendPatience = time.Second
)

var errNoPeer = errors.New("the peer is not there")

// endpoint is one end of the interface.
type endpoint struct {
	own, peer string
	receiver  *net.UnixConn
	bound     identity

	mu     sync.Mutex
	closed bool
	sender *net.UnixConn // nil when the peer is not there
	known  identity      // of the file that sender is connected to
	lost   bool          // the peer went, and attend has not told it yet
}

// identity tells one file from another that has its name later.
type identity struct {
	device, inode uint64
	born          unix.StatxTimestamp
}

func identify(path string) (identity, error) {
	var x unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &x); err != nil {
		return identity{}, fmt.Errorf("socket %s: %w", path, err)
	}
	id := identity{device: uint64(x.Dev_major)<<32 | uint64(x.Dev_minor), inode: x.Ino}
	if x.Mask&unix.STATX_BTIME != 0 {
		id.born = x.Btime
	}
	return id, nil
}

// open binds a socket of the directory; peer names the other one.
func open(directory, own, peer string, mode fs.FileMode) (*endpoint, error) {
	e := &endpoint{own: filepath.Join(directory, own), peer: filepath.Join(directory, peer)}
	for _, path := range []string{e.own, e.peer} {
		if len(path) > maxPath {
			return nil, fmt.Errorf("socket %s: the name has %d octets, Unix sockets take at most %d: choose a shorter directory", path, len(path), maxPath)
		}
	}
	if err := makeWay(e.own); err != nil {
		return nil, err
	}
	receiver, err := net.ListenUnixgram("unixgram", address(e.own))
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", e.own, err)
	}
	e.receiver = receiver
	_ = receiver.SetReadBuffer(receiveOctets) // less room only makes senders wait earlier
	if err := os.Chmod(e.own, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", e.own, err), receiver.Close(), os.Remove(e.own))
	}
	if e.bound, err = identify(e.own); err != nil {
		return nil, errors.Join(err, receiver.Close())
	}
	return e, nil
}

func address(path string) *net.UnixAddr { return &net.UnixAddr{Name: path, Net: "unixgram"} }

// makeWay removes a socket that no process has bound any more; one in use stays.
func makeWay(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("socket %s: a file of this name exists and is not a socket", path)
	case answers(path):
		return fmt.Errorf("socket %s: another process has it: stop that one, or choose another directory", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	return nil
}

// answers reports whether a process has bound the socket. It sends nothing.
func answers(path string) bool {
	c, err := net.DialUnix("unixgram", nil, address(path))
	if err != nil {
		// Only this says that no process is there; a missing right, for one, does not.
		return !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
	}
	_ = c.Close()
	return true
}

// receive waits for a datagram. One octet more than MaxDatagram is read, so that a
// longer one is told apart; it fails when the endpoint is closed.
func (e *endpoint) receive(buffer []byte) ([]byte, error) {
	n, _, err := e.receiver.ReadFromUnix(buffer)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", e.own, err)
	}
	return buffer[:n], nil
}

func receiveBuffer() []byte { return make([]byte, MaxDatagram+1) }

// attend looks for the peer. came says that a peer is there to which nothing was sent
// yet, lost that the one before is gone; both may be so.
func (e *endpoint) attend() (came, lost bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false, false
	}
	id, err := identify(e.peer)
	if e.sender != nil && err == nil && id == e.known && answers(e.peer) {
		return false, false
	}
	e.disconnect()
	lost, e.lost = e.lost, false
	if err != nil {
		return false, lost
	}
	sender, err := net.DialUnix("unixgram", nil, address(e.peer))
	if err != nil {
		return false, lost
	}
	_ = sender.SetWriteBuffer(2 * MaxDatagram)
	e.sender, e.known = sender, id
	return true, lost
}

// disconnect forgets the peer. The caller holds mu.
func (e *endpoint) disconnect() {
	if e.sender == nil {
		return
	}
	_ = e.sender.Close()
	e.sender, e.lost = nil, true
}

// connected reports whether the peer was there when it was last looked for.
func (e *endpoint) connected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sender != nil
}

// send passes a datagram to the peer. errNoPeer says that the peer is gone, any other
// error that it does not read.
func (e *endpoint) send(datagram []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sender == nil {
		return errNoPeer
	}
	if err := e.sender.SetWriteDeadline(time.Now().Add(sendPatience)); err != nil {
		return fmt.Errorf("socket %s: %w", e.peer, err)
	}
	_, err := e.sender.Write(datagram)
	if err == nil {
		return nil
	}
	for _, gone := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENOTCONN, syscall.EPIPE, syscall.ENOENT} {
		if errors.Is(err, gone) {
			e.disconnect()
			return fmt.Errorf("socket %s: %w: %w", e.peer, errNoPeer, err)
		}
	}
	return fmt.Errorf("socket %s: %w", e.peer, err)
}

// close ends both sockets and removes our name, unless another has it by now.
func (e *endpoint) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	e.disconnect()
	err := e.receiver.Close()
	if id, lookup := identify(e.own); lookup == nil && id == e.bound {
		err = errors.Join(err, os.Remove(e.own))
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", e.own, err)
	}
	return nil
}
