// SPDX-License-Identifier: Apache-2.0

// This file adds prefixes to a trie and removes them. Every single store leaves a table whose every
// lookup gives either the old answer or the new one.

package lpm

// An editor adds and removes prefixes.
type editor struct{ *trie }

// insert adds a prefix that the trie does not hold. The caller made sure of room
// for insertCells.
func (t editor) insert(root *trieRoot, k trieKey, length int, leaf uint32) {
	longer := func(slot uint32) (uint32, bool) {
		return slotLeaf | leaf, slot == slotEmpty || t.bitsOf(slot&slotIndex) <= length
	}
	t.path = t.path[:0]
	t.fillFirstLevel(root, k, length, longer)
	if at, k, rest := root.begin(k, length); rest >= 0 {
		t.insertBelow(at, k, rest, slotLeaf|leaf, longer)
	}
	t.widen()
}

// insertBelow adds a prefix of which so many bits are left at a spot.
func (t editor) insertBelow(at spot, k trieKey, length int, leaf uint32, longer func(slot uint32) (uint32, bool)) {
	at, rest := t.descend(at, k, length, true)
	slot := t.get(at)
	switch {
	case rest == 0:
		t.fill(at, longer)
	case uniform(slot):
		t.put(at, t.chain(k.from(length-rest), rest, leaf, slot))
	default:
		t.fillRange(slot, k.from(length-rest), rest, longer)
	}
}

// remove takes out a prefix that the trie holds, and puts in its place what covers
// it: the slot of the longest shorter prefix, or slotEmpty.
func (t editor) remove(root *trieRoot, k trieKey, length int, leaf, covering uint32) {
	own := func(slot uint32) (uint32, bool) { return covering, slot == slotLeaf|leaf }
	t.path = t.path[:0]
	t.fillFirstLevel(root, k, length, own)
	if at, k, rest := root.begin(k, length); rest >= 0 {
		t.removeBelow(at, k, rest, own)
	}
	t.tidy()
}

// removeBelow takes out a prefix of which so many bits are left at a spot.
func (t editor) removeBelow(at spot, k trieKey, length int, own func(slot uint32) (uint32, bool)) {
	at, rest := t.descend(at, k, length, false)
	t.path = append(t.path, at)
	slot := t.get(at)
	// Where the prefix ends within a comparison, or before the walk, all that is its
	// own below shows by its leaf; longer prefixes may have left nothing of it.
	if rest > 0 && !uniform(slot) && stride(slot) > 0 {
		t.fillRange(slot, k.from(length-rest), rest, own)
	} else {
		t.fill(at, own)
	}
}

// descend goes from a spot to the slot at which a prefix ends, or to the uniform slot or
// node within which it does, with the number of its bits that are left there. With
// `split`, comparisons that stand in the way are divided; without, it stops there.
func (t editor) descend(at spot, k trieKey, length int, split bool) (end spot, rest int) {
	for rest = length; rest > 0; {
		slot := t.get(at)
		if uniform(slot) || stride(slot) > rest {
			return at, rest
		}
		next, consumed, same := t.step(slot, k)
		if same = min(same, rest); same == consumed {
			t.path = append(t.path, at)
			at, rest, k = next, rest-consumed, k.from(consumed)
		} else if split {
			t.split(at, slot, same, same == rest)
		} else {
			return at, rest
		}
	}
	return at, 0
}

// clear takes everything below a root out of use, which no walk begins at any more.
func (t editor) clear(root *trieRoot) {
	t.doomTree(root.slot)
	if root.first != nil {
		for _, slot := range root.first.slots {
			t.doomTree(slot)
		}
	}
	t.put(spot{root: &rootSlot{}}, slotEmpty)
	root.slot, root.first = slotEmpty, nil
}
