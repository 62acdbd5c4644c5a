// SPDX-License-Identifier: Apache-2.0

// This file makes nodes and comparisons, and says what is there in another shape. It links nothing.

package lpm

import "math/bits"

// chain makes the comparisons that lead to a slot, if so many bits are those of a
// key, and otherwise to another one.
func (t *trie) chain(k trieKey, length int, slot, otherwise uint32) uint32 {
	for length > 0 {
		n := (length-1)%compareBits + 1
		length -= n
		slot = t.newCompare(k.from(length).top(n), n, slot, otherwise)
	}
	return slot
}

// newCompare makes a cell that compares; one that follows with the same alternative
// is joined to it.
func (t *trie) newCompare(value uint32, length int, match, otherwise uint32) uint32 {
	if !uniform(match) && stride(match) == 0 {
		next := t.cellOf(match)
		if next[compareOtherwise] == otherwise && length+int(next[compareLength]) <= compareBits {
			t.space.doom(match)
			value = value<<next[compareLength] | next[compareValue]
			length += int(next[compareLength])
			match = next[compareMatch]
		}
	}
	b, ok := t.space.take(0)
	if !ok {
		return slotEmpty
	}
	copy(t.slots[b.Cell*CellSlots:], []uint32{value, uint32(length), match, otherwise})
	return slotNode | b.Cell
}

// newNode makes a node of empty slots.
func (t *trie) newNode(stride int) (slot uint32, slots []uint32) {
	b, ok := t.space.take(orderOf(stride))
	if !ok {
		return slotEmpty, make([]uint32, 1<<stride)
	}
	t.subs[b.Cell], t.wear[b.Cell] = 0, 0
	base := b.Cell * CellSlots
	return slotNode | uint32(stride)<<slotStrideShift | b.Cell, t.slots[base : base+1<<stride]
}

// finish counts what goes on in a node whose slots are written.
func (t *trie) finish(node uint32, slots []uint32) {
	if node == slotEmpty {
		return
	}
	subs := uint32(0)
	for _, slot := range slots {
		if !uniform(slot) {
			subs++
		}
	}
	t.subs[node&slotCell] = subs
}

// expand writes where walks from a slot are after the next bits, for each value of
// these; there are 2^bits slots to write. A single one is the slot itself, and what is
// below it stays in use: it may be most of the table.
func (t *trie) expand(into []uint32, slot uint32) {
	if uniform(slot) || len(into) == 1 {
		for i := range into {
			into[i] = slot
		}
		return
	}
	t.space.doom(slot)
	if stride(slot) == 0 {
		c := t.cellOf(slot)
		t.expandCompare(into, c[compareValue], int(c[compareLength]), c)
		return
	}
	from := t.nodeOf(slot)
	if len(from) >= len(into) {
		t.gather(into, from)
		return
	}
	width := len(into) / len(from)
	for i, child := range from {
		t.expand(into[i*width:(i+1)*width], child)
	}
}

// expandCompare expands the last `length` bits of a comparison, which are in value.
func (t *trie) expandCompare(into []uint32, value uint32, length int, c []uint32) {
	open := bits.Len(uint(len(into))) - 1
	for i := range into {
		into[i] = c[compareOtherwise]
	}
	if length > open {
		left := length - open
		into[value>>left] = t.newCompare(value<<(32-left)>>(32-left), left, c[compareMatch], c[compareOtherwise])
		return
	}
	width := 1 << (open - length)
	t.expand(into[int(value)*width:(int(value)+1)*width], c[compareMatch])
}

// gather writes, for each equal part of some slots, one slot that stands for it.
func (t *trie) gather(into, from []uint32) {
	width := len(from) / len(into)
	for i := range into {
		into[i] = t.compact(from[i*width : (i+1)*width])
	}
}

// compact returns the simplest slot that stands for some, of which there are 2^n.
func (t *trie) compact(slots []uint32) uint32 {
	if odd, ok := single(slots); ok {
		if odd < 0 {
			return slots[0]
		}
		other := slots[(odd+1)%len(slots)]
		return t.newCompare(uint32(odd), bits.Len(uint(len(slots)))-1, slots[odd], other)
	}
	node, into := t.newNode(bits.Len(uint(len(slots))) - 1)
	copy(into, slots)
	t.finish(node, into)
	return node
}

// single finds the one slot that differs from all others, if these are equal and
// end walks; -1 when none differs.
func single(slots []uint32) (odd int, ok bool) {
	if len(slots) == 1 {
		return -1, true
	}
	odd = -1
	common := slots[0]
	if slots[1] != common && slots[len(slots)-1] != common {
		odd, common = 0, slots[1]
	}
	if !uniform(common) {
		if len(slots) > 2 || !uniform(slots[1]) {
			return 0, false
		}
		return 0, true // two slots, of which the first goes on
	}
	for i, slot := range slots {
		if slot == common || i == odd {
			continue
		}
		if odd >= 0 {
			return 0, false
		}
		odd = i
	}
	return odd, true
}

// copyOf makes what is below a slot of another trie in this one, as simple as can
// be.
func (t *trie) copyOf(from *trie, slot uint32) uint32 {
	if uniform(slot) {
		return slot
	}
	if stride(slot) == 0 {
		c := from.cellOf(slot)
		return t.newCompare(c[compareValue], int(c[compareLength]), t.copyOf(from, c[compareMatch]), c[compareOtherwise])
	}
	slots := make([]uint32, 1<<stride(slot))
	for i, child := range from.nodeOf(slot) {
		slots[i] = t.copyOf(from, child)
	}
	return t.compact(slots)
}
