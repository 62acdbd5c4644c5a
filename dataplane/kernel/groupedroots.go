// SPDX-License-Identifier: Apache-2.0

// This file says which IPv6 roots have groups of elements, and for which addresses (fibgroups.go): roots of many prefixes, where many
// are side by side. It gives them up when there are few, without a lookup that fails. Where there is no memory for one, walks
// go by the trie as ever. It knows no BPF.

package kernel

import "sync/atomic"

// regroup brings the groups of a prefix's root up to date after the trie changed for it: there is one prefix more, or one less.
func (t *tables) regroup(key *entryKey, change int) {
	r := t.roots[key.root()]
	switch {
	case key.family != 6:
	case r.groups == nil:
		if change > 0 && r.entries >= t.flatFrom {
			t.beginGroups(key.root(), r)
		}
	case r.entries < t.flatFrom/narrowedShare:
		t.endGroups(r)
	default:
		t.updateGroups(r, key, change)
	}
}

// beginGroups gives a root the groups that it has prefixes enough for.
func (t *tables) beginGroups(below rootKey, r *root) {
	g := &groups{open: map[uint32]*group{}, counts: map[uint32]int{}}
	r.groups = g
	for index := range t.entries.all() {
		if key := keyOfRecord(&t.records[index]); key.bits >= groupBits && key.root() == below {
			g.counts[key.trieKey().top(groupBits)]++
		}
	}
	for top, prefixes := range g.counts {
		if prefixes >= t.groupFrom {
			t.openGroup(r, top)
		}
	}
}

// updateGroups writes what changed for the addresses of a prefix, and opens or closes the group that it is in.
func (t *tables) updateGroups(r *root, key *entryKey, change int) {
	g, k, bits := r.groups, key.trieKey(), int(key.bits)
	if bits < groupBits {
		for top := range g.open {
			if bits == 0 || top>>(groupBits-bits) == k.top(bits) {
				g.paintBelow(t.fib, r.slot, top, k, bits)
			}
		}
		return
	}
	top := k.top(groupBits)
	if g.counts[top] += change; g.counts[top] == 0 {
		delete(g.counts, top)
	}
	switch prefixes := g.counts[top]; {
	case g.open[top] == nil:
		if prefixes >= t.groupFrom {
			t.openGroup(r, top)
		}
	case prefixes < t.groupFrom/narrowedShare:
		t.closeGroup(g, top)
	default:
		g.paintBelow(t.fib, r.slot, top, k, bits)
	}
}

// openGroup makes a group. Where there was no room for one, none is tried until the root has twice as many entries.
func (t *tables) openGroup(r *root, top uint32) {
	if g := r.groups; r.entries < 2*g.failedAt {
		return
	}
	r.groups.failedAt = 0
	if err := t.makeGroup(r, top); err != nil {
		r.groups.failedAt = r.entries
	}
}

func (t *tables) makeGroup(r *root, top uint32) (err error) {
	g := r.groups
	named := g.block != 0
	if !named {
		if g.block, g.numbers, err = t.maps.newBlock(6); err != nil {
			g.block = 0
			return err
		}
	}
	made := newGroup()
	made.private = true
	made.number, made.elements, err = t.maps.newGroup(func(elements []element) {
		for i := range elements {
			elements[i] = plainElement(slotWalk)
		}
		made.elements, g.open[top] = elements, made
		g.paintBelow(t.fib, r.slot, top, trieKey{}, 0)
	})
	if err != nil {
		delete(g.open, top)
		if !named {
			t.maps.dropBlock(g.block)
			g.block, g.numbers = 0, nil
		}
		return err
	}
	made.private = false
	atomic.StoreUint32(&g.numbers[top], made.number)
	if !named && r.store != nil {
		r.store(r.slot)
	}
	return nil
}

func (t *tables) closeGroup(g *groups, top uint32) {
	atomic.StoreUint32(&g.numbers[top], 0)
	t.maps.dropGroups([]uint32{g.open[top].number})
	delete(g.open, top)
}

// endGroups lets a root go by its trie alone.
func (t *tables) endGroups(r *root) {
	g := r.groups
	r.groups = nil
	if g.block == 0 {
		return
	}
	if r.store != nil {
		r.store(r.slot)
	}
	t.maps.dropGroups(g.inUse())
	t.maps.dropBlock(g.block)
}

func (g *groups) inUse() (all []uint32) {
	for _, open := range g.open {
		all = append(all, open.number)
	}
	return all
}

// octets is what the groups take in the kernel.
func (g *groups) octets() uint64 {
	return uint64(len(g.numbers))*slotOctets + uint64(len(g.open))*groupSize*elementOctets
}
