// SPDX-License-Identifier: Apache-2.0

package server

// Server: its limits, options, state and counters. Clients are accepted in serve.go; what
// one client asks is in requests.go, its writes in operations.go, its reads in reads.go
// and dump.go, what all are told in carry.go.

import (
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

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
	apply   sync.Mutex
	foreign foreignChanges

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
