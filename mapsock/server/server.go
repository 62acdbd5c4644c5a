// SPDX-License-Identifier: Apache-2.0

package server

// Server: an engine offered on mapping sockets. It admits clients and counts what goes
// wrong. What one client asks is in session.go, its writes in operations.go, its reads
// in reads.go, what all are told in carry.go.

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/mapsock"
)

// Limits bound what clients can cost. Zero values stand for the defaults.
type Limits struct {
	Readers        int           // clients that may only read, at a time
	Writers        int           // clients that may write, at a time
	QueueOctets    int           // waiting for one client
	QueueMessages  int           // waiting for one client
	ReaderDumps    int           // dumps of all readers together, at a time
	DumpPatience   time.Duration // a client that takes nothing of its dump for so long is cut off
	FinishPatience time.Duration // how long a client that leaves may take for its last answers
}

// DefaultLimits hold a thousand entries a second for minutes, and 64 MiB for the
// slowest sixteen.
var DefaultLimits = Limits{
	Readers: 128, Writers: 128, QueueOctets: 4 << 20, QueueMessages: 1 << 15,
	ReaderDumps: 4, DumpPatience: 30 * time.Second, FinishPatience: 2 * time.Second,
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits
	for _, limit := range []struct{ value, fallback *int }{
		{&l.Readers, &d.Readers}, {&l.Writers, &d.Writers}, {&l.QueueOctets, &d.QueueOctets},
		{&l.QueueMessages, &d.QueueMessages}, {&l.ReaderDumps, &d.ReaderDumps},
	} {
		if *limit.value == 0 {
			*limit.value = *limit.fallback
		}
	}
	if l.DumpPatience == 0 {
		l.DumpPatience = d.DumpPatience
	}
	if l.FinishPatience == 0 {
		l.FinishPatience = d.FinishPatience
	}
	return l
}

// Options are what a server is made with; all may be left out.
type Options struct {
	Writers []uint32         // user IDs that may write, beside root and that of this process
	Limits  Limits           // DefaultLimits where 0
	Now     func() time.Time // the clock; time.Now when nil
}

// Server offers an engine to clients.
type Server struct {
	plane   dataplane.Plane
	writers []uint32
	limits  Limits
	now     func() time.Time
	dumps   chan struct{} // a place for each dump of a reader

	// apply holds while operations are carried out and their echoes put in the
	// queues, so that every listener hears them in the order that happened.
	apply sync.Mutex

	attention sync.Mutex // of the connection that is waited for attentively

	takers atomic.Uint64 // numbers those who ask for packets
	paths  paths

	zeroed atomic.Pointer[[]mapsock.Count] // the counters as they were when they were zeroed; nil: never

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]struct{}
	sessions  map[*session]struct{}
	local     *observed // set by Plane
	done      chan struct{}
	told      chan struct{} // something is in queues
	group     sync.WaitGroup

	counters serverCounters
}

// serverCounters count by Server.Counters' names.
type serverCounters struct {
	clients, clientsRefused, messages, messagesLost, operations, refusedFormat, refusedPermission, refusedBusy, clientsCut, packetsUnclaimed atomic.Uint64
}

// New makes a server of an engine and begins to read its events, which nobody
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

// Counters tells what the server has seen, by name; docs/mapsock.md explains them.
func (s *Server) Counters() map[string]uint64 {
	c := &s.counters
	s.mu.Lock()
	connected := uint64(len(s.sessions))
	s.mu.Unlock()
	return map[string]uint64{
		"mapsock_clients": connected, "mapsock_clients_total": c.clients.Load(), "mapsock_clients_refused_total": c.clientsRefused.Load(),
		"mapsock_clients_cut_total": c.clientsCut.Load(), "mapsock_messages_total": c.messages.Load(),
		"mapsock_messages_lost_total": c.messagesLost.Load(), "mapsock_operations_total": c.operations.Load(),
		"mapsock_refused_format_total": c.refusedFormat.Load(), "mapsock_refused_permission_total": c.refusedPermission.Load(),
		"mapsock_refused_busy_total": c.refusedBusy.Load(), "mapsock_packets_unclaimed_total": c.packetsUnclaimed.Load(),
	}
}

// allCounters are the engine's, with the server's own among the others.
func (s *Server) allCounters() dataplane.Counters {
	c := s.plane.Counters()
	if c.Other == nil {
		c.Other = map[string]uint64{}
	}
	maps.Copy(c.Other, s.Counters())
	return c
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
		_ = conn.Close() // no Unix socket, so nobody knows who it is
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

func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c)
}

// heard reports whether a client other than one listens to something.
func (s *Server) heard(what mapsock.Hearing, except *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		if c != except && c.hears(what) {
			return true
		}
	}
	return false
}

// tell puts messages in the queues of those who listen to them. The caller sends them
// to the few that it returns.
func (s *Server) tell(b []byte, messages int, what mapsock.Hearing, except *session) (few fewSessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listeners := 0
	for c := range s.sessions {
		if c != except && c.hears(what) {
			s.offer(c, b, messages)
			few.add(c, &listeners)
		}
	}
	return s.unlessMany(few, listeners)
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
