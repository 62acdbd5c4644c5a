// SPDX-License-Identifier: Apache-2.0

// These tests have the memory of a forwarding table without a kernel.

package lpm

import (
	"cmp"
	"maps"
	"net/netip"

	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// plainMemory are tableMaps without a kernel. Walks begin where roots say, in slots.
type plainMemory struct {
	roots        map[RootKey]Begin
	slots        []uint32 // of the table in force
	next         []uint32
	firstLevels  map[uint32][]uint32
	secondLevels map[uint32][]Entry
	failing      error // what every call answers, when set
	// tableFailing is what NewTable alone answers, switchFailing what SwitchTable does.
	tableFailing, switchFailing error
	groupFailing                error // what newGroup alone answers
	blockFailing                error // what newBlock alone answers
	made, blocksPrepared        int   // tables, and times that a block was to be prepared
	slow                        bool  // a table that is to be prepared never is
	prepared                    int   // cells of the one that is being prepared
	wasted                      int   // tables that were prepared for nothing
	live, most                  int   // tables that there are, and were at a time
}

func newPlainMemory() *plainMemory {
	return &plainMemory{roots: map[RootKey]Begin{}, firstLevels: map[uint32][]uint32{}, secondLevels: map[uint32][]Entry{}}
}

func (m *plainMemory) DropTable(slots []uint32) {
	m.live--
	if m.next != nil && &slots[0] == &m.next[0] {
		m.next = nil
	}
}

func (m *plainMemory) PrepareFirstLevel() { m.blocksPrepared++ }

// NewFirstLevel makes small ones, so that addresses from 16.0.0.0 on have no slot in a first level.
func (m *plainMemory) NewFirstLevel(family uint8) (uint32, []uint32, error) {
	if err := cmp.Or(m.failing, m.blockFailing); err != nil {
		return 0, nil, err
	}
	block := uint32(1)
	for m.firstLevels[block] != nil {
		block++
	}
	m.firstLevels[block] = make([]uint32, 1<<20)
	return block, m.firstLevels[block], nil
}

// DropFirstLevel overwrites a block: a test that still reads it finds nonsense, as the kernel's memory would be gone.
func (m *plainMemory) DropFirstLevel(block uint32) {
	storeRun(m.firstLevels[block], slotNode|slotCell)
	delete(m.firstLevels, block)
}

func (m *plainMemory) NewSecondLevel(write func([]Entry)) (uint32, []Entry, error) {
	if err := cmp.Or(m.failing, m.groupFailing); err != nil {
		return 0, nil, err
	}
	number := uint32(1)
	for m.secondLevels[number] != nil {
		number++
	}
	m.secondLevels[number] = make([]Entry, SecondLevelEntries)
	write(m.secondLevels[number])
	return number, m.secondLevels[number], nil
}

// DropSecondLevels makes nonsense of them as well.
func (m *plainMemory) DropSecondLevels(numbers []uint32) {
	for _, number := range numbers {
		for i := range m.secondLevels[number] {
			m.secondLevels[number][i] = plainEntry(slotLeaf | slotIndex)
		}
		delete(m.secondLevels, number)
	}
}

func (m *plainMemory) NewTable(cells int) ([]uint32, error) {
	m.made++
	m.live++
	m.most = max(m.most, m.live)
	if m.prepared != 0 && m.prepared != cells {
		m.wasted++
	}
	m.prepared = 0
	m.next = make([]uint32, cells*CellSlots)
	return m.next, cmp.Or(m.failing, m.tableFailing)
}

func (m *plainMemory) PrepareTable(cells int) int {
	m.prepared = max(m.prepared, cells)
	if m.slow {
		return 0
	}
	return m.prepared
}

func (m *plainMemory) PreparedCells() int { return m.prepared }

func (m *plainMemory) ExtendTable(roots map[RootKey]Begin) error { return m.SwitchTable(roots) }

func (m *plainMemory) SwitchTable(roots map[RootKey]Begin) error {
	if err := cmp.Or(m.failing, m.switchFailing); err != nil {
		return err
	}
	m.roots, m.slots, m.live = maps.Clone(roots), m.next, 1
	named := map[uint32]bool{}
	for _, begin := range roots {
		named[begin.FirstLevel] = true
	}
	maps.DeleteFunc(m.firstLevels, func(block uint32, _ []uint32) bool { return !named[block] })
	return nil
}

func (m *plainMemory) PutRoot(key RootKey, begin Begin) error {
	if m.failing != nil {
		return m.failing
	}
	m.roots[key] = begin
	return nil
}

func (m *plainMemory) DeleteRoot(key RootKey) error {
	if m.failing == nil {
		delete(m.roots, key)
	}
	return m.failing
}

// walk looks an address up as the programs do, by what is in force.
func (m *plainMemory) walk(kind uint8, p lisp.Prefix, address netip.Addr) (uint32, bool) {
	begin := m.roots[RootKey{Kind: kind, Family: abi.Family(address), Instance: uint32(p.Instance())}]
	root := trieRoot{rootSlot: rootSlot{slot: begin.Slot}}
	k, slot := trieKeyOf(address.AsSlice()), slotWalk
	if block := m.firstLevels[begin.FirstLevel]; begin.FirstLevel != 0 && address.Is4() {
		root.first = &firstLevel{number: begin.FirstLevel, slots: block}
	} else if begin.FirstLevel != 0 {
		if elements := m.secondLevels[block[k.top(firstLevelBits6)]]; elements != nil {
			slot = answerOf(elements, k)
		}
	}
	if slot == slotWalk {
		slot = (&trie{slots: m.slots}).lookupFrom(&root, k)
	}
	return slot & slotIndex, slot&slotTagMask == slotLeaf
}
