// SPDX-License-Identifier: Apache-2.0

// This file fills the slots of a first level from a trie (firstlevel.go), in one walk through it: to enter each prefix again takes
// as long as packets wait. It gives the same answers, and changes nothing in the trie that it reads.

package lpm

import "math/bits"

// A spreader writes into a trie what another one says.
type spreader struct{ *trie }

// spread writes into slots, of which there are 2^open or the first of them, what a walk in another trie says about each. What says
// nothing is not written: the slots are empty.
func (t spreader) spread(into []uint32, from *trie, slot uint32, open int) {
	switch {
	case len(into) == 0:
	case open == 0:
		into[0] = t.copyOf(from, slot)
	case uniform(slot):
		spreadRun(into, slot)
	case stride(slot) == 0:
		t.spreadCompare(into, from, from.cellOf(slot), open)
	default:
		t.spreadNode(into, from, from.nodeOf(slot), open)
	}
}

func spreadRun(into []uint32, slot uint32) {
	if slot == slotEmpty {
		return
	}
	for i := range into {
		into[i] = slot
	}
}

func (t spreader) spreadCompare(into []uint32, from *trie, c []uint32, open int) {
	value, length, otherwise := c[compareValue], int(c[compareLength]), c[compareOtherwise]
	beyond := max(length-open, 0) // bits that it compares behind those of the slots
	width := uint32(1) << max(open-length, 0)
	first := value >> beyond * width
	spreadRun(upTo(into, first), otherwise)
	spreadRun(after(into, first+width), otherwise)
	match := upTo(after(into, first), width)
	if beyond == 0 {
		t.spread(match, from, c[compareMatch], open-length)
	} else if len(match) > 0 {
		match[0] = t.newCompare(value&(1<<beyond-1), beyond, t.copyOf(from, c[compareMatch]), otherwise)
	}
}

func (t spreader) spreadNode(into []uint32, from *trie, children []uint32, open int) {
	below := open - (bits.Len(uint(len(children))) - 1)
	if below >= 0 {
		for i, child := range children {
			t.spread(upTo(after(into, uint32(i)<<below), 1<<below), from, child, below)
		}
		return
	}
	each := 1 << -below
	copies := make([]uint32, each)
	for i := range into {
		for j, child := range children[i*each : (i+1)*each] {
			copies[j] = t.copyOf(from, child)
		}
		into[i] = t.compact(copies)
	}
}

// upTo and after divide slots, of which there may be fewer.
func upTo(slots []uint32, n uint32) []uint32  { return slots[:min(n, uint32(len(slots)))] }
func after(slots []uint32, n uint32) []uint32 { return slots[min(n, uint32(len(slots))):] }
