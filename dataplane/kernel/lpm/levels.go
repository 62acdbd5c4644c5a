// SPDX-License-Identifier: Apache-2.0

// This file says which IPv6 roots have groups of elements, and for which addresses (secondlevel.go): roots of many
// prefixes, where many are side by side. It gives them up when there are few, without a lookup that fails. Where
// there is no memory for one, walks go by the trie as ever. It knows no BPF.

package lpm

import "sync/atomic"

// updateLevels brings the groups of a prefix's root up to date after the trie changed for it: there is one prefix
// more, or one less.
func (t *Table) updateLevels(key *Key, change int) {
	r := t.roots[key.Root()]
	switch {
	case key.Family != 6:
	case r.levels == nil:
		if change > 0 && r.entries >= t.Thresholds.FirstLevel6 {
			t.beginLevels(key.Root(), r)
		}
	case r.entries < t.Thresholds.FirstLevel6/narrowedShare:
		t.endLevels(r)
	default:
		t.updateSecondLevels(r, key, change)
	}
}

// beginLevels gives a root the groups that it has prefixes enough for.
func (t *Table) beginLevels(below RootKey, r *root) {
	g := &levels{second: map[uint32]*secondLevel{}, counts: map[uint32]int{}}
	r.levels = g
	for key := range t.entries.All() {
		if key.Bits >= firstLevelBits6 && key.Root() == below {
			g.counts[key.trieKey().top(firstLevelBits6)]++
		}
	}
	for top, prefixes := range g.counts {
		if prefixes >= t.Thresholds.SecondLevel6 {
			t.openSecondLevel(r, top)
		}
	}
}

// updateSecondLevels writes what changed for the addresses of a prefix, and opens or closes the group that it is in.
func (t *Table) updateSecondLevels(r *root, key *Key, change int) {
	g, k, bits := r.levels, key.trieKey(), int(key.Bits)
	if bits < firstLevelBits6 {
		for top := range g.second {
			if bits == 0 || top>>(firstLevelBits6-bits) == k.top(bits) {
				g.paintBelow(t.trie, r.slot, top, k, bits)
			}
		}
		return
	}
	top := k.top(firstLevelBits6)
	if g.counts[top] += change; g.counts[top] == 0 {
		delete(g.counts, top)
	}
	switch prefixes := g.counts[top]; {
	case g.second[top] == nil:
		if prefixes >= t.Thresholds.SecondLevel6 {
			t.openSecondLevel(r, top)
		}
	case prefixes < t.Thresholds.SecondLevel6/narrowedShare:
		t.closeSecondLevel(g, top)
	default:
		g.paintBelow(t.trie, r.slot, top, k, bits)
	}
}

// openSecondLevel makes a group. Where there was no room for one, none is tried until the root has twice as many
// entries.
func (t *Table) openSecondLevel(r *root, top uint32) {
	if g := r.levels; r.entries < 2*g.failedAt {
		return
	}
	r.levels.failedAt = 0
	if err := t.makeSecondLevel(r, top); err != nil {
		r.levels.failedAt = r.entries
	}
}

func (t *Table) makeSecondLevel(r *root, top uint32) (err error) {
	g := r.levels
	named := g.number != 0
	if !named {
		if g.number, g.first, err = t.memory.NewFirstLevel(6); err != nil {
			g.number = 0
			return err
		}
	}
	made := newSecondLevel()
	made.private = true
	made.number, made.entries, err = t.memory.NewSecondLevel(func(elements []Entry) {
		for i := range elements {
			elements[i] = plainEntry(slotWalk)
		}
		made.entries, g.second[top] = elements, made
		g.paintBelow(t.trie, r.slot, top, trieKey{}, 0)
	})
	if err != nil {
		delete(g.second, top)
		if !named {
			t.memory.DropFirstLevel(g.number)
			g.number, g.first = 0, nil
		}
		return err
	}
	made.private = false
	atomic.StoreUint32(&g.first[top], made.number)
	if !named && r.store != nil {
		r.store(r.slot)
	}
	return nil
}

func (t *Table) closeSecondLevel(g *levels, top uint32) {
	atomic.StoreUint32(&g.first[top], 0)
	t.memory.DropSecondLevels([]uint32{g.second[top].number})
	delete(g.second, top)
}

// endLevels lets a root go by its trie alone.
func (t *Table) endLevels(r *root) {
	g := r.levels
	r.levels = nil
	if g.number == 0 {
		return
	}
	if r.store != nil {
		r.store(r.slot)
	}
	t.memory.DropSecondLevels(g.inUse())
	t.memory.DropFirstLevel(g.number)
}

func (g *levels) inUse() (all []uint32) {
	for _, open := range g.second {
		all = append(all, open.number)
	}
	return all
}

// octets is what the groups take in the kernel.
func (g *levels) octets() uint64 {
	return uint64(len(g.first))*slotOctets + uint64(len(g.second))*SecondLevelEntries*entryOctets
}
