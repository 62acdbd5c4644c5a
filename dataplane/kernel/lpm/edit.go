// SPDX-License-Identifier: Apache-2.0

// This file adds prefixes to a trie and removes them. Every single store leaves a table whose every
// lookup gives either the old answer or the new one.

package lpm

// An editor adds prefixes to a trie and removes them.
type editor struct {
	trie *trie
	path []spot // the places that the edit at hand went through
}

// insert adds a prefix that the trie does not hold. The caller made sure of room
// for insertCells.
func (e *editor) insert(root *trieRoot, k trieKey, length int, leaf uint32) {
	longer := func(slot uint32) (uint32, bool) {
		return slotLeaf | leaf, slot == slotEmpty || e.trie.bitsOf(slot&slotIndex) <= length
	}
	e.path = e.path[:0]
	e.trie.fillFirstLevel(root, k, length, longer)
	if at, k, rest := root.begin(k, length); rest >= 0 {
		e.insertBelow(at, k, rest, slotLeaf|leaf, longer)
	}
	e.widen()
}

// insertBelow adds a prefix of which so many bits are left at a spot.
func (e *editor) insertBelow(at spot, k trieKey, length int, leaf uint32, longer func(slot uint32) (uint32, bool)) {
	at, rest := e.descend(at, k, length, true)
	slot := e.trie.get(at)
	switch {
	case rest == 0:
		e.trie.fill(at, longer)
	case uniform(slot):
		e.trie.put(at, e.trie.chain(k.from(length-rest), rest, leaf, slot))
	default:
		e.trie.fillRange(slot, k.from(length-rest), rest, longer)
	}
}

// remove takes out a prefix that the trie holds, and puts in its place what covers
// it: the slot of the longest shorter prefix, or slotEmpty.
func (e *editor) remove(root *trieRoot, k trieKey, length int, leaf, covering uint32) {
	own := func(slot uint32) (uint32, bool) { return covering, slot == slotLeaf|leaf }
	e.path = e.path[:0]
	e.trie.fillFirstLevel(root, k, length, own)
	if at, k, rest := root.begin(k, length); rest >= 0 {
		e.removeBelow(at, k, rest, own)
	}
	e.tidy()
}

// removeBelow takes out a prefix of which so many bits are left at a spot.
func (e *editor) removeBelow(at spot, k trieKey, length int, own func(slot uint32) (uint32, bool)) {
	at, rest := e.descend(at, k, length, false)
	e.path = append(e.path, at)
	slot := e.trie.get(at)
	// Where the prefix ends within a comparison, or before the walk, all that is its
	// own below shows by its leaf; longer prefixes may have left nothing of it.
	if rest > 0 && !uniform(slot) && stride(slot) > 0 {
		e.trie.fillRange(slot, k.from(length-rest), rest, own)
	} else {
		e.trie.fill(at, own)
	}
}

// descend goes from a spot to the slot at which a prefix ends, or to the uniform slot or
// node within which it does, with the number of its bits that are left there. With
// `split`, comparisons that stand in the way are divided; without, it stops there.
func (e *editor) descend(at spot, k trieKey, length int, split bool) (end spot, rest int) {
	for rest = length; rest > 0; {
		slot := e.trie.get(at)
		if uniform(slot) || stride(slot) > rest {
			return at, rest
		}
		next, consumed, same := e.trie.step(slot, k)
		if same = min(same, rest); same == consumed {
			e.path = append(e.path, at)
			at, rest, k = next, rest-consumed, k.from(consumed)
		} else if split {
			e.trie.split(at, slot, same, same == rest)
		} else {
			return at, rest
		}
	}
	return at, 0
}

// clear takes everything below a root out of use, which no walk begins at any more.
func (e *editor) clear(root *trieRoot) {
	e.trie.doomTree(root.slot)
	if root.first != nil {
		for _, slot := range root.first.slots {
			e.trie.doomTree(slot)
		}
	}
	e.trie.put(spot{root: &rootSlot{}}, slotEmpty)
	root.slot, root.first = slotEmpty, nil
}
