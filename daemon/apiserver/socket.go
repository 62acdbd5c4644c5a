// SPDX-License-Identifier: Apache-2.0

package apiserver

// The control socket as a place in the file system, and its clients. A socket that was removed is made again. The number of
// clients is bounded; an idle one makes room for the next, and a client that finds no room is told so (server.go answers).

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// socketMode lets the owner and its group ask.
	socketMode = 0o660
	// socketCheckInterval is how often the daemon looks whether its socket is still there.
	socketCheckInterval = 2 * time.Second
	// maxConnections bounds the clients of the control socket, minConnections is how many it has however few descriptors there are.
	maxConnections = 64
	minConnections = 4
	// refusalConnections are clients beyond that, which are told that there is no room.
	refusalConnections = 4
	// reservedDescriptors are left to the rest of the daemon.
	reservedDescriptors = 16
)

// Socket is a Unix socket that is kept where it is. It is a net.Listener.
type Socket struct {
	path    string
	log     *slog.Logger
	clients clients
	current atomic.Pointer[madeSocket]
	closed  atomic.Bool
	trouble string // that was told
}

// madeSocket is a socket with the file that it made.
type madeSocket struct {
	*net.UnixListener
	file fs.FileInfo
}

// Listen makes the socket. One that a dead daemon left is replaced; one that
// answers belongs to a running daemon and is an error.
func Listen(path string, log *slog.Logger) (*Socket, error) {
	made, err := makeSocket(path)
	if err != nil {
		return nil, err
	}
	s := &Socket{path: path, log: log, clients: clients{limit: maxConnections, idleSince: map[net.Conn]time.Time{}}}
	s.current.Store(made)
	return s, nil
}

func makeSocket(path string) (*madeSocket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := clearDeadSocket(path); err != nil {
		return nil, fmt.Errorf("control socket %s: %w", path, err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	listener.SetUnlinkOnClose(false) // by then the file may be another daemon's
	file, err := os.Lstat(path)
	if err = errors.Join(err, os.Chmod(path, socketMode)); err != nil {
		return nil, errors.Join(fmt.Errorf("control socket: %w", err), listener.Close())
	}
	return &madeSocket{listener, file}, nil
}

// clearDeadSocket removes a socket that no process listens on, and nothing else.
func clearDeadSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file there is not a socket: remove it, or name another path (control: socket)")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another daemon answers there: stop it, or give this one its own socket (control: socket)")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// keep makes the socket again when it is gone, until the context ends.
func (s *Socket) keep(ctx context.Context) {
	tick := time.NewTicker(socketCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.tell(s.check())
		case <-ctx.Done():
			return
		}
	}
}

// check makes the socket again where its file is gone. What else is there now is left alone.
func (s *Socket) check() error {
	old := s.current.Load()
	file, err := os.Lstat(s.path)
	switch {
	case err == nil && os.SameFile(file, old.file):
		return nil
	case err == nil:
		return fmt.Errorf("control socket: %s was replaced by something else: this daemon answers there again when that is removed", s.path)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("control socket: %w", err)
	}
	made, err := makeSocket(s.path)
	if err != nil {
		return err
	}
	s.current.Store(made)
	if s.closed.Load() {
		return s.Close()
	}
	s.log.Warn("the control socket was removed: made it again", "socket", s.path)
	return old.Close()
}

// tell logs trouble once.
func (s *Socket) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != s.trouble {
		s.log.Warn(text)
	}
	s.trouble = text
}

// Accept returns the next client; clients do not notice that the socket is made anew in between.
func (s *Socket) Accept() (net.Conn, error) {
	for {
		listener := s.current.Load()
		conn, err := listener.Accept()
		switch {
		case err == nil:
			if c := s.clients.admit(conn); c != nil {
				return c, nil
			}
		case s.current.Load() != listener && !s.closed.Load():
		case errors.Is(err, syscall.EMFILE) && s.clients.closeIdlest():
		default:
			return nil, err
		}
	}
}

// Close implements net.Listener, and removes the socket if it is still ours.
func (s *Socket) Close() error {
	s.closed.Store(true)
	made := s.current.Load()
	if file, err := os.Lstat(s.path); err == nil && os.SameFile(file, made.file) {
		_ = os.Remove(s.path) // the next daemon replaces it
	}
	return made.Close()
}

// Addr implements net.Listener.
func (s *Socket) Addr() net.Addr { return s.current.Load().Addr() }

// leaveDescriptors bounds the clients by the files that this process may open beside those that it has open.
func (s *Socket) leaveDescriptors() {
	var limit syscall.Rlimit
	open, err := os.ReadDir("/proc/self/fd")
	if err = errors.Join(err, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)); err != nil {
		s.log.Debug("how many files may be open is not known", "error", err)
		return
	}
	places := int(min(limit.Cur, 1<<20)) - len(open) - reservedDescriptors - refusalConnections
	if places >= maxConnections {
		return
	}
	places = max(places, minConnections)
	s.clients.setLimit(places)
	s.log.Warn("few files may be open at a time (ulimit -n): the control socket takes fewer clients", "files", limit.Cur, "open", len(open), "clients", places)
}

// clients are the connections of the control socket.
type clients struct {
	mu        sync.Mutex
	limit     int
	idleSince map[net.Conn]time.Time // zero of those at work
}

// client is one of them.
type client struct {
	net.Conn
	of     *clients
	beyond bool // there was no room: it gets no answer but that
}

func (c *clients) setLimit(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
}

// admit takes a new client, in the place of the one that has been idle longest if there is no other. It is nil, and the connection closed,
// where there are too many even to tell.
func (c *clients) admit(conn net.Conn) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	beyond := len(c.idleSince) >= c.limit && !c.closeIdlestLocked()
	if beyond && len(c.idleSince) >= c.limit+refusalConnections {
		conn.Close()
		return nil
	}
	made := &client{Conn: conn, of: c, beyond: beyond}
	c.idleSince[made] = time.Now()
	return made
}

// closeIdlest makes room, and reports whether it could.
func (c *clients) closeIdlest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeIdlestLocked()
}

func (c *clients) closeIdlestLocked() bool {
	var idlest net.Conn
	for conn, since := range c.idleSince {
		if !since.IsZero() && (idlest == nil || since.Before(c.idleSince[idlest])) {
			idlest = conn
		}
	}
	if idlest == nil {
		return false
	}
	delete(c.idleSince, idlest)
	_ = idlest.(*client).Conn.Close() // its reader notices
	return true
}

// follow is told by the HTTP server what a client does.
func (c *clients) follow(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.idleSince[conn]; !known {
		return
	}
	switch state {
	case http.StateIdle:
		c.idleSince[conn] = time.Now()
	case http.StateActive:
		c.idleSince[conn] = time.Time{}
	}
}

// forget gives a client's place back.
func (c *clients) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.idleSince, conn)
}

// Close ends the client's connection.
func (c *client) Close() error {
	c.of.forget(c)
	return c.Conn.Close()
}
