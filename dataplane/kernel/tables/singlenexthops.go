// SPDX-License-Identifier: Apache-2.0

// This file marks entries of the Database all of whose packets have a single next hop (bpf/abi.h,
// LISP_MAPPING_SINGLE_NEXT_HOP). It judges none.

package tables

import (
	"net/netip"
	"sync/atomic"

	"loci/dataplane/kernel/abi"
)

// A DatabaseEntry is an entry of the Database as it was found.
type DatabaseEntry struct {
	Index  uint32
	Prefix netip.Prefix
	born   uint64
}

// DatabaseEntries returns entries of the Database, at most so many.
func (t *Tables) DatabaseEntries(limit int) (entries []DatabaseEntry) {
	for index := range t.Database {
		key := KeyOf(&t.Records[index])
		if prefix, err := key.Prefix(); err == nil && len(entries) < limit {
			entries = append(entries, DatabaseEntry{index, prefix.Netip(), t.Born[index]})
		}
	}
	return entries
}

// MarkSingleNextHop marks an entry, unless it is another one by now.
func (t *Tables) MarkSingleNextHop(e DatabaseEntry) bool {
	if t.Born[e.Index] != e.born {
		return false
	}
	record := &t.Records[e.Index]
	atomic.StoreUint32(&record.Flags, record.Flags|abi.MappingSingleNextHop)
	return true
}

// UnmarkSingleNextHops takes marks away, of which programs may have made decisions.
func (t *Tables) UnmarkSingleNextHops(indexes []uint32) {
	for _, index := range indexes {
		record := &t.Records[index]
		atomic.StoreUint32(&record.Flags, record.Flags&^abi.MappingSingleNextHop)
	}
	if len(indexes) > 0 {
		t.changed.All()
	}
}

// CountSingleNextHops returns how many of these are entries with a mark.
func (t *Tables) CountSingleNextHops(indexes []uint32) (marked int) {
	for _, index := range indexes {
		if t.Born[index] != 0 && t.Records[index].Flags&abi.MappingSingleNextHop != 0 {
			marked++
		}
	}
	return marked
}
