// SPDX-License-Identifier: Apache-2.0

// This file is the forwarding table: a trie, and the roots in it by table, family and Instance-ID. It knows which prefixes there are from
// Entries, and memory from Memory.

package lpm

import (
	"cmp"
	"sync/atomic"
	"time"
)

const (
	// shrinkShare of a table's cells must be in use, or it shrinks.
	shrinkShare = 4
	// When more than the hurryShare of a table's cells rests, programs are waited for in the background. So are they when
	// fewer than scarceCells are left. Who needs cells waits only where there are none besides.
	hurryShare  = 8
	scarceCells = 1 << 10
	// preparedCells are left, or half of the table's, when a larger one is prepared: so many that it is mostly there in time,
	// and so few that a table seldom stays in that state, with two tables' memory.
	preparedCells = 1 << 12
)

// Thresholds say when the table takes another shape.
type Thresholds struct {
	Smallest     int           // cells of a new table. It grows by quarters.
	FirstLevel4  int           // entries from which a root of IPv4 is wide
	FirstLevel6  int           // entries from which a root of IPv6 is flat, and has groups
	SecondLevel6 int           // prefixes for which there is a group
	KeptGrown    time.Duration // how long a table that grew stays as it is
}

// defaultThresholds are what measurements suggest: a new table has 1 MiB; the first level of a root takes 56 MiB, 224 octets for
// each entry; a group 1 MiB, 512 octets for each. EIDs that come and go in their order need one large node after the other, and would have the
// table grow and shrink by turns if a grown one did not stay for a while.
var defaultThresholds = Thresholds{Smallest: 1 << 16, FirstLevel4: 1 << 18, FirstLevel6: 1 << 16, SecondLevel6: 1 << 11, KeptGrown: 30 * time.Second}

func (t Thresholds) orDefault() Thresholds {
	d := defaultThresholds
	return Thresholds{
		Smallest: cmp.Or(t.Smallest, d.Smallest), FirstLevel4: cmp.Or(t.FirstLevel4, d.FirstLevel4), FirstLevel6: cmp.Or(t.FirstLevel6, d.FirstLevel6), SecondLevel6: cmp.Or(t.SecondLevel6, d.SecondLevel6),
		KeptGrown: cmp.Or(t.KeptGrown, d.KeptGrown),
	}
}

// Table finds the longest prefix of an address among the entries of all tables, families and Instance-IDs.
type Table struct {
	memory     Memory
	entries    Entries
	limit      int // entries that there can be
	trie       *trie
	editor     editor // of it
	cellLimit  int
	Thresholds Thresholds
	now        func() time.Duration
	grownAt    time.Duration // when the table grew last, or could not shrink
	hurry      func()        // see lpmParts
	prefixBits []uint8       // by index: the prefix length, which the trie asks for all the time
	roots      map[RootKey]*root
	offline    bool // programs still use another table, or none
}

// Parts are what a forwarding table is made of.
type Parts struct {
	Memory     Memory
	Entries    Entries
	Limit      int // entries that there can be
	CellLimit  int
	thresholds Thresholds // defaultThresholds where they are 0
	Now        func() time.Duration
	// Passed is a clock that need not be even: by it restTime goes by when programs are known to hold nothing retired
	// before, and hurry has that looked after.
	Passed func() time.Duration
	Hurry  func()
	Wait   func() // until no program holds a cell that was retired before
	Stored func() // if given, is called before each store into the trie; tests look then
}

// New makes an empty table, which goOnline puts in force.
func New(p Parts) (*Table, error) {
	t := &Table{
		memory: p.Memory, entries: p.Entries, limit: p.Limit, cellLimit: min(p.CellLimit, maxCells), now: p.Now, hurry: p.Hurry,
		Thresholds: p.thresholds.orDefault(),
		prefixBits: make([]uint8, p.Limit), roots: map[RootKey]*root{}, offline: true,
	}
	slots, err := t.memory.NewTable(min(t.Thresholds.Smallest, t.cellLimit))
	if err != nil {
		return nil, err
	}
	t.trie = newTrie(slots, t.bitsOf, p.Passed, p.Wait)
	t.editor.trie = t.trie
	t.trie.space.hurry = t.hurry
	if p.Stored != nil {
		t.trie.publish = func(slot *uint32, value uint32) {
			p.Stored()
			atomic.StoreUint32(slot, value)
		}
	}
	return t, nil
}

// A root is where walks of one table, family and Instance-ID begin.
type root struct {
	trieRoot
	entries int
	byBits  [129]int32 // how many prefixes of each length there are
	triedAt int        // how many entries there were when no room was found to make it wide, or narrow again; 0: was not
}

func (r *root) count(bits uint8, change int) {
	r.entries += change
	r.byBits[bits] += int32(change)
}

// begins is what programs are told of a root.
func (r *trieRoot) begins() Begin {
	b := Begin{Slot: r.slot}
	switch {
	case r.first != nil:
		b.FirstLevel = r.first.number
	case r.levels != nil:
		b.FirstLevel = r.levels.number
	}
	return b
}

func (t *Table) beginnings() map[RootKey]Begin {
	all := make(map[RootKey]Begin, len(t.roots))
	for key, r := range t.roots {
		all[key] = r.begins()
	}
	return all
}

// levelOctets is what the slots of all first levels take, and the groups.
func (t *Table) levelOctets() (octets uint64) {
	for _, r := range t.roots {
		if r.levels != nil {
			octets += r.levels.octets()
		}
		if r.first != nil {
			octets += uint64(len(r.first.slots)) * slotOctets
		}
	}
	return octets
}

func (t *Table) firstLevels() (n int) {
	for _, r := range t.roots {
		if r.first != nil {
			n++
		}
	}
	return n
}

// firstLevelLimit is how many roots may be wide: those that can have so many entries at a time. Roots that
// had them once, one after the other, would take any amount of memory.
func (t *Table) firstLevelLimit() int { return max(1, t.limit/t.Thresholds.FirstLevel4) }

// storeRoot returns what tells the programs of another slot of a root.
func (t *Table) storeRoot(key RootKey, r *root) func(uint32) {
	return func(uint32) {
		if err := t.memory.PutRoot(key, r.begins()); err != nil {
			panic("lpm: a root lost its place: " + err.Error()) // see Memory
		}
	}
}

func (t *Table) bitsOf(leaf uint32) int { return int(t.prefixBits[leaf]) }
