// SPDX-License-Identifier: Apache-2.0

// This file is what dataplane.Plane and its optional interfaces ask. What it says of entries, package entries knows.

package kernel

import (
	"iter"
	"slices"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/entries"
	"loci/dataplane/kernel/underlay"
	"loci/lisp"
)

// Apply implements dataplane.Plane.
func (e *Engine) Apply(operations ...dataplane.Operation) []error {
	e.changing.Lock()
	defer e.changing.Unlock()
	return e.applyAll(operations)
}

// TryApply implements dataplane.PromptPlane.
func (e *Engine) TryApply(operations ...dataplane.Operation) (errs []error, done bool) {
	if !e.changing.TryLock() {
		return nil, false
	}
	defer e.changing.Unlock()
	return e.applyAll(operations), true
}

// applyAll carries out operations. The caller holds changing.
func (e *Engine) applyAll(operations []dataplane.Operation) []error {
	if e.closed {
		return slices.Repeat([]error{dataplane.ErrClosed}, len(operations))
	}
	var errs []error
	var releases []entries.Release
	e.entries.AdjustClock()
	for i, operation := range operations {
		released, err := e.apply(operation)
		if released.Generation != 0 {
			if releases == nil {
				releases = make([]entries.Release, 0, len(operations)-i)
			}
			releases = append(releases, released)
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(operations))
		}
		errs[i] = err
	}
	e.queue.Installed(releases)
	return errs
}

// apply carries out one operation. The caller holds changing. A release without a generation is none.
func (e *Engine) apply(operation dataplane.Operation) (none entries.Release, err error) {
	if o, ok := operation.(dataplane.SetSettings); ok {
		return none, e.setSettings(o.Settings)
	}
	if none, err = e.entries.Apply(operation); err == nil {
		e.reassembly.Note(operation)
	}
	return none, err
}

// Events implements dataplane.Plane.
func (e *Engine) Events() <-chan dataplane.Event { return e.misses.Events() }

// TellAtOnce implements dataplane.PromptPlane.
func (e *Engine) TellAtOnce(take func([]dataplane.Event) bool) { e.misses.TellAtOnce(take) }

// Mapping implements dataplane.Plane.
func (e *Engine) Mapping(prefix lisp.Prefix) (dataplane.MapCacheEntry, bool) {
	return e.entries.Mapping(prefix)
}

// Mappings implements dataplane.Plane.
func (e *Engine) Mappings() iter.Seq[dataplane.MapCacheEntry] { return e.entries.Mappings() }

// Database implements dataplane.Plane.
func (e *Engine) Database() iter.Seq[dataplane.DatabaseEntry] { return e.entries.Database() }

// LocatorStates implements dataplane.Plane.
func (e *Engine) LocatorStates() iter.Seq2[lisp.Path, dataplane.LocatorState] {
	return e.entries.LocatorStates()
}

// Flows implements dataplane.Plane.
func (e *Engine) Flows() iter.Seq[dataplane.FlowEntry] { return e.entries.Flows() }

// Settings implements dataplane.Plane.
func (e *Engine) Settings() dataplane.Settings { return e.entries.Settings() }

// Counters implements dataplane.Plane.
func (e *Engine) Counters() dataplane.Counters {
	c, open := e.entries.Counters()
	if open {
		c.WaitingPackets, c.WaitingOctets = e.queue.Waiting()
	}
	return c
}

// EchoNonce implements dataplane.EchoReporter.
func (e *Engine) EchoNonce(rloc lisp.RLOC) dataplane.EchoState { return e.entries.EchoNonce(rloc) }

// Sources implements dataplane.SourceReporter.
func (e *Engine) Sources() iter.Seq2[lisp.RLOC, time.Time] { return e.entries.Sources() }

// PathMTU implements dataplane.PathReporter.
func (e *Engine) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) {
	known, learnt := e.entries.PathMTU(rloc)
	route, err := underlay.RouteMTU(e.space, rloc)
	switch {
	case err != nil:
		return 0, false
	case learnt && known < route:
		return known, true
	}
	return route, false
}

// InterfaceStates implements dataplane.InterfaceReporter.
func (e *Engine) InterfaceStates() []dataplane.InterfaceState { return e.interfaces.States() }

// isCore reports whether an interface leads to the core.
func (e *Engine) isCore(ifindex uint32) bool {
	record, _ := e.interfaces.RecordOf(ifindex)
	return record.Flags&abi.InterfaceCore != 0
}
