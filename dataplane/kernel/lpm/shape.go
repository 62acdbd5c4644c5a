// SPDX-License-Identifier: Apache-2.0

// This file gives the forwarding table its shape: nodes widen where many ways go on
// and narrow where few do, so that walks are short and memory follows the number of
// prefixes. A change of shape builds the new shape beside the old one, gives the
// same answers, and is linked by one store. It never changes an answer.

package lpm

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

// split divides a comparison after so many bits, into two comparisons, or, where
// two ways part, into one and a node.
func (t *trie) split(at spot, slot uint32, same int, ends bool) {
	c := t.cellOf(slot)
	length := int(c[compareLength])
	left := length - same
	tail := c[compareValue] << (32 - left) >> (32 - left)
	t.space.doom(slot)
	var next uint32
	if ends {
		b, _ := t.space.take(0)
		copy(t.slots[b.Cell*CellSlots:], []uint32{tail, uint32(left), c[compareMatch], c[compareOtherwise]})
		next = slotNode | b.Cell
	} else {
		var slots []uint32
		next, slots = t.newNode(min(splitStride, left))
		t.expandCompare(slots, tail, left, c)
		t.finish(next, slots)
	}
	if same > 0 {
		b, _ := t.space.take(0)
		copy(t.slots[b.Cell*CellSlots:], []uint32{c[compareValue] >> left, uint32(same), next, c[compareOtherwise]})
		next = slotNode | b.Cell
	}
	t.put(at, next)
}

// widen widens the nodes through which an insertion went, from below, as long as
// many of their slots go on.
func (e *editor) widen() {
	if !e.trie.space.mayGrow() {
		return
	}
	for i := len(e.path) - 1; i >= 0; i-- {
		at := e.path[i]
		for slot := e.trie.get(at); e.trie.isCrowded(slot); slot = e.trie.get(at) {
			if !e.trie.reshape(at, slot, stride(slot)+1) {
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

// reshape gives a node another stride; false when there was no room for it.
func (t *trie) reshape(at spot, slot uint32, stride int) bool {
	t.space.spare = true
	node, slots := t.newNode(stride)
	t.expand(slots, slot)
	t.finish(node, slots)
	t.space.spare = false
	if t.space.short {
		t.space.abandon(1 << orderOf(stride))
		return false
	}
	t.put(at, node)
	return true
}

// flatten makes a root one node of its first bits.
func (t *trie) flatten(root *rootSlot) {
	if t.space.mayGrow() && !uniform(root.slot) && stride(root.slot) < flatStride {
		t.reshape(spot{root: root}, root.slot, flatStride)
	}
}

// tidy simplifies what a removal went through, from below.
func (e *editor) tidy() {
	for i := len(e.path) - 1; i >= 0; i-- {
		at := e.path[i]
		slot := e.trie.get(at)
		if uniform(slot) {
			continue
		}
		e.trie.space.spare = true
		simpler := e.trie.simpler(slot)
		e.trie.space.spare = false
		if e.trie.space.short {
			e.trie.space.abandon(1)
			return
		} else if simpler != slot {
			e.trie.put(at, simpler)
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
		t.space.doom(slot)
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
	t.space.doom(slot)
	t.gather(into, slots)
	t.finish(node, into)
	return node
}

func (t *trie) simplerCompare(slot uint32) uint32 {
	c := t.cellOf(slot)
	match, otherwise := c[compareMatch], c[compareOtherwise]
	if match == otherwise {
		t.space.doom(slot)
		return otherwise
	}
	if uniform(match) || stride(match) != 0 {
		return slot
	}
	next := t.cellOf(match)
	if next[compareOtherwise] != otherwise || c[compareLength]+next[compareLength] > compareBits {
		return slot
	}
	t.space.doom(slot)
	return t.newCompare(c[compareValue], int(c[compareLength]), match, otherwise)
}
