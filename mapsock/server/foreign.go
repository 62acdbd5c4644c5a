// SPDX-License-Identifier: Apache-2.0

package server

// Which mappings clients have changed since the control plane of this process last did: what it knows of them may be
// another thing than what packets meet. `loci status` compares the two.

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// maxForeign bounds the EID-Prefixes that are remembered; those beyond are counted.
const maxForeign = 1024

// foreignChanges are under Server.apply.
type foreignChanges struct {
	changed map[lisp.Prefix]foreignChange
	more    uint64 // changes that were not remembered
}

// foreignChange is what clients made of a mapping.
type foreignChange struct {
	at     time.Time // of the last change
	before lisp.Mapping
	had    bool // there was one before
}

// apply has an engine carry out operations of a client, and notes what they change. What makes a mapping again what
// it was is undone.
func (f *foreignChanges) apply(plane dataplane.Plane, now time.Time, operations []dataplane.Operation) []error {
	var seen map[lisp.Prefix]foreignChange
	room := maxForeign - len(f.changed)
	for _, operation := range operations {
		p, ok := mappingChangedBy(operation)
		change, known := f.changed[p]
		_, again := seen[p]
		if !ok || again || !known && room == 0 {
			continue
		}
		if !known {
			entry, had := plane.Mapping(p)
			change, room = foreignChange{before: entry.Mapping, had: had}, room-1
		}
		if seen == nil {
			seen = map[lisp.Prefix]foreignChange{}
		}
		seen[p] = change
	}
	results := plane.Apply(operations...)
	for i, operation := range operations {
		if p, ok := mappingChangedBy(operation); ok && (results == nil || results[i] == nil) {
			f.note(plane, now, p, seen)
		}
	}
	return results
}

// mappingChangedBy is the EID-Prefix of the mapping that an operation changes; zero for all of them.
func mappingChangedBy(operation dataplane.Operation) (p lisp.Prefix, ok bool) {
	switch o := operation.(type) {
	case dataplane.PutMapping:
		return o.Entry.Mapping.Prefix, true
	case dataplane.DeleteMapping:
		return o.Prefix, true
	case dataplane.Flush:
		return p, o.MapCache
	}
	return p, false
}

// note notes a change that was carried out.
func (f *foreignChanges) note(plane dataplane.Plane, now time.Time, p lisp.Prefix, seen map[lisp.Prefix]foreignChange) {
	change, known := seen[p]
	if !known {
		f.more++
		return
	}
	entry, there := plane.Mapping(p)
	is, was := &entry.Mapping, &change.before
	if !p.IsZero() && there == change.had && is.Action == was.Action && is.Locators.Equal(was.Locators) {
		delete(f.changed, p)
		return
	}
	if f.changed == nil {
		f.changed = map[lisp.Prefix]foreignChange{}
	}
	change.at = now
	f.changed[p] = change
}

// forget is for what the control plane of this process has set itself.
func (f *foreignChanges) forget(operations []dataplane.Operation) {
	if len(f.changed) == 0 {
		return
	}
	for _, operation := range operations {
		switch o := operation.(type) {
		case dataplane.PutMapping:
			delete(f.changed, o.Entry.Mapping.Prefix)
		case dataplane.DeleteMapping:
			delete(f.changed, o.Prefix)
		}
	}
}

// ForeignChanges implements dataplane.ForeignReporter.
func (o *observed) ForeignChanges() (list []dataplane.ForeignChange, more uint64) {
	o.server.apply.Lock()
	defer o.server.apply.Unlock()
	f := &o.server.foreign
	for p, change := range f.changed {
		list = append(list, dataplane.ForeignChange{Prefix: p, At: change.at})
	}
	slices.SortFunc(list, func(a, b dataplane.ForeignChange) int { return a.Prefix.Compare(b.Prefix) })
	return list, f.more
}
