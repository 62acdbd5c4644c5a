// SPDX-License-Identifier: Apache-2.0

// This file marks entries of the Database for who follows routes (nexthop.Entries). It judges none.

package entries

import (
	"loci/dataplane/kernel/tables"
	"loci/lisp"
)

// DatabaseEdits implements nexthop.Entries.
func (e *Entries) DatabaseEdits() (edits uint64, open bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.guarded.tables.DatabaseEdits, !e.guarded.closed
}

// DatabaseEntries implements nexthop.Entries.
func (e *Entries) DatabaseEntries(limit int) (entries []tables.DatabaseEntry, own []lisp.RLOC, edits uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return nil, nil, 0
	}
	return e.guarded.tables.DatabaseEntries(limit), e.guarded.settings.LocalRLOCs, e.guarded.tables.DatabaseEdits
}

// MarkSingleNextHops implements nexthop.Entries.
func (e *Entries) MarkSingleNextHops(entries []tables.DatabaseEntry) (marked []tables.DatabaseEntry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return nil
	}
	for _, entry := range entries {
		if e.guarded.tables.MarkSingleNextHop(entry) {
			marked = append(marked, entry)
		}
	}
	return marked
}

// UnmarkSingleNextHops implements nexthop.Entries. It works on until the store's memory goes: who follows routes
// leaves no mark.
func (e *Entries) UnmarkSingleNextHops(indexes []uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.guarded.tables.UnmarkSingleNextHops(indexes)
}

// CountSingleNextHops implements nexthop.Entries.
func (e *Entries) CountSingleNextHops(indexes []uint32) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.guarded.closed {
		return 0
	}
	return e.guarded.tables.CountSingleNextHops(indexes)
}
