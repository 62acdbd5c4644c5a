// SPDX-License-Identifier: Apache-2.0

// Package model is an engine in memory: dataplane.Plane for tests and simulators, and within the user engine,
// which has interfaces and sockets around it. It does to packets what package forward says, with tables, queue and
// counters around it, and hands over what it sends instead of sending it (RFC 9300 s.4). It starts no goroutine,
// opens nothing, and knows only the time it is given.
//
// Engine has the lock, mu, which guards all of its state but the options.
package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync"
	"time"

	"loci/dataplane"
	"loci/dataplane/model/packets"
	"loci/dataplane/model/tables"
	"loci/forward"
	"loci/lisp"
)

// The limits of an engine, where Options name none.
const (
	// DefaultMappings is how many map-cache entries fit.
	DefaultMappings = 1 << 20
	// DefaultDatabase is how many Database entries fit.
	DefaultDatabase = 1 << 16
	// DefaultPathMTU is what the path to an RLOC carries, in octets.
	DefaultPathMTU = 1500

	eventsWaiting = 1024
)

// Options are what an engine is made with; all may be left out.
type Options struct {
	Now      func() time.Time       // the clock; time.Now when nil
	Nonce    func() uint32          // for LISP headers; a counter when nil
	Emit     func(packets.Emission) // receives what is sent; it must not call the engine
	PathMTU  func(lisp.RLOC) int    // octets; 0 is no route
	Mappings int                    // limit of the map-cache
	Database int                    // limit of the Database
	Marking  forward.Marking

	// Routed: the host routes what is decapsulated, and counts the hop (host.go).
	Routed bool
	// AnswerFrom is the address that answers to a source of the site come from; nil: an own RLOC of its family.
	AnswerFrom func(to netip.Addr) netip.Addr
	// IsHost reports whether an address is one of the host, with Routed: what is decapsulated for it ends here,
	// whatever its TTL.
	IsHost func(netip.Addr) bool
}

// Engine is a dataplane.Plane.
type Engine struct {
	mu      sync.Mutex
	tables  *tables.Tables
	packets *packets.Path
	control dataplane.ControlMeter
	spare   []dataplane.MapCacheEntry // room for the next iteration of Mappings
}

var _ dataplane.Plane = (*Engine)(nil)

// New makes an engine with empty tables and the default waiting bounds.
func New(o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Emit == nil {
		o.Emit = func(packets.Emission) {}
	}
	if o.Nonce == nil {
		nonce := uint32(0)
		o.Nonce = func() uint32 { nonce++; return nonce }
	}
	if o.PathMTU == nil {
		o.PathMTU = func(lisp.RLOC) int { return DefaultPathMTU }
	}
	if o.Mappings == 0 {
		o.Mappings = DefaultMappings
	}
	if o.Database == 0 {
		o.Database = DefaultDatabase
	}
	t := tables.New(tables.Options{Now: o.Now, PathMTU: o.PathMTU, Mappings: o.Mappings, Database: o.Database})
	e := &Engine{tables: t}
	e.packets = packets.New(packets.Options{
		Control: &e.control,
		Now:     o.Now, Nonce: o.Nonce, Emit: o.Emit, Marking: o.Marking, Routed: o.Routed,
		AnswerFrom: o.AnswerFrom, IsHost: o.IsHost,
	}, t)
	return e
}

// Apply carries out operations in order.
func (e *Engine) Apply(operations ...dataplane.Operation) []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return dataplane.ApplyEach(operations, func(o dataplane.Operation) error {
		err := e.apply(o)
		if err == nil {
			e.control.Note(o)
		}
		return err
	})
}

func (e *Engine) apply(operation dataplane.Operation) error {
	if e.packets.Closed() {
		return dataplane.ErrClosed
	}
	switch o := operation.(type) {
	case dataplane.PutMapping:
		old, known := e.tables.Mapping(o.Entry.Mapping.Prefix)
		if err := e.tables.PutMapping(o.Entry); err != nil {
			return err
		}
		if known && !old.Mapping.Locators.Equal(o.Entry.Mapping.Locators) {
			e.packets.Memory().ForgetStatusBits(old.Mapping.Prefix.Instance(), old.Mapping.Prefix.Netip(), false)
		}
		e.packets.Release(o.Entry.Mapping.Prefix)
		return nil
	case dataplane.DeleteMapping:
		return e.deleteMapping(o.Prefix)
	case dataplane.PutDatabase:
		return e.tables.PutDatabase(o.Entry)
	case dataplane.DeleteDatabase:
		return e.tables.DeleteDatabase(o.Prefix)
	case dataplane.PutLocatorState:
		return e.tables.PutLocatorState(o.Path(), o.State)
	case dataplane.PutFlow:
		return e.tables.Flows.Put(o.Flow, o.Path)
	case dataplane.DeleteFlow:
		return e.tables.Flows.Delete(o.Flow)
	case dataplane.SetSettings:
		return e.set(o.Settings)
	case dataplane.Flush:
		if e.tables.Flush(o); o.MapCache {
			e.packets.Memory().ForgetAllStatusBits()
		}
		return nil
	}
	return fmt.Errorf("operation %T: %w", operation, dataplane.ErrUnsupported)
}

func (e *Engine) set(s dataplane.Settings) error {
	if err := s.CheckMisses(); err != nil {
		return err
	}
	for _, i := range s.Interfaces {
		if i.Name == "" || i.Instance > lisp.MaxInstanceID {
			return fmt.Errorf("interface %q of Instance-ID %d: %w", i.Name, i.Instance, dataplane.ErrInvalid)
		}
	}
	if err := errors.Join(s.CheckEncapsulations(), s.CheckLists(), s.CheckRoles(), s.CheckRTRs(),
		s.CheckPathIdentification()); err != nil {
		return err
	}
	e.packets.Configure(s.Clone())
	e.tables.Configure(s.LocalRLOCs, s.RecursionDepth)
	return nil
}

// Mapping returns the map-cache entry of exactly that prefix.
func (e *Engine) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tables.Mapping(prefix)
}

// Mappings yields the map-cache as it is when the iteration begins.
func (e *Engine) Mappings() iter.Seq[dataplane.MapCacheEntry] {
	return func(yield func(dataplane.MapCacheEntry) bool) {
		e.mu.Lock()
		entries := e.tables.Mappings(e.spare)
		e.spare = nil
		e.mu.Unlock()
		defer func() {
			e.mu.Lock()
			e.spare = entries[:0]
			e.mu.Unlock()
		}()
		for i := range entries {
			if !yield(entries[i]) {
				return
			}
		}
	}
}

// InPlace yields the map-cache's entries as they stand, not copies. They must not be changed, nor the engine be
// called meanwhile.
func (e *Engine) InPlace() iter.Seq[*dataplane.MapCacheEntry] {
	return func(yield func(*dataplane.MapCacheEntry) bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.tables.InPlace()(yield)
	}
}

// Database yields the Database in prefix order, as it is when the iteration begins.
func (e *Engine) Database() iter.Seq[dataplane.DatabaseEntry] {
	return func(yield func(dataplane.DatabaseEntry) bool) {
		e.mu.Lock()
		entries := e.tables.DatabaseEntries()
		e.mu.Unlock()
		for _, entry := range entries {
			if !yield(entry) {
				return
			}
		}
	}
}

// LocatorStates yields the locators that are down, in path order.
func (e *Engine) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return func(yield func(lisp.Path, dataplane.LocatorState) bool) {
		e.mu.Lock()
		states := e.tables.LocatorStates()
		e.mu.Unlock()
		for _, s := range states {
			if !yield(s.Path, s.State) {
				return
			}
		}
	}
}

// Flows yields the flows that are bound, as they are when the iteration begins.
func (e *Engine) Flows() iter.Seq[dataplane.FlowEntry] {
	return func(yield func(dataplane.FlowEntry) bool) {
		e.mu.Lock()
		flows := e.tables.Flows.All()
		e.mu.Unlock()
		for _, f := range flows {
			if !yield(f) {
				return
			}
		}
	}
}

// Settings returns what was last set.
func (e *Engine) Settings() dataplane.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.Settings()
}

// Counters returns the totals.
func (e *Engine) Counters() dataplane.Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.Counters()
}

// Burden is how many packets wait, and how many events found no room.
func (e *Engine) Burden() (packets int, eventsLost uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.Burden()
}

// Events is where misses arrive.
func (e *Engine) Events() <-chan dataplane.Event { return e.packets.Queue.Events() }

// Close ends the engine. Its tables can still be read.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.packets.Close()
	return nil
}

// Detach empties the tables and closes.
func (e *Engine) Detach(context.Context) error {
	e.mu.Lock()
	e.tables.Flush(dataplane.Flush{MapCache: true, Database: true, Flows: true})
	e.mu.Unlock()
	return e.Close()
}

// Send passes a packet to the engine as if it came in by an interface, and tells
// what became of it. A packet of an interface that is not in the settings passes.
func (e *Engine) Send(interfaceName string, packet []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.Send(interfaceName, packet)
}

// SendOwn passes a packet to the engine that this system itself sends.
func (e *Engine) SendOwn(instance lisp.InstanceID, packet []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.SendOwn(instance, packet)
}

// NextExpiry is when the oldest waiting packet is given up; false when none waits.
func (e *Engine) NextExpiry() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.NextExpiry()
}

// Raise hands an event to the control plane as if packets had caused it: what happens around an engine that is
// hosted, and what tests of readers of events want.
func (e *Engine) Raise(event dataplane.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.packets.Queue.Offer(event)
}

// deleteMapping also tells that the mapping had expired, unless many events wait.
func (e *Engine) deleteMapping(prefix lisp.Prefix) error {
	entry, _ := e.tables.Mapping(prefix)
	if err := e.tables.DeleteMapping(prefix); err != nil {
		return err
	}
	e.packets.Deleted(&entry)
	return nil
}

// EchoNonce implements dataplane.EchoReporter.
func (e *Engine) EchoNonce(rloc lisp.RLOC) dataplane.EchoState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.packets.EchoNonce(rloc)
}

// Sources implements dataplane.SourceReporter. They come in the order of RLOCs.
func (e *Engine) Sources() iter.Seq2[lisp.RLOC, time.Time] {
	e.mu.Lock()
	sources := e.packets.Sources()
	e.mu.Unlock()
	return func(yield func(lisp.RLOC, time.Time) bool) {
		for _, s := range sources {
			if !yield(s.RLOC, s.At) {
				return
			}
		}
	}
}
