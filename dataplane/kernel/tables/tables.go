// SPDX-License-Identifier: Apache-2.0

// This file keeps both tables, the map-cache and the Database, in the records that
// programs read: it finds room, writes a record whole, links it into the forwarding
// table, and edits linked records by stores that each leave a right answer
// (bpf/abi.h, "Forwarding table"). It knows memory alone; what needs a system call
// goes through lpm.Memory. It never expires an entry.

package tables

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

// Tables keeps entries of the map-cache and the Database.
type Tables struct {
	clearUsage func(index uint32)
	changed    Generations
	Records    []abi.Mapping
	indexes    *indexRuns
	Sets       *LocatorSets
	Table      *lpm.Table
	hurry      func() // see tableParts
	Entries    entryIndex
	Database   map[uint32]struct{} // indexes of the Database's entries
	Generation uint64              // grows with every entry that is added
	Born       []uint64            // by index: the generation of its entry
	// DatabaseEdits grows when an entry of the Database is added or replaced.
	DatabaseEdits uint64
}

// Parts are what tables are made of.
type Parts struct {
	Memory     lpm.Memory
	ClearUsage func(index uint32) // zeroes the counters of a mapping's index
	Changed    Generations
	Records    []abi.Mapping
	Runs       []uint64 // see mappingPages
	Sets       []abi.LocatorSet
	Locators   []abi.Locator
	Paths      PathStore // nil: they end with the process
	CellLimit  int       // of the forwarding table
	Now        func() time.Duration
	Wait       func() // until no program holds an index that was retired before
	// Passed is a clock that need not be even: by it restTime goes by when programs are known to hold nothing retired
	// before, and hurry has that looked after; nil: now, and no such way.
	Passed func() time.Duration
	Hurry  func()
	stored func() // see lpmParts
}

// waitForDecisions waits as well until no program goes by what it keeps about the
// index of a locator-set, which it does for nearly as long as an index rests.
func (p *Parts) waitForDecisions() {
	p.Wait()
	p.Changed.All()
}

// New makes empty tables, which goOnline puts in force.
func New(p Parts) (*Tables, error) {
	if p.Passed == nil {
		p.Passed, p.Hurry = p.Now, func() {}
	}
	if p.Paths == nil {
		p.Paths = memoryPaths{}
	}
	t := &Tables{
		clearUsage: p.ClearUsage, changed: p.Changed, Records: p.Records, hurry: p.Hurry,
		indexes: newIndexRuns(p.Records, p.Runs, p.Passed, p.Wait),
		Sets: newLocatorSets(p.Sets, reclaim.NewIndexes(uint32(len(p.Sets)), p.Now, p.waitForDecisions),
			p.Locators, reclaim.NewArena(uint32(len(p.Locators)), p.Now, p.Wait), p.Paths),
		Entries: newEntryIndex(p.Records), Born: make([]uint64, len(p.Records)), Database: map[uint32]struct{}{},
	}
	t.Sets.changed = p.Changed
	var err error
	t.Table, err = lpm.New(lpm.Parts{
		Memory: p.Memory, Entries: &t.Entries, Limit: len(p.Records), CellLimit: p.CellLimit,
		Now: p.Now, Passed: p.Passed, Wait: p.Wait, Hurry: p.Hurry, Stored: p.stored,
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// When fewer than scarceIndexes are left and some rest, programs are waited for in the background.
const scarceIndexes = 1 << 10

// Entry is what put writes, the common part of both tables' entries.
type Entry struct {
	Key       lpm.Key
	Locators  lisp.LocatorSet
	Flags     uint32
	Action    lisp.Action
	Cookie    uint32
	CreatedNs uint64
	ExpiresNs uint64
	Ttl       uint32
	Version   uint16
}

// Put adds an entry or replaces the one of the same prefix, which keeps its index
// and so its counters. held says that the programs hold the entry's packets back
// (HOLD) until unhold.
func (t *Tables) Put(e Entry) (index uint32, held bool, err error) {
	set, err := t.Sets.acquire(e.Locators)
	if err != nil {
		return 0, false, err
	}
	positive := set != abi.NoLocatorSet && e.Key.Kind == abi.RootMapCache
	if index, exists := t.Entries.Get(e.Key); exists {
		record := &t.Records[index]
		old := record.LocatorSet
		held = positive && (old == abi.NoLocatorSet || record.Flags&abi.MappingHold != 0)
		if held {
			e.Flags |= abi.MappingHold
		}
		relayed := (record.Flags ^ e.Flags) & abi.MappingRegistered
		t.indexes.change(index)
		replaceRecord(record, e, set)
		t.indexes.changed(index)
		t.relayedChange(relayed)
		if e.Key.Kind == abi.RootDatabase {
			t.DatabaseEdits++
		}
		t.changed.Of(&e.Key)
		t.Sets.release(old)
		return index, held, nil
	}
	if positive {
		e.Flags |= abi.MappingHold
	}
	index, err = t.add(e, set)
	if err != nil {
		t.Sets.release(set)
		return 0, false, err
	}
	return index, positive, nil
}

// add writes the record of a new entry and links it.
func (t *Tables) add(e Entry, set uint32) (uint32, error) {
	if err := t.Table.MakeRoom(); err != nil {
		return 0, err
	}
	index, reused, ok := t.indexes.take(runKeyOf(&e.Key, set))
	if !ok {
		return 0, fmt.Errorf("%w: %d entries", dataplane.ErrFull, len(t.Records))
	}
	if t.indexes.isScarce(scarceIndexes) {
		t.hurry()
	}
	if reused {
		t.clearUsage(index)
	}
	t.Records[index] = recordOf(e, set)
	t.indexes.changed(index)
	if err := t.Table.Insert(e.Key, index); err != nil {
		t.indexes.change(index)
		t.Records[index] = abi.Mapping{}
		t.indexes.giveBack(index)
		return 0, err
	}
	t.Generation++
	t.Born[index] = t.Generation
	t.addEntry(index, e.Key.Kind)
	t.Table.Inserted(&e.Key)
	t.changed.Of(&e.Key)
	return index, nil
}

// addEntry notes a record that is in force.
func (t *Tables) addEntry(index uint32, kind uint8) {
	t.Entries.add(index)
	if kind == abi.RootDatabase {
		t.Database[index] = struct{}{}
		t.DatabaseEdits++
	}
}

// GoOnline makes the programs use these tables.
func (t *Tables) GoOnline() error {
	if err := t.Table.GoOnline(); err != nil {
		return err
	}
	t.changed.All()
	return nil
}

// Delete takes an entry out; false when there is none. The record stays readable
// for programs that hold its index, but counts as no entry any more.
func (t *Tables) Delete(key lpm.Key) (bool, error) {
	index, exists := t.Entries.Get(key)
	if !exists {
		return false, nil
	}
	if err := t.Table.Remove(key, index); err != nil {
		return false, err
	}
	t.changed.Of(&key)
	record := &t.Records[index]
	t.relayedChange(record.Flags & abi.MappingRegistered)
	atomic.StoreUint32(&record.Cookie, record.Cookie|cookieDeleted)
	t.Entries.remove(key)
	delete(t.Database, index)
	t.Born[index] = 0
	t.indexes.giveBack(index)
	t.Sets.release(record.LocatorSet)
	t.Table.Removed(key.Root())
	return true, nil
}

// relayedChange ends all decisions where other packets are relayed than before: those from the entry's EIDs as well.
func (t *Tables) relayedChange(registered uint32) {
	if registered != 0 {
		t.changed.All()
	}
}

// Lookup returns the record that programs find for an address.
func (t *Tables) Lookup(kind, family uint8, instance uint32, address []byte) (*abi.Mapping, bool) {
	index, ok := t.LookupIndex(kind, family, instance, address)
	if !ok {
		return nil, false
	}
	return &t.Records[index], true
}

// LookupIndex returns the index of that record.
func (t *Tables) LookupIndex(kind, family uint8, instance uint32, address []byte) (uint32, bool) {
	return t.Table.Lookup(lpm.RootKey{Kind: kind, Family: family, Instance: instance}, address)
}

// Shrink gives memory back that is not needed any more.
func (t *Tables) Shrink() { t.Table.Shrink() }

// Unhold lets the programs forward by an entry, if it is still the one that was
// added in that generation.
func (t *Tables) Unhold(index uint32, generation uint64) {
	if t.Born[index] == generation {
		t.SetHold(index, false)
	}
}

// SetHold says whether programs hold back the packets of an entry.
func (t *Tables) SetHold(index uint32, held bool) {
	flags := &t.Records[index].Flags
	if held {
		t.indexes.change(index)
		atomic.StoreUint32(flags, *flags|abi.MappingHold)
	} else {
		atomic.StoreUint32(flags, *flags&^abi.MappingHold)
	}
	t.indexes.changed(index)
}

// Rested makes all retired indexes of entries usable: the caller knows that no program
// holds one.
func (t *Tables) Rested() { t.indexes.wake(reclaim.Never) }

// SetSources changes the own RLOCs that mappings' packets are sent from.
func (t *Tables) SetSources(source4, source6 lisp.RLOC) error {
	return t.Sets.setSources(source4, source6, func(moved map[uint32]uint32) {
		for _, index := range t.Entries.All() {
			if to, ok := moved[t.Records[index].LocatorSet]; ok {
				t.indexes.change(index)
				atomic.StoreUint32(&t.Records[index].LocatorSet, to)
				t.indexes.changed(index)
			}
		}
		t.changed.All()
	})
}

// recordOf makes the record of a new entry.
func recordOf(e Entry, set uint32) abi.Mapping {
	return abi.Mapping{
		Flags: e.Flags | abi.MappingValid, Iid: e.Key.Instance, LocatorSet: set, Action: uint8(e.Action),
		Family: e.Key.Family, PrefixLength: e.Key.Bits, Prefix: e.Key.Address,
		CreatedNs: e.CreatedNs, ExpiresNs: e.ExpiresNs, TtlMinutes: e.Ttl, MapVersion: e.Version, Cookie: e.Cookie,
	}
}

// replaceRecord changes a linked record. The action counts only without locators,
// so it is stored while they still count, or not at all: in between, programs act by
// the old entry or by the new one. The times of a mapping come last: where the process is
// killed before, the next one lets no old locators live for longer. Those of the Database's
// entries are for programs, which are not to tell Locator-Status-Bits of other locators before.
func replaceRecord(record *abi.Mapping, e Entry, set uint32) {
	if e.Key.Kind == abi.RootDatabase {
		atomic.StoreUint64(&record.ExpiresNs, e.ExpiresNs)
	}
	record.MapVersion = e.Version
	atomic.StoreUint32(&record.Flags, e.Flags|abi.MappingValid)
	if set == abi.NoLocatorSet {
		record.Action = uint8(e.Action)
	}
	atomic.StoreUint32(&record.LocatorSet, set)
	atomic.StoreUint64(&record.CreatedNs, e.CreatedNs)
	atomic.StoreUint64(&record.ExpiresNs, e.ExpiresNs)
	atomic.StoreUint32(&record.TtlMinutes, e.Ttl)
	atomic.StoreUint32(&record.Cookie, e.Cookie)
}

// State sums up the tables.
func (t *Tables) State() (dataplane.TableState, dataplane.LocatorSetsState) {
	state := t.Table.State()
	state.Entries, state.EntryLimit = t.Entries.Count, len(t.Records)
	return state, dataplane.LocatorSetsState{
		Sets: t.Sets.Indexes.InUse(), SetLimit: len(t.Sets.Records),
		Locators: int(t.Sets.places.InUse()), LocatorLimit: len(t.Sets.locators),
	}
}
