// SPDX-License-Identifier: Apache-2.0

// This file gives the forwarding table its shape: nodes widen where many ways go on
// and narrow where few do, so that walks are short and memory follows the number of
// prefixes. A change of shape builds the new shape beside the old one, gives the
// same answers, and is linked by one store. It never changes an answer.

package kernel

import "math/bits"

const (
	// insertCells is more than an insertion needs, changes of shape aside: two for
	// dividing a comparison, one for the node between, five for what is left of 128 bits.
	insertCells = 16
	// A node of 2^s slots widens when more than 2^s/widenShare go on, and narrows
	// when neighbours differ at fewer than 2^s/narrowShare places. A large node is
	// the top of many prefixes: there, memory is given for shorter walks.
	widenShare      = 2
	largeWidenShare = 6
	largeStride     = 12
	narrowShare     = 16
	// smallStride is that of nodes which are looked through at every removal.
	smallStride = 3
	// flatStride is that of the node at the root of many IPv6 prefixes: these part at few
	// of their first bits, of which comparisons and small nodes would make six steps. It
	// takes 1 MiB.
	flatStride = 18
	// spareShare of the cells stay for entries when nodes grow: who enters them shall not wait for what those leave behind.
	spareShare = 16
	// retriedWithin so many times of rest, a change of shape that found no room again has had what it can get.
	retriedWithin = 4
	// splitStride is that of a node which begins to tell two ways apart.
	splitStride = 2
)

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
			t.doom(match)
			value = value<<next[compareLength] | next[compareValue]
			length += int(next[compareLength])
			match = next[compareMatch]
		}
	}
	b, ok := t.take(0)
	if !ok {
		return slotEmpty
	}
	copy(t.slots[b.cell*cellSlots:], []uint32{value, uint32(length), match, otherwise})
	return slotNode | b.cell
}

// newNode makes a node of empty slots.
func (t *trie) newNode(stride int) (slot uint32, slots []uint32) {
	b, ok := t.take(orderOf(stride))
	if !ok {
		return slotEmpty, make([]uint32, 1<<stride)
	}
	t.subs[b.cell], t.wear[b.cell] = 0, 0
	base := b.cell * cellSlots
	return slotNode | uint32(stride)<<slotStrideShift | b.cell, t.slots[base : base+1<<stride]
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

func (t *trie) take(order uint8) (block, bool) {
	if t.short {
		return block{}, false
	}
	var b block
	ok := false
	if !t.spare {
		b, ok = t.cells.take(order)
	} else if t.cells.leaves(order, spareShare) {
		b, ok = t.cells.takeAtOnce(order)
	}
	if !ok {
		t.short = true
		return block{}, false
	}
	t.fresh = append(t.fresh, b)
	return b, true
}

// doom says that a node or comparison, without what it leads to, is out of use when
// the change of shape is published.
func (t *trie) doom(slot uint32) {
	t.doomed = append(t.doomed, block{slot & slotCell, orderOf(stride(slot))})
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

// orderOf is the order of the block of a node, or of a comparison with stride 0.
func orderOf(stride int) uint8 { return uint8(max(stride-2, 0)) }

func (t *trie) cellOf(slot uint32) []uint32 {
	base := slot & slotCell * cellSlots
	return t.slots[base : base+cellSlots]
}

func (t *trie) nodeOf(slot uint32) []uint32 {
	base := slot & slotCell * cellSlots
	return t.slots[base : base+1<<stride(slot)]
}

// split divides a comparison after so many bits, into two comparisons, or, where
// two ways part, into one and a node.
func (t *trie) split(at spot, slot uint32, same int, ends bool) {
	c := t.cellOf(slot)
	length := int(c[compareLength])
	left := length - same
	tail := c[compareValue] << (32 - left) >> (32 - left)
	t.doom(slot)
	var next uint32
	if ends {
		b, _ := t.take(0)
		copy(t.slots[b.cell*cellSlots:], []uint32{tail, uint32(left), c[compareMatch], c[compareOtherwise]})
		next = slotNode | b.cell
	} else {
		var slots []uint32
		next, slots = t.newNode(min(splitStride, left))
		t.expandCompare(slots, tail, left, c)
		t.finish(next, slots)
	}
	if same > 0 {
		b, _ := t.take(0)
		copy(t.slots[b.cell*cellSlots:], []uint32{c[compareValue] >> left, uint32(same), next, c[compareOtherwise]})
		next = slotNode | b.cell
	}
	t.put(at, next)
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
	t.doom(slot)
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

// widen widens the nodes through which an insertion went, from below, as long as
// many of their slots go on.
func (t *trie) widen() {
	if !t.mayGrow() {
		return
	}
	for i := len(t.path) - 1; i >= 0; i-- {
		at := t.path[i]
		for slot := t.get(at); t.isCrowded(slot); slot = t.get(at) {
			if !t.reshape(at, slot, stride(slot)+1) {
				return
			}
		}
	}
}

func (t *trie) isCrowded(slot uint32) bool {
	s := stride(slot)
	share := uint32(widenShare)
	if s >= largeStride {
		share = largeWidenShare
	}
	return !uniform(slot) && s > 0 && s < maxStride && t.subs[slot&slotCell]*share > 1<<s
}

// mayGrow reports whether a node that is to grow may find room, as far as is known.
func (t *trie) mayGrow() bool {
	return t.wanted == 0 && (t.notBefore == 0 || t.cells.now() >= t.notBefore)
}

// reshape gives a node another stride; false when there was no room for it.
func (t *trie) reshape(at spot, slot uint32, stride int) bool {
	t.spare = true
	node, slots := t.newNode(stride)
	t.expand(slots, slot)
	t.finish(node, slots)
	t.spare = false
	if t.short {
		t.abandon(1 << orderOf(stride))
		return false
	}
	t.put(at, node)
	return true
}

// flatten makes a root one node of its first bits.
func (t *trie) flatten(root *trieRoot) {
	if t.mayGrow() && !uniform(root.slot) && stride(root.slot) < flatStride {
		t.reshape(spot{root: root}, root.slot, flatStride)
	}
}

// abandon gives up a change of shape that found no room. Nothing of it is linked. It is tried again when what rests
// now has rested; where that was of no use just before, a larger table is asked for.
func (t *trie) abandon(wanted uint32) {
	for _, b := range t.fresh {
		t.cells.release(b)
	}
	t.fresh, t.doomed, t.short = t.fresh[:0], t.doomed[:0], false
	now := t.cells.now()
	if waited := t.notBefore != 0 && now < t.notBefore+restTime*retriedWithin; waited || t.cells.resting.len() == 0 {
		t.wanted = max(t.wanted, wanted)
	}
	t.notBefore = now + restTime
	t.hurry()
}

// forgo does without the room that was asked for: there is none. Some may come to rest.
func (t *trie) forgo() { t.wanted = 0 }

// tidy simplifies what a removal went through, from below.
func (t *trie) tidy() {
	for i := len(t.path) - 1; i >= 0; i-- {
		at := t.path[i]
		slot := t.get(at)
		if uniform(slot) {
			continue
		}
		t.spare = true
		simpler := t.simpler(slot)
		t.spare = false
		if t.short {
			t.abandon(1)
			return
		} else if simpler != slot {
			t.put(at, simpler)
		}
	}
}

// simpler returns a simpler slot of the same meaning, or the slot itself.
func (t *trie) simpler(slot uint32) uint32 {
	s := stride(slot)
	if s == 0 {
		return t.simplerCompare(slot)
	}
	wear := &t.wear[slot&slotCell]
	if *wear++; s > smallStride && *wear < 1<<s/narrowShare {
		return slot
	}
	*wear = 0
	slots := t.nodeOf(slot)
	if _, ok := single(slots); ok {
		t.doom(slot)
		return t.compact(slots)
	}
	places := 1
	for i := 1; i < len(slots); i++ {
		if slots[i] != slots[i-1] {
			places++
		}
	}
	narrow := s
	for narrow > splitStride && places < 1<<narrow/narrowShare {
		narrow--
	}
	if narrow == s {
		return slot
	}
	node, into := t.newNode(narrow)
	t.doom(slot)
	t.gather(into, slots)
	t.finish(node, into)
	return node
}

func (t *trie) simplerCompare(slot uint32) uint32 {
	c := t.cellOf(slot)
	match, otherwise := c[compareMatch], c[compareOtherwise]
	if match == otherwise {
		t.doom(slot)
		return otherwise
	}
	if uniform(match) || stride(match) != 0 {
		return slot
	}
	next := t.cellOf(match)
	if next[compareOtherwise] != otherwise || c[compareLength]+next[compareLength] > compareBits {
		return slot
	}
	t.doom(slot)
	return t.newCompare(c[compareValue], int(c[compareLength]), match, otherwise)
}

// clear takes everything below a root out of use, which no walk begins at any more.
func (t *trie) clear(root *trieRoot) {
	t.doomTree(root.slot)
	if root.wide != nil {
		for _, slot := range root.wide.slots {
			t.doomTree(slot)
		}
	}
	t.put(spot{root: &trieRoot{}}, slotEmpty)
	root.slot, root.wide = slotEmpty, nil
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

// settle ends a copy, in which nothing was linked before.
func (t *trie) settle() {
	for _, b := range t.doomed {
		t.cells.release(b)
	}
	t.doomed, t.fresh = t.doomed[:0], t.fresh[:0]
}
