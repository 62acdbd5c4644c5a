// SPDX-License-Identifier: Apache-2.0

// This file keeps both tables, the map-cache and the Database, in the records that
// programs read: it finds room, writes a record whole, links it into the forwarding
// table, and edits linked records by stores that each leave a right answer
// (bpf/abi.h, "Forwarding table"). It knows memory alone; what needs a system call
// goes through tableMaps. It never expires an entry.

package kernel

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// tableMaps is what the tables need of the maps beyond plain memory.
type tableMaps interface {
	// newTable returns the memory of a table of so many cells that no root refers to.
	newTable(cells int) ([]uint32, error)
	// prepareTable begins to make a table of so many cells at least, unless one is made, of which it returns the cells:
	// newTable has it then. 0: it is not made yet. It does not wait.
	prepareTable(cells int) (made int)
	// preparedCells are those of the table that is prepared, or being so; 0: there is none.
	preparedCells() int
	// dropTable gives up a table of newTable that is not in force.
	dropTable(slots []uint32)
	// prepareBlock begins to make a block that newBlock will be asked for, of family 4. It does not wait.
	prepareBlock()
	// newBlock returns a block for a root of a family, which is not 0, and its memory: no slot leads
	// anywhere.
	newBlock(family uint8) (block uint32, slots []uint32, err error)
	// dropBlock gives up a block that no root in force names, when programs are done with it.
	dropBlock(block uint32)
	// newGroup returns the elements of a group, which write wrote before any program saw
	// them, and its number, which is not 0.
	newGroup(write func(elements []element)) (number uint32, elements []element, err error)
	// dropGroups gives up groups that no slot leads to any more, when programs are done with
	// them. It does not wait for that.
	dropGroups(numbers []uint32)
	// switchTable makes the last newTable the one of all roots and removes all other
	// tables, roots and blocks. After an error the table before is in force.
	switchTable(roots map[rootKey]walkBegin) error
	// extendTable makes the last newTable, which leads to the same blocks and groups, the one of all
	// roots. It does not wait for programs: the table before goes when they are done with it.
	// After an error the table before is in force.
	extendTable(roots map[rootKey]walkBegin) error
	// putRoot stores a root. It cannot fail where there is one.
	putRoot(key rootKey, begin walkBegin) error
	// deleteRoot removes a root. Programs may still walk in its block, which dropBlock
	// gives up then.
	deleteRoot(key rootKey) error
	// clearUsage zeroes the counters of a mapping's index.
	clearUsage(index uint32)
}

const (
	// smallestTable is the size of a new forwarding table: 1 MiB. It grows by quarters.
	smallestTable = 1 << 16
	// shrinkShare of a table's cells must be in use, or it shrinks.
	shrinkShare = 4
	// keptGrown is how long a table that grew stays as it is: EIDs that come and go in their order need one large node after the other,
	// and would have it grow and shrink by turns.
	keptGrown = 30 * time.Second
	// When more than the hurryShare of a table's cells rests, programs are waited for in the background. So are they when
	// fewer than scarceCells or scarceIndexes are left. Who needs cells waits only where there are none besides.
	hurryShare    = 8
	scarceCells   = 1 << 10
	scarceIndexes = 1 << 10
	// preparedCells are left, or half of the table's, when a larger one is prepared: so many that it is mostly there in time,
	// and so few that a table seldom stays in that state, with two tables' memory.
	preparedCells = 1 << 12
)

// walkBegin is what programs are told of a root: the slot, and the block of a wide one.
type walkBegin struct{ slot, block uint32 }

type tables struct {
	maps       tableMaps
	changed    generations
	records    []abi.Mapping
	indexes    *mappingPages
	sets       *locatorSets
	fib        *trie
	cellLimit  int
	smallest   int // cells of a table
	now        func() time.Duration
	grownAt    time.Duration // when the table grew last, or could not shrink
	hurry      func()        // see tableParts
	wideFrom   int           // entries from which a root of IPv4 is wide
	flatFrom   int           // entries from which a root of IPv6 is flat, and has groups
	groupFrom  int           // prefixes for which there is a group
	entries    entryIndex
	database   map[uint32]struct{} // indexes of the Database's entries
	bits       []uint8             // by index: the prefix length, which the trie asks for all the time
	roots      map[rootKey]*root
	offline    bool     // programs still use another table, or none
	generation uint64   // grows with every entry that is added
	born       []uint64 // by index: the generation of its entry
	// databaseEdits grows when an entry of the Database is added or replaced.
	databaseEdits uint64
}

// A root is where walks of one table, family and Instance-ID begin.
type root struct {
	trieRoot
	entries int
	byBits  [129]int32 // how many prefixes of each length there are
	triedAt int        // how many entries there were when no room was found to make it wide, or narrow again; 0: was not
}

// tableParts are what tables are made of.
type tableParts struct {
	maps      tableMaps
	changed   generations
	records   []abi.Mapping
	pages     []uint64 // see mappingPages
	sets      []abi.LocatorSet
	locators  []abi.Locator
	cellLimit int
	smallest  int // see tables; 0: smallestTable
	wideFrom  int // 0: wideFrom
	flatFrom  int // 0: flatFrom
	groupFrom int // 0: groupFrom
	now       func() time.Duration
	wait      func() // until no program holds an index that was retired before
	// passed is a clock that need not be even: by it restTime goes by when programs are known to hold nothing retired
	// before, and hurry has that looked after; nil: now, and no such way.
	passed func() time.Duration
	hurry  func()
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
		maps: p.maps, changed: p.changed, records: p.records, cellLimit: min(p.cellLimit, maxCells), wideFrom: cmp.Or(p.wideFrom, wideFrom), flatFrom: cmp.Or(p.flatFrom, flatFrom),
		smallest: cmp.Or(p.smallest, smallestTable), groupFrom: cmp.Or(p.groupFrom, groupFrom), hurry: p.hurry, now: p.now,
		indexes: newMappingPages(p.records, p.pages, p.passed, p.wait),
		sets: newLocatorSets(p.sets, newRecycler(uint32(len(p.sets)), p.now, p.waitForDecisions),
			p.locators, newArena(uint32(len(p.locators)), p.now, p.wait)),
		entries: newEntryIndex(p.records), bits: make([]uint8, len(p.records)), born: make([]uint64, len(p.records)),
		roots: map[rootKey]*root{}, offline: true, database: map[uint32]struct{}{},
	}
	t.sets.changed = p.changed
	slots, err := t.maps.newTable(min(t.smallest, t.cellLimit))
	if err != nil {
		return nil, err
	}
	t.fib = newTrie(slots, t.bitsOf, p.passed, p.wait)
	t.fib.hurry = t.hurry
	return t, nil
}

func (t *tables) bitsOf(leaf uint32) int { return int(t.bits[leaf]) }

// entry is what put writes, the common part of both tables' entries.
type entry struct {
	key       entryKey
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
	positive := set != noLocatorSet && e.key.kind == kindMapCache
	if index, exists := t.entries.get(e.key); exists {
		record := &t.records[index]
		old := record.LocatorSet
		held = positive && (old == noLocatorSet || record.Flags&flagHold != 0)
		if held {
			e.flags |= flagHold
		}
		t.indexes.change(index)
		replaceRecord(record, e, set)
		t.indexes.changed(index)
		if e.key.kind == kindDatabase {
			t.databaseEdits++
		}
		t.changed.of(&e.key)
		t.sets.release(old)
		return index, held, nil
	}
	if positive {
		e.flags |= flagHold
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
	if err := t.makeRoom(); err != nil {
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
		t.maps.clearUsage(index)
	}
	t.records[index] = recordOf(e, set)
	t.indexes.changed(index)
	if err := t.link(e.key, index); err != nil {
		t.indexes.change(index)
		t.records[index] = abi.Mapping{}
		t.indexes.giveBack(index)
		return 0, err
	}
	t.generation++
	t.born[index] = t.generation
	t.addEntry(index, e.key.kind)
	t.broaden(e.key.root())
	t.regroup(&e.key, 1)
	t.changed.of(&e.key)
	return index, nil
}

// addEntry notes a record that is in force.
func (t *tables) addEntry(index uint32, kind uint8) {
	t.entries.add(index)
	if kind == kindDatabase {
		t.database[index] = struct{}{}
		t.databaseEdits++
	}
}

// link makes lookups find a record. The caller made room.
func (t *tables) link(key entryKey, index uint32) error {
	t.bits[index] = key.bits
	below := key.root()
	r := t.roots[below]
	if r == nil {
		r = &root{}
		if !t.offline {
			if err := t.maps.putRoot(below, walkBegin{slot: slotEmpty}); err != nil {
				return err
			}
			r.store = t.storeRoot(below, r)
		}
		t.roots[below] = r
	}
	t.fib.insert(&r.trieRoot, key.trieKey(), int(key.bits), index)
	if r.count(key.bits, 1); key.family == 6 && r.entries >= t.flatFrom {
		t.fib.flatten(&r.trieRoot)
	}
	return nil
}

// storeRoot returns what tells the programs of another slot of a root.
func (t *tables) storeRoot(key rootKey, r *root) func(uint32) {
	return func(uint32) {
		if err := t.maps.putRoot(key, r.begins()); err != nil {
			panic("dataplane/kernel: a root lost its place: " + err.Error()) // see tableMaps
		}
	}
}

// goOnline makes the programs use these tables.
func (t *tables) goOnline() error {
	if err := t.maps.switchTable(t.beginnings()); err != nil {
		return err
	}
	t.offline, t.fib.cells.private = false, false
	t.changed.all()
	for key, r := range t.roots {
		r.store = t.storeRoot(key, r)
	}
	return nil
}

// delete takes an entry out; false when there is none. The record stays readable
// for programs that hold its index, but counts as no entry any more.
func (t *tables) delete(key entryKey) (bool, error) {
	index, exists := t.entries.get(key)
	if !exists {
		return false, nil
	}
	below := key.root()
	r := t.roots[below]
	if r.entries == 1 {
		if err := t.maps.deleteRoot(below); err != nil {
			return false, err
		}
	}
	if r.count(key.bits, -1); r.entries == 0 {
		t.clearRoot(below, r)
	} else {
		t.fib.remove(&r.trieRoot, key.trieKey(), int(key.bits), index, t.covering(r, key))
		t.regroup(&key, -1)
	}
	t.changed.of(&key)
	record := &t.records[index]
	atomic.StoreUint32(&record.Cookie, record.Cookie|cookieDeleted)
	t.entries.remove(key)
	delete(t.database, index)
	t.born[index] = 0
	t.indexes.giveBack(index)
	t.sets.release(record.LocatorSet)
	t.shrink(below)
	return true, nil
}

// clearRoot takes everything below a root out of use that programs know no more. What
// its block leads to is looked for before that memory is gone.
func (t *tables) clearRoot(below rootKey, r *root) {
	block := r.begins().block
	r.store = nil
	t.fib.clear(&r.trieRoot)
	if r.groups != nil {
		t.maps.dropGroups(r.groups.inUse())
	}
	if block != 0 {
		t.maps.dropBlock(block)
	}
	delete(t.roots, below)
}

// covering returns the slot of the longest shorter prefix.
func (t *tables) covering(r *root, key entryKey) uint32 {
	for bits := int(key.bits) - 1; bits >= 0; bits-- {
		if r.byBits[bits] == 0 {
			continue
		}
		if index, ok := t.entries.get(key.shorter(bits)); ok {
			return slotLeaf | index
		}
	}
	return slotEmpty
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
	r := t.roots[rootKey{kind: kind, family: family, instance: instance}]
	if r == nil {
		return 0, false
	}
	slot := t.fib.lookupFrom(&r.trieRoot, trieKeyOf(address))
	return slot & slotIndex, slot != slotEmpty
}

// unhold lets the programs forward by an entry, if it is still the one that was
// added in that generation.
func (t *tables) unhold(index uint32, generation uint64) {
	if t.born[index] == generation {
		record := &t.records[index]
		atomic.StoreUint32(&record.Flags, record.Flags&^flagHold)
		t.indexes.changed(index)
	}
}

// setSources changes the own RLOCs that mappings' packets are sent from.
func (t *tables) setSources(source4, source6 lisp.RLOC) error {
	return t.sets.setSources(source4, source6, func(moved map[uint32]uint32) {
		for index := range t.entries.all() {
			if to, ok := moved[t.records[index].LocatorSet]; ok {
				t.indexes.change(index)
				atomic.StoreUint32(&t.records[index].LocatorSet, to)
				t.indexes.changed(index)
			}
		}
		t.changed.all()
	})
}

// makeRoom makes sure that linking an entry finds the cells that it needs. For what a change of shape lacks
// nobody waits: until a larger table is made, the shape that is there answers.
func (t *tables) makeRoom() error {
	t.awaken()
	c := t.fib.cells
	size := t.largerTable()
	if c.unused < insertCells && c.asleep > 0 && (c.asleep > c.size/hurryShare || size == int(c.size)) {
		c.wait()
		c.rested()
	}
	enough := c.unused >= insertCells
	switch {
	case size == int(c.size) && !enough:
		return fmt.Errorf("%w: the forwarding table has %d octets", dataplane.ErrFull, t.cellLimit*cellOctets)
	case size == int(c.size):
		t.fib.forgo()
		return nil
	case enough && t.fib.wanted == 0:
		if !t.offline && c.available() < min(c.size/2, preparedCells) {
			_ = t.maps.prepareTable(size)
		}
		return nil
	case enough && !t.offline:
		if size = t.maps.prepareTable(size); size == 0 {
			return nil
		}
	case !t.offline:
		// What is prepared has room for the entry, and is there sooner than one of the size that a node would have it now.
		if prepared := t.maps.preparedCells(); prepared > int(c.size) {
			size = min(prepared, t.cellLimit)
		}
	}
	err := t.extend(size)
	if err != nil && enough {
		t.fib.forgo()
		return nil
	}
	return err
}

// extend continues in a larger table.
func (t *tables) extend(size int) error {
	slots, err := t.maps.newTable(size)
	if err != nil {
		return err
	}
	copy(slots, t.fib.slots)
	if !t.offline {
		if err := t.maps.extendTable(t.beginnings()); err != nil {
			t.maps.dropTable(slots)
			return err
		}
	}
	before := t.fib.slots
	t.fib.move(slots)
	if t.offline {
		t.maps.dropTable(before)
	}
	t.grownAt = t.now()
	return nil
}

// awaken looks after the cells that rest: those that nobody needs are waited for in the background.
func (t *tables) awaken() {
	c := t.fib.cells
	restless := func() bool { return c.asleep > c.size/hurryShare || c.asleep > c.unused && c.unused < scarceCells }
	if !restless() {
		return
	}
	if c.wake(c.now()); !restless() {
		return
	}
	t.hurry()
}

// largerTable is how many cells the next table has; as many as this one at the limit.
func (t *tables) largerTable() int {
	c, lacking := t.fib.cells, t.fib.wanted
	size := int(c.size) + int(c.size)/4
	if lacking > 0 { // a block begins at a multiple of its size
		size = max(size, (int(c.size+lacking-1)&^int(lacking-1))+int(lacking))
	}
	return min(size, t.cellLimit)
}

func (r *root) count(bits uint8, change int) {
	r.entries += change
	r.byBits[bits] += int32(change)
}

// recordOf makes the record of a new entry.
func recordOf(e entry, set uint32) abi.Mapping {
	return abi.Mapping{
		Flags: e.flags | flagValid, Iid: e.key.instance, LocatorSet: set, Action: uint8(e.action),
		Family: e.key.family, PrefixLength: e.key.bits, Prefix: e.key.address,
		CreatedNs: e.createdNs, ExpiresNs: e.expiresNs, TtlMinutes: e.ttl, MapVersion: e.version, Cookie: e.cookie,
	}
}

// replaceRecord changes a linked record. The action counts only without locators,
// so it is stored while they still count, or not at all: in between, programs act by
// the old entry or by the new one. The times of a mapping come last: where the process is
// killed before, the next one lets no old locators live for longer. Those of the Database's
// entries are for programs, which are not to tell Locator-Status-Bits of other locators before.
func replaceRecord(record *abi.Mapping, e entry, set uint32) {
	if e.key.kind == kindDatabase {
		atomic.StoreUint64(&record.ExpiresNs, e.expiresNs)
	}
	record.MapVersion = e.version
	atomic.StoreUint32(&record.Flags, e.flags|flagValid)
	if set == noLocatorSet {
		record.Action = uint8(e.action)
	}
	atomic.StoreUint32(&record.LocatorSet, set)
	atomic.StoreUint64(&record.CreatedNs, e.createdNs)
	atomic.StoreUint64(&record.ExpiresNs, e.expiresNs)
	atomic.StoreUint32(&record.TtlMinutes, e.ttl)
	atomic.StoreUint32(&record.Cookie, e.cookie)
}
