// SPDX-License-Identifier: Apache-2.0

// This file finds cells for an edit, and takes those out of use that it made superfluous.

package lpm

import (
	"time"

	"loci/dataplane/kernel/reclaim"
)

// A space has the cells of a trie, and what the edit at hand does with them.
type space struct {
	cells  *reclaim.Arena
	doomed []reclaim.Block // what is out of use once the edit at hand is published
	fresh  []reclaim.Block // what the change of shape at hand took
	short  bool            // it found no room
	wanted uint32          // cells of the block that a change of shape lacked, when what rested had rested too; 0: none did

	spare     bool          // the edit at hand is a change of shape, without which answers are the same: programs are not waited for
	notBefore time.Duration // no node grows before, by the arena's clock: one found no room
	hurry     func()        // has what rests be looked after
}

// take takes a block for the edit at hand.
func (s *space) take(order uint8) (reclaim.Block, bool) {
	if s.short {
		return reclaim.Block{}, false
	}
	var b reclaim.Block
	ok := false
	if !s.spare {
		b, ok = s.cells.Take(order)
	} else if s.cells.Leaves(order, spareShare) {
		b, ok = s.cells.TakeAtOnce(order)
	}
	if !ok {
		s.short = true
		return reclaim.Block{}, false
	}
	s.fresh = append(s.fresh, b)
	return b, true
}

// published lets what an edit made superfluous begin to rest.
func (s *space) published() {
	for _, b := range s.doomed {
		s.cells.GiveBack(b)
	}
	s.doomed, s.fresh = s.doomed[:0], s.fresh[:0]
}

// extend has as many cells as the larger table that the trie continues in: what was retired can be used at once.
func (s *space) extend(size uint32) {
	s.cells.Rested()
	s.cells.Extend(size)
	s.wanted, s.notBefore = 0, 0
}

// doom says that a node or comparison, without what it leads to, is out of use when
// the change of shape is published.
func (s *space) doom(slot uint32) {
	s.doomed = append(s.doomed, reclaim.Block{Cell: slot & slotCell, Order: orderOf(stride(slot))})
}

// doomTree dooms everything below a slot.
func (t *trie) doomTree(slot uint32) {
	if uniform(slot) {
		return
	}
	t.space.doom(slot)
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
func (s *space) abandon(wanted uint32) {
	for _, b := range s.fresh {
		s.cells.Release(b)
	}
	s.fresh, s.doomed, s.short = s.fresh[:0], s.doomed[:0], false
	now := s.cells.Now()
	if waited := s.notBefore != 0 && now < s.notBefore+reclaim.RestTime*retriedWithin; waited || s.cells.Asleep == 0 {
		s.wanted = max(s.wanted, wanted)
	}
	s.notBefore = now + reclaim.RestTime
	s.hurry()
}

// forgo does without the room that was asked for: there is none. Some may come to rest.
func (s *space) forgo() { s.wanted = 0 }

// mayGrow reports whether a node that is to grow may find room, as far as is known.
func (s *space) mayGrow() bool {
	return s.wanted == 0 && (s.notBefore == 0 || s.cells.Now() >= s.notBefore)
}

// settle ends a copy, in which nothing was linked before.
func (s *space) settle() {
	for _, b := range s.doomed {
		s.cells.Release(b)
	}
	s.doomed, s.fresh = s.doomed[:0], s.fresh[:0]
}
