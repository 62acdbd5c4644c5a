// SPDX-License-Identifier: Apache-2.0

package tables

// The flows that are bound to a path, with the times of each. None expires.

import (
	"fmt"
	"slices"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// Flows are those that are bound to a path.
type Flows struct {
	now   func() time.Time
	bound map[lisp.Flow]*boundFlow
	all   []*boundFlow // each at its place
	of    map[source]int
}

// source is where flows come from; of each are counted.
type source struct {
	instance lisp.InstanceID
	eid      lisp.EID
}

func sourceOf(f lisp.Flow) source { return source{f.Instance, f.Source} }

type boundFlow struct {
	entry dataplane.FlowEntry
	place int // in all
}

func newFlows(now func() time.Time) *Flows {
	return &Flows{now: now, bound: map[lisp.Flow]*boundFlow{}, of: map[source]int{}}
}

// Put binds a flow to a path, or to another one.
func (f *Flows) Put(flow lisp.Flow, path lisp.Path) error {
	if err := flow.Valid(); err != nil {
		return fmt.Errorf("%w: %w", err, dataplane.ErrInvalid)
	}
	if err := path.Valid(); err != nil {
		return fmt.Errorf("flow %s: %w: %w", flow, err, dataplane.ErrInvalid)
	}
	if known := f.bound[flow]; known != nil {
		known.entry.Path = path
		return nil
	}
	if len(f.all) >= dataplane.MaxFlows {
		return fmt.Errorf("flow %s: %d are bound: %w", flow, len(f.all), dataplane.ErrFull)
	}
	if n := f.of[sourceOf(flow)]; n >= dataplane.MaxFlowsOfSource {
		return fmt.Errorf("flow %s: %d of its source EID are bound: %w", flow, n, dataplane.ErrFull)
	}
	f.of[sourceOf(flow)]++
	added := &boundFlow{entry: dataplane.FlowEntry{Flow: flow, Path: path, CreatedAt: f.now()}, place: len(f.all)}
	f.bound[flow] = added
	f.all = append(f.all, added)
	return nil
}

// Delete ends the binding of a flow.
func (f *Flows) Delete(flow lisp.Flow) error {
	gone := f.bound[flow]
	if gone == nil {
		return fmt.Errorf("flow %s: %w", flow, dataplane.ErrNotFound)
	}
	delete(f.bound, flow)
	if f.of[sourceOf(flow)]--; f.of[sourceOf(flow)] == 0 {
		delete(f.of, sourceOf(flow))
	}
	last := f.all[len(f.all)-1]
	f.all[gone.place], last.place = last, gone.place
	f.all = slices.Delete(f.all, len(f.all)-1, len(f.all))
	return nil
}

// Use notes that a packet of a flow went by.
func (f *Flows) Use(flow lisp.Flow) {
	if known := f.bound[flow]; known != nil {
		known.entry.LastUsedAt = f.now()
	}
}

// All lists them, in the order in which they were bound as long as none ends.
func (f *Flows) All() []dataplane.FlowEntry {
	entries := make([]dataplane.FlowEntry, len(f.all))
	for i, flow := range f.all {
		entries[i] = flow.entry
	}
	return entries
}

func (f *Flows) path(flow lisp.Flow) (lisp.Path, bool) {
	if len(f.all) == 0 {
		return lisp.Path{}, false
	}
	known := f.bound[flow]
	if known == nil {
		return lisp.Path{}, false
	}
	return known.entry.Path, true
}

func (f *Flows) clear() {
	clear(f.bound)
	clear(f.of)
	f.all = nil
}
