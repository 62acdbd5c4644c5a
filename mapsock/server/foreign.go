// SPDX-License-Identifier: Apache-2.0

package server

// Which mappings clients have changed since the control plane of this process last did: what it knows of them may be another thing
// than what packets meet. `loci status` compares the two.

import (
	"cmp"
	"slices"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// maxForeign bounds the EID-Prefixes that are remembered; those beyond are counted.
const maxForeign = 1024

// foreignChanges are under Server.apply.
type foreignChanges struct {
	at   map[lisp.Prefix]time.Time
	more uint64 // changes that were not remembered
}

// note takes operations of a client that were carried out.
func (f *foreignChanges) note(now time.Time, operations []dataplane.Operation, results []error) {
	for i, operation := range operations {
		if results != nil && results[i] != nil {
			continue
		}
		switch o := operation.(type) {
		case dataplane.PutMapping:
			f.add(o.Entry.Mapping.Prefix, now)
		case dataplane.DeleteMapping:
			f.add(o.Prefix, now)
		case dataplane.Flush:
			if o.MapCache {
				f.add(lisp.Prefix{}, now)
			}
		}
	}
}

func (f *foreignChanges) add(p lisp.Prefix, now time.Time) {
	if _, known := f.at[p]; !known && len(f.at) >= maxForeign {
		f.more++
		return
	}
	if f.at == nil {
		f.at = map[lisp.Prefix]time.Time{}
	}
	f.at[p] = now
}

// forget is for what the control plane of this process has set itself.
func (f *foreignChanges) forget(operations []dataplane.Operation) {
	if len(f.at) == 0 {
		return
	}
	for _, operation := range operations {
		switch o := operation.(type) {
		case dataplane.PutMapping:
			delete(f.at, o.Entry.Mapping.Prefix)
		case dataplane.DeleteMapping:
			delete(f.at, o.Prefix)
		}
	}
}

// ForeignChanges implements dataplane.ForeignReporter.
func (o *observed) ForeignChanges() (list []dataplane.ForeignChange, more uint64) {
	o.server.apply.Lock()
	defer o.server.apply.Unlock()
	f := &o.server.foreign
	for p, at := range f.at {
		list = append(list, dataplane.ForeignChange{Prefix: p, At: at})
	}
	slices.SortFunc(list, func(a, b dataplane.ForeignChange) int { return cmp.Or(a.Prefix.Compare(b.Prefix), a.At.Compare(b.At)) })
	return list, f.more
}
