// SPDX-License-Identifier: Apache-2.0

package server

// The engine as the process sees it that serves it: what its own control plane does
// is told to the listeners, as if it had come by a socket. Nothing is encoded while
// no client listens.

import (
	"context"
	"iter"
	"os"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

const (
	// localEvents bounds the events that wait for the control plane of this process.
	localEvents = 4096
	// localPackets bounds the packets, of up to 64 KiB each, among them.
	localPackets = 1024
)

// observed is the engine of a server.
type observed struct {
	server *Server
	events chan dataplane.Event
	lost   uint64 // under server.mu
}

var _ dataplane.Plane = (*observed)(nil)

// Plane returns the server's engine for use in this process. Operations through it
// are echoed to listeners, from this process's PID with seq 0. It has the engine's
// events, which end with the server. Each call returns the same value.
func (s *Server) Plane() dataplane.Plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.local == nil {
		s.local = &observed{server: s, events: make(chan dataplane.Event, localEvents)}
		if s.closed {
			close(s.local.events)
		}
	}
	return s.local
}

// take keeps an event for the reader; false when there is no room. The caller holds
// server.mu.
func (o *observed) take(event dataplane.Event) bool {
	if miss, ok := event.(dataplane.Miss); !ok || !miss.Handed || len(o.events) < localPackets {
		select {
		case o.events <- event:
			return true
		default:
		}
	}
	o.lost++
	return false
}

// Apply carries out operations and echoes them.
func (o *observed) Apply(operations ...dataplane.Operation) []error {
	s := o.server
	s.apply.Lock()
	defer s.apply.Unlock()
	s.foreign.forget(operations)
	if !s.heard(mapsock.HearOperations, nil) {
		return s.plane.Apply(operations...)
	}
	expired := o.expired(operations)
	results := s.plane.Apply(operations...)
	var b []byte
	messages := 0
	var m mapsock.Message
	for i, operation := range operations {
		if m.SetOperation(operation) != nil {
			continue // it changes nothing, or the engine refused it
		}
		m.PID = int32(os.Getpid())
		m.Flags |= mapsock.FlagDone
		if expired[i] {
			m.Flags |= mapsock.FlagExpired
		}
		if results != nil && results[i] != nil {
			m.Flags &^= mapsock.FlagDone
			m.SetError(results[i])
		}
		before := len(b)
		if longer, err := m.AppendOperation(b); err == nil {
			b = longer
			messages += messagesIn(b[before:])
		}
	}
	if messages > 0 {
		few := s.tell(b, messages, mapsock.HearOperations, nil)
		few.flush()
	}
	return results
}

// expired finds the deletions of mappings whose TTL has ended.
func (o *observed) expired(operations []dataplane.Operation) []bool {
	all := make([]bool, len(operations))
	for i, operation := range operations {
		if d, ok := operation.(dataplane.DeleteMapping); ok {
			entry, there := o.server.plane.Mapping(d.Prefix)
			all[i] = there && o.server.hasExpired(&entry)
		}
	}
	return all
}

// Mapping is the engine's.
func (o *observed) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	return o.server.plane.Mapping(prefix)
}

// Mappings is the engine's.
func (o *observed) Mappings() iter.Seq[dataplane.MapCacheEntry] { return o.server.plane.Mappings() }

// Database is the engine's.
func (o *observed) Database() iter.Seq[dataplane.DatabaseEntry] { return o.server.plane.Database() }

// LocatorStates is the engine's.
func (o *observed) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return o.server.plane.LocatorStates()
}

// Flows is the engine's.
func (o *observed) Flows() iter.Seq[dataplane.FlowEntry] { return o.server.plane.Flows() }

// Settings is the engine's.
func (o *observed) Settings() dataplane.Settings { return o.server.plane.Settings() }

// Counters is the engine's and the server's; events that this process left unread are counted in.
func (o *observed) Counters() dataplane.Counters {
	c := o.server.allCounters()
	o.server.mu.Lock()
	defer o.server.mu.Unlock()
	c.EventsLost += o.lost
	return c
}

// Events is where this process gets the engine's events.
func (o *observed) Events() <-chan dataplane.Event { return o.events }

// Close closes the engine, and with its events the server.
func (o *observed) Close() error { return o.server.plane.Close() }

// Detach detaches the engine; the server closes, too.
func (o *observed) Detach(ctx context.Context) error { return o.server.plane.Detach(ctx) }
