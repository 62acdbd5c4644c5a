// SPDX-License-Identifier: Apache-2.0

// This file is what others ask of the forwarding table.

package lpm

import "loci/dataplane"

// Insert makes lookups find an entry. The caller made room, and calls inserted when
// Entries knows of it.
func (t *Table) Insert(key Key, index uint32) error {
	t.prefixBits[index] = key.Bits
	below := key.Root()
	r := t.roots[below]
	if r == nil {
		r = &root{}
		if !t.offline {
			if err := t.memory.PutRoot(below, Begin{Slot: slotEmpty}); err != nil {
				return err
			}
			r.store = t.storeRoot(below, r)
		}
		t.roots[below] = r
	}
	t.editor.insert(&r.trieRoot, key.trieKey(), int(key.Bits), index)
	if r.count(key.Bits, 1); key.Family == 6 && r.entries >= t.Thresholds.FirstLevel6 {
		t.trie.flatten(&r.rootSlot)
	}
	return nil
}

// Inserted gives a root the shape that suits it with the entry that was added.
func (t *Table) Inserted(key *Key) {
	t.growFirstLevel(key.Root())
	t.updateLevels(key, 1)
}

// Remove makes lookups find an entry no more; Entries has it still. After an error it is there. The caller calls
// removed when Entries has forgotten it.
func (t *Table) Remove(key Key, index uint32) error {
	below := key.Root()
	r := t.roots[below]
	if r.entries == 1 {
		if err := t.memory.DeleteRoot(below); err != nil {
			return err
		}
	}
	if r.count(key.Bits, -1); r.entries == 0 {
		t.clearRoot(below, r)
	} else {
		t.editor.remove(&r.trieRoot, key.trieKey(), int(key.Bits), index, t.covering(r, key))
		t.updateLevels(&key, -1)
	}
	return nil
}

// Removed gives memory back that a root, and the table, do not need any more.
func (t *Table) Removed(below RootKey) { t.shrinkRoot(below) }

// Shrink gives memory back where no entry goes any more.
func (t *Table) Shrink() { t.shrinkRoot(RootKey{}) } // no root that there is

// Lookup returns the entry of the longest prefix of an address.
func (t *Table) Lookup(below RootKey, address []byte) (index uint32, ok bool) {
	r := t.roots[below]
	if r == nil {
		return 0, false
	}
	slot := t.trie.lookupFrom(&r.trieRoot, trieKeyOf(address))
	return slot & slotIndex, slot != slotEmpty
}

// GoOnline makes the programs use the table.
func (t *Table) GoOnline() error {
	if err := t.memory.SwitchTable(t.beginnings()); err != nil {
		return err
	}
	t.offline, t.trie.space.cells.Private = false, false
	for key, r := range t.roots {
		r.store = t.storeRoot(key, r)
	}
	return nil
}

// HasLevels reports whether lookups below a root begin at a first level.
func (t *Table) HasLevels(below RootKey) bool {
	r := t.roots[below]
	return r != nil && (r.first != nil || r.levels != nil && len(r.levels.second) > 0)
}

// State says how much memory the table has.
func (t *Table) State() dataplane.TableState {
	c := t.trie.space.cells
	wide := t.levelOctets()
	return dataplane.TableState{
		Octets: uint64(c.Size)*CellOctets + wide, UsedOctets: uint64(c.InUse())*CellOctets + wide, FreeOctets: uint64(c.Available()) * CellOctets,
		LimitOctets: uint64(t.cellLimit)*CellOctets + uint64(t.firstLevelLimit())*firstLevelSlots*slotOctets, Roots: len(t.roots),
	}
}

// clearRoot takes everything below a root out of use that programs know no more. What
// its block leads to is looked for before that memory is gone.
func (t *Table) clearRoot(below RootKey, r *root) {
	block := r.begins().FirstLevel
	r.store = nil
	t.editor.clear(&r.trieRoot)
	if r.levels != nil {
		t.memory.DropSecondLevels(r.levels.inUse())
	}
	if block != 0 {
		t.memory.DropFirstLevel(block)
	}
	delete(t.roots, below)
}

// covering returns the slot of the longest shorter prefix.
func (t *Table) covering(r *root, key Key) uint32 {
	for bits := int(key.Bits) - 1; bits >= 0; bits-- {
		if r.byBits[bits] == 0 {
			continue
		}
		if index, ok := t.entries.Get(key.Shorter(bits)); ok {
			return slotLeaf | index
		}
	}
	return slotEmpty
}
