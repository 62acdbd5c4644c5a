// SPDX-License-Identifier: Apache-2.0

// This file finds cells for an edit, and takes those out of use that it made superfluous.

package lpm

import "loci/dataplane/kernel/reclaim"

func (t *trie) take(order uint8) (reclaim.Block, bool) {
	if t.short {
		return reclaim.Block{}, false
	}
	var b reclaim.Block
	ok := false
	if !t.spare {
		b, ok = t.cells.Take(order)
	} else if t.cells.Leaves(order, spareShare) {
		b, ok = t.cells.TakeAtOnce(order)
	}
	if !ok {
		t.short = true
		return reclaim.Block{}, false
	}
	t.fresh = append(t.fresh, b)
	return b, true
}

// doom says that a node or comparison, without what it leads to, is out of use when
// the change of shape is published.
func (t *trie) doom(slot uint32) {
	t.doomed = append(t.doomed, reclaim.Block{Cell: slot & slotCell, Order: orderOf(stride(slot))})
}

// doomTree dooms everything below a slot.
func (t *trie) doomTree(slot uint32) {
	if uniform(slot) {
		return
	}
	t.doom(slot)
	if stride(slot) == 0 {
		t.doomTree(t.cellOf(slot)[compareMatch])
		return
	}
	for _, child := range t.nodeOf(slot) {
		t.doomTree(child)
	}
}

// cellsBelow is how many cells are in use below a slot.
func (t *trie) cellsBelow(slot uint32) int {
	if uniform(slot) {
		return 0
	}
	cells := 1 << orderOf(stride(slot))
	if stride(slot) == 0 {
		return cells + t.cellsBelow(t.cellOf(slot)[compareMatch])
	}
	for _, child := range t.nodeOf(slot) {
		cells += t.cellsBelow(child)
	}
	return cells
}

// abandon gives up a change of shape that found no room. Nothing of it is linked. It is tried again when what rests
// now has rested; where that was of no use just before, a larger table is asked for.
func (t *trie) abandon(wanted uint32) {
	for _, b := range t.fresh {
		t.cells.Release(b)
	}
	t.fresh, t.doomed, t.short = t.fresh[:0], t.doomed[:0], false
	now := t.cells.Now()
	if waited := t.notBefore != 0 && now < t.notBefore+reclaim.RestTime*retriedWithin; waited || t.cells.Asleep == 0 {
		t.wanted = max(t.wanted, wanted)
	}
	t.notBefore = now + reclaim.RestTime
	t.hurry()
}

// forgo does without the room that was asked for: there is none. Some may come to rest.
func (t *trie) forgo() { t.wanted = 0 }

// mayGrow reports whether a node that is to grow may find room, as far as is known.
func (t *trie) mayGrow() bool {
	return t.wanted == 0 && (t.notBefore == 0 || t.cells.Now() >= t.notBefore)
}

// settle ends a copy, in which nothing was linked before.
func (t *trie) settle() {
	for _, b := range t.doomed {
		t.cells.Release(b)
	}
	t.doomed, t.fresh = t.doomed[:0], t.fresh[:0]
}
