// SPDX-License-Identifier: Apache-2.0

package server

// Serving: clients are accepted, admitted within the limits, and sent away when the
// server closes.

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/mapsock"
)

// New makes a server of an engine and begins to read its events, which no other
// else may read from then on: Plane gives them to the process itself.
func New(plane dataplane.Plane, o Options) *Server {
	limits := o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{
		plane: plane, limits: limits, now: o.Now,
		writers:   append(slices.Clone(o.Writers), 0, uint32(os.Geteuid())),
		dumps:     make(chan struct{}, limits.ReaderDumps),
		listeners: map[net.Listener]struct{}{},
		sessions:  map[*session]struct{}{},
		done:      make(chan struct{}),
		told:      make(chan struct{}, 1),
	}
	s.group.Go(s.carryEvents)
	s.group.Go(s.distribute)
	return s
}

// Serve takes clients of a listener, of which there may be several, until Close. The
// error is nil after Close.
func (s *Server) Serve(l net.Listener) error {
	if !s.track(l) {
		return l.Close()
	}
	for {
		conn, err := l.Accept()
		if s.isClosed() {
			return nil
		}
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			time.Sleep(acceptPause) // others may close theirs
			continue
		}
		if err != nil {
			return fmt.Errorf("mapping socket %s: %w", l.Addr(), err)
		}
		if c, ok := conn.(*net.UnixConn); ok {
			s.admit(c)
			continue
		}
		_ = conn.Close() // no Unix socket, so its user is not known
	}
}

// acceptPause is how long to wait when this process has no file descriptors left.
const acceptPause = 100 * time.Millisecond

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[l] = struct{}{}
	}
	return !s.closed
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// admit takes a client in, or tells it why not.
func (s *Server) admit(accepted *net.UnixConn) {
	conn, peer, err := newConnection(accepted, &s.attention)
	if err != nil {
		return // it has gone already, or there are no descriptors left
	}
	c := newSession(s, conn, peer)
	if !s.enter(c) {
		s.counters.clientsRefused.Add(1)
		m := mapsock.Message{Type: mapsock.TypeListen, PID: peer.Pid, Errno: unix.EUSERS, ErrorText: "too many clients"}
		m.Mark(mapsock.AttributeError)
		if b, err := m.Append(nil); err == nil {
			_ = conn.writeAtOnce(b) // the buffer of a new connection has room
		}
		_ = conn.Close() // nothing is left to be said
		return
	}
	s.counters.clients.Add(1)
}

// enter begins a session, when there is room for one more of its kind. It does so in
// one step, so that Close finds and awaits it.
func (s *Server) enter(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := 0
	for other := range s.sessions {
		if other.writer == c.writer {
			same++
		}
	}
	if s.closed || c.writer && same >= s.limits.Writers || !c.writer && same >= s.limits.Readers {
		return false
	}
	s.sessions[c] = struct{}{}
	s.group.Go(c.send)
	s.group.Go(c.receive)
	return true
}

// closeAfterDetach closes when the client that detached the engine has its answer.
func (s *Server) closeAfterDetach() {
	s.awaitWrites()
	_ = s.Close() // of listeners that are no use any more
}

// awaitWrites waits until the write that is under way has its echoes in the queues.
func (s *Server) awaitWrites() {
	s.apply.Lock()
	defer s.apply.Unlock()
}

// Close ends all sessions and listeners and waits for them. Clients may still read
// what was in their queues, for as long as Limits.FinishPatience. The engine goes on.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	if first {
		close(s.done)
	}
	listeners, sessions, local := s.listeners, s.sessions, s.local
	s.listeners, s.sessions, s.local = map[net.Listener]struct{}{}, map[*session]struct{}{}, nil
	s.mu.Unlock()
	var failed error
	for l := range listeners {
		failed = errors.Join(failed, l.Close())
	}
	for c := range sessions {
		c.finish()
	}
	s.group.Wait()
	if local != nil {
		close(local.events)
	}
	return failed
}
