// SPDX-License-Identifier: Apache-2.0

// Package model is an engine in memory: dataplane.Plane for tests and simulators, and within the user engine,
// which has interfaces and sockets around it. It does to packets what package forward says, with tables, queue and
// counters around it, and hands over what it sends instead of sending it (RFC 9300 s.4). It starts no goroutine,
// opens nothing, and knows only the time it is given.
//
// Engine has the lock, mu, which guards all of its state but the options.
package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync"
	"time"

	"loci/dataplane"
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
	Now      func() time.Time    // the clock; time.Now when nil
	Nonce    func() uint32       // for LISP headers; a counter when nil
	Emit     func(Emission)      // receives what is sent; it must not call the engine
	PathMTU  func(lisp.RLOC) int // octets; 0 is no route
	Mappings int                 // limit of the map-cache
	Database int                 // limit of the Database
	Marking  forward.Marking

	// Routed: the host routes what is decapsulated, and counts the hop (host.go).
	Routed bool
	// AnswerFrom is the address that answers to a source of the site come from; nil: an own RLOC of its family.
	AnswerFrom func(to netip.Addr) netip.Addr
	// IsHost reports whether an address is one of the host, with Routed: what is decapsulated for it ends here, whatever its TTL.
	IsHost func(netip.Addr) bool
}

// Way is where a packet goes.
type Way uint8

// The ways.
const (
	ToCore   Way = iota // encapsulated
	ToSite              // decapsulated, or an answer to a host of the site
	ToStack             // decapsulated, for this system itself
	Natively            // as without LISP
)

// Emission is a packet that an engine sends.
type Emission struct {
	Way         Way
	Packet      []byte
	Destination lisp.RLOC // with ToCore
	Relayed     bool      // with ToCore: by an RTR
	Interface   string    // where the packet came from; empty for own packets
}

// Engine is a dataplane.Plane.
type Engine struct {
	options Options

	mu           sync.Mutex
	closed       bool
	settings     dataplane.Settings
	tables       *tables.Tables
	spare        []dataplane.MapCacheEntry // room for the next iteration of Mappings
	router       forward.XTR
	waiting      *forward.WaitQueue[waitingPacket]
	unreachables limiter // of answers, by source
	misses       limiter // of events, by destination
	sources      sources
	counters     counters
	events       chan dataplane.Event
}

var _ dataplane.Plane = (*Engine)(nil)

// New makes an engine with empty tables and the default waiting bounds.
func New(o Options) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Emit == nil {
		o.Emit = func(Emission) {}
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
	e := &Engine{
		options:  o,
		settings: dataplane.Settings{Wait: dataplane.DefaultWaitBounds},
		waiting:  forward.NewWaitQueue[waitingPacket](forward.WaitBounds(dataplane.DefaultWaitBounds)),
		events:   make(chan dataplane.Event, eventsWaiting),
		misses:   limiter{interval: missInterval}, unreachables: limiter{interval: unreachableInterval},
	}
	e.counters.Drops, e.counters.Other = map[string]uint64{}, map[string]uint64{}
	e.tables = tables.New(tables.Options{Now: o.Now, PathMTU: o.PathMTU, Mappings: o.Mappings, Database: o.Database})
	e.router = forward.XTR{Tables: e.tables, Marking: o.Marking, Memory: &forward.Memory{}, Miss: missesOf(&e.settings)}
	return e
}

// Apply carries out operations in order.
func (e *Engine) Apply(operations ...dataplane.Operation) []error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return dataplane.ApplyEach(operations, e.apply)
}

func (e *Engine) apply(operation dataplane.Operation) error {
	if e.closed {
		return dataplane.ErrClosed
	}
	switch o := operation.(type) {
	case dataplane.PutMapping:
		old, known := e.tables.Mapping(o.Entry.Mapping.Prefix)
		if err := e.tables.PutMapping(o.Entry); err != nil {
			return err
		}
		if known && !old.Mapping.Locators.Equal(o.Entry.Mapping.Locators) {
			e.router.Memory.ForgetStatusBits(old.Mapping.Prefix.Instance(), old.Mapping.Prefix.Netip(), false)
		}
		e.release(o.Entry.Mapping.Prefix)
		return nil
	case dataplane.DeleteMapping:
		return e.deleteMapping(o.Prefix)
	case dataplane.PutDatabase:
		return e.tables.PutDatabase(o.Entry)
	case dataplane.DeleteDatabase:
		return e.tables.DeleteDatabase(o.Prefix)
	case dataplane.PutLocatorState:
		return e.tables.PutLocatorState(o.Path(), o.State)
	case dataplane.SetSettings:
		return e.set(o.Settings)
	case dataplane.Flush:
		if e.tables.Flush(o); o.MapCache {
			e.router.Memory.ForgetAllStatusBits()
		}
		return nil
	}
	return fmt.Errorf("operation %T: %w", operation, dataplane.ErrUnsupported)
}

var missPolicies = [...]forward.MissPolicy{
	dataplane.MissQueue: forward.MissWait, dataplane.MissHandOver: forward.MissWait, dataplane.MissDrop: forward.MissDrop, dataplane.MissForwardNatively: forward.MissNative,
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
	if err := errors.Join(s.CheckEncapsulations(), s.CheckLists(), s.CheckRoles()); err != nil {
		return err
	}
	e.settings = s.Clone()
	e.router.Trusted = trustedOf(s.Header)
	e.router.VXLANGPE = s.TakesVXLANGPE()
	e.router.Encapsulation = func(r lisp.RLOC) forward.Encapsulation { return forward.Encapsulation(e.settings.EncapsulationTo(r)) }
	e.router.Denies = deniesOf(&e.settings)
	e.waiting.SetBounds(forward.WaitBounds(s.Wait))
	e.router.Roles, e.router.RecursionDepth = rolesOf(&e.settings), int(s.RecursionDepth)
	e.tables.Configure(s.LocalRLOCs, s.RecursionDepth)
	return nil
}

// deniesOf asks the lists of a kind.
func deniesOf(s *dataplane.Settings) func(kind forward.ListKind, instance lisp.InstanceID, a netip.Addr) bool {
	return func(kind forward.ListKind, instance lisp.InstanceID, a netip.Addr) bool {
		packets, address := dataplane.ListEncapsulated, dataplane.ListAddress(kind&^forward.ListDecapsulated)
		if kind&forward.ListDecapsulated != 0 {
			packets = dataplane.ListDecapsulated
		}
		for i := range s.Lists {
			if l := &s.Lists[i]; l.Packets == packets && l.Address == address && l.Instance == instance {
				return l.Denies(a)
			}
		}
		return false
	}
}

func trustedOf(h dataplane.HeaderSettings) forward.Trusted {
	return forward.Trusted{
		PublicInternet: h.PublicInternet, StatusBits: h.StatusBits, MapVersions: h.MapVersions, EchoNonce: h.EchoNonce, Glean: h.Glean,
		Source: forward.SourceCheck(h.SourceCheck), HintInterval: dataplane.HintInterval,
		Echo: forward.EchoTimes{Wait: cmp.Or(h.EchoWait, dataplane.DefaultEchoWait), Interval: cmp.Or(h.EchoInterval, dataplane.DefaultEchoInterval)},
	}
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

// InPlace yields the map-cache's entries as they stand, not copies. They must not be changed, nor the engine be called meanwhile.
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

// Settings returns what was last set.
func (e *Engine) Settings() dataplane.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings.Clone()
}

// Counters returns the totals.
func (e *Engine) Counters() dataplane.Counters {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire()
	c := e.counters.Counters
	c.WaitingPackets, c.WaitingOctets = uint64(e.waiting.Packets()), uint64(e.waiting.Octets())
	c.Drops, c.Other = cloneCounts(c.Drops), cloneCounts(c.Other)
	return c
}

// Burden is how many packets wait, and how many events found no room.
func (e *Engine) Burden() (packets int, eventsLost uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire()
	return e.waiting.Packets(), e.counters.EventsLost
}

func cloneCounts(counts map[string]uint64) map[string]uint64 {
	clone := make(map[string]uint64, len(counts))
	for name, n := range counts {
		clone[name] = n
	}
	return clone
}

// Events is where misses arrive.
func (e *Engine) Events() <-chan dataplane.Event { return e.events }

// Close ends the engine. Its tables can still be read.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.events)
	}
	return nil
}

// Detach empties the tables and closes.
func (e *Engine) Detach(context.Context) error {
	e.mu.Lock()
	e.tables.Flush(dataplane.Flush{MapCache: true, Database: true})
	e.mu.Unlock()
	return e.Close()
}
