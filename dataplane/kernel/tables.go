// SPDX-License-Identifier: Apache-2.0

// This file keeps both tables, the map-cache and the Database, in the records that
// programs read: it finds room, writes a record whole, links it into the forwarding
// table, and edits linked records by stores that each leave a right answer
// (bpf/abi.h, "Forwarding table"). It knows memory alone; what needs a system call
// goes through lpm.Memory. It never expires an entry.

package kernel

import (
	"fmt"
	"sync/atomic"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
	"loci/lisp"
)

// tables keeps entries of the map-cache and the Database.
type tables struct {
	clearUsage func(index uint32)
	changed    generations
	records    []abi.Mapping
	indexes    *mappingPages
	sets       *locatorSets
	table      *lpm.Table
	hurry      func() // see tableParts
	entries    entryIndex
	database   map[uint32]struct{} // indexes of the Database's entries
	generation uint64              // grows with every entry that is added
	born       []uint64            // by index: the generation of its entry
	// databaseEdits grows when an entry of the Database is added or replaced.
	databaseEdits uint64
}

// tableParts are what tables are made of.
type tableParts struct {
	memory     lpm.Memory
	clearUsage func(index uint32) // zeroes the counters of a mapping's index
	changed    generations
	records    []abi.Mapping
	pages      []uint64 // see mappingPages
	sets       []abi.LocatorSet
	locators   []abi.Locator
	cellLimit  int // of the forwarding table
	now        func() time.Duration
	wait       func() // until no program holds an index that was retired before
	// passed is a clock that need not be even: by it restTime goes by when programs are known to hold nothing retired
	// before, and hurry has that looked after; nil: now, and no such way.
	passed func() time.Duration
	hurry  func()
	stored func() // see lpmParts
}

// waitForDecisions waits as well until no program goes by what it keeps about the
// index of a locator-set, which it does for nearly as long as an index rests.
func (p *tableParts) waitForDecisions() {
	p.wait()
	p.changed.all()
}

// newTables makes empty tables, which goOnline puts in force.
func newTables(p tableParts) (*tables, error) {
	if p.passed == nil {
		p.passed, p.hurry = p.now, func() {}
	}
	t := &tables{
		clearUsage: p.clearUsage, changed: p.changed, records: p.records, hurry: p.hurry,
		indexes: newMappingPages(p.records, p.pages, p.passed, p.wait),
		sets: newLocatorSets(p.sets, reclaim.NewIndexes(uint32(len(p.sets)), p.now, p.waitForDecisions),
			p.locators, reclaim.NewArena(uint32(len(p.locators)), p.now, p.wait)),
		entries: newEntryIndex(p.records), born: make([]uint64, len(p.records)), database: map[uint32]struct{}{},
	}
	t.sets.changed = p.changed
	var err error
	t.table, err = lpm.New(lpm.Parts{
		Memory: p.memory, Entries: &t.entries, Limit: len(p.records), CellLimit: p.cellLimit,
		Now: p.now, Passed: p.passed, Wait: p.wait, Hurry: p.hurry, Stored: p.stored,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// When fewer than scarceIndexes are left and some rest, programs are waited for in the background.
const scarceIndexes = 1 << 10

// entry is what put writes, the common part of both tables' entries.
type entry struct {
	key       lpm.Key
	locators  lisp.LocatorSet
	flags     uint32
	action    lisp.Action
	cookie    uint32
	createdNs uint64
	expiresNs uint64
	ttl       uint32
	version   uint16
}

// put adds an entry or replaces the one of the same prefix, which keeps its index
// and so its counters. held says that the programs hold the entry's packets back
// (HOLD) until unhold.
func (t *tables) put(e entry) (index uint32, held bool, err error) {
	set, err := t.sets.acquire(e.locators)
	if err != nil {
		return 0, false, err
	}
	positive := set != abi.NoLocatorSet && e.key.Kind == abi.RootMapCache
	if index, exists := t.entries.Get(e.key); exists {
		record := &t.records[index]
		old := record.LocatorSet
		held = positive && (old == abi.NoLocatorSet || record.Flags&abi.MappingHold != 0)
		if held {
			e.flags |= abi.MappingHold
		}
		t.indexes.change(index)
		replaceRecord(record, e, set)
		t.indexes.changed(index)
		if e.key.Kind == abi.RootDatabase {
			t.databaseEdits++
		}
		t.changed.of(&e.key)
		t.sets.release(old)
		return index, held, nil
	}
	if positive {
		e.flags |= abi.MappingHold
	}
	index, err = t.add(e, set)
	if err != nil {
		t.sets.release(set)
		return 0, false, err
	}
	return index, positive, nil
}

// add writes the record of a new entry and links it.
func (t *tables) add(e entry, set uint32) (uint32, error) {
	if err := t.table.MakeRoom(); err != nil {
		return 0, err
	}
	index, reused, ok := t.indexes.take(keyOfPage(&e.key, set))
	if !ok {
		return 0, fmt.Errorf("%w: %d entries", dataplane.ErrFull, len(t.records))
	}
	if t.indexes.isScarce(scarceIndexes) {
		t.hurry()
	}
	if reused {
		t.clearUsage(index)
	}
	t.records[index] = recordOf(e, set)
	t.indexes.changed(index)
	if err := t.table.Insert(e.key, index); err != nil {
		t.indexes.change(index)
		t.records[index] = abi.Mapping{}
		t.indexes.giveBack(index)
		return 0, err
	}
	t.generation++
	t.born[index] = t.generation
	t.addEntry(index, e.key.Kind)
	t.table.Inserted(&e.key)
	t.changed.of(&e.key)
	return index, nil
}

// addEntry notes a record that is in force.
func (t *tables) addEntry(index uint32, kind uint8) {
	t.entries.add(index)
	if kind == abi.RootDatabase {
		t.database[index] = struct{}{}
		t.databaseEdits++
	}
}

// goOnline makes the programs use these tables.
func (t *tables) goOnline() error {
	if err := t.table.GoOnline(); err != nil {
		return err
	}
	t.changed.all()
	return nil
}

// delete takes an entry out; false when there is none. The record stays readable
// for programs that hold its index, but counts as no entry any more.
func (t *tables) delete(key lpm.Key) (bool, error) {
	index, exists := t.entries.Get(key)
	if !exists {
		return false, nil
	}
	if err := t.table.Remove(key, index); err != nil {
		return false, err
	}
	t.changed.of(&key)
	record := &t.records[index]
	atomic.StoreUint32(&record.Cookie, record.Cookie|cookieDeleted)
	t.entries.remove(key)
	delete(t.database, index)
	t.born[index] = 0
	t.indexes.giveBack(index)
	t.sets.release(record.LocatorSet)
	t.table.Removed(key.Root())
	return true, nil
}

// lookup returns the record that programs find for an address.
func (t *tables) lookup(kind, family uint8, instance uint32, address []byte) (*abi.Mapping, bool) {
	index, ok := t.lookupIndex(kind, family, instance, address)
	if !ok {
		return nil, false
	}
	return &t.records[index], true
}

// lookupIndex returns the index of that record.
func (t *tables) lookupIndex(kind, family uint8, instance uint32, address []byte) (uint32, bool) {
	return t.table.Lookup(lpm.RootKey{Kind: kind, Family: family, Instance: instance}, address)
}

// shrink gives memory back that is not needed any more.
func (t *tables) shrink() { t.table.Shrink() }

// unhold lets the programs forward by an entry, if it is still the one that was
// added in that generation.
func (t *tables) unhold(index uint32, generation uint64) {
	if t.born[index] == generation {
		record := &t.records[index]
		atomic.StoreUint32(&record.Flags, record.Flags&^abi.MappingHold)
		t.indexes.changed(index)
	}
}

// setSources changes the own RLOCs that mappings' packets are sent from.
func (t *tables) setSources(source4, source6 lisp.RLOC) error {
	return t.sets.setSources(source4, source6, func(moved map[uint32]uint32) {
		for _, index := range t.entries.All() {
			if to, ok := moved[t.records[index].LocatorSet]; ok {
				t.indexes.change(index)
				atomic.StoreUint32(&t.records[index].LocatorSet, to)
				t.indexes.changed(index)
			}
		}
		t.changed.all()
	})
}

// recordOf makes the record of a new entry.
func recordOf(e entry, set uint32) abi.Mapping {
	return abi.Mapping{
		Flags: e.flags | abi.MappingValid, Iid: e.key.Instance, LocatorSet: set, Action: uint8(e.action),
		Family: e.key.Family, PrefixLength: e.key.Bits, Prefix: e.key.Address,
		CreatedNs: e.createdNs, ExpiresNs: e.expiresNs, TtlMinutes: e.ttl, MapVersion: e.version, Cookie: e.cookie,
	}
}

// replaceRecord changes a linked record. The action counts only without locators,
// so it is stored while they still count, or not at all: in between, programs act by
// the old entry or by the new one. The times of a mapping come last: where the process is
// killed before, the next one lets no old locators live for longer. Those of the Database's
// entries are for programs, which are not to tell Locator-Status-Bits of other locators before.
func replaceRecord(record *abi.Mapping, e entry, set uint32) {
	if e.key.Kind == abi.RootDatabase {
		atomic.StoreUint64(&record.ExpiresNs, e.expiresNs)
	}
	record.MapVersion = e.version
	atomic.StoreUint32(&record.Flags, e.flags|abi.MappingValid)
	if set == abi.NoLocatorSet {
		record.Action = uint8(e.action)
	}
	atomic.StoreUint32(&record.LocatorSet, set)
	atomic.StoreUint64(&record.CreatedNs, e.createdNs)
	atomic.StoreUint64(&record.ExpiresNs, e.expiresNs)
	atomic.StoreUint32(&record.TtlMinutes, e.ttl)
	atomic.StoreUint32(&record.Cookie, e.cookie)
}
