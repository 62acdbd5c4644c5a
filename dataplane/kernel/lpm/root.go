// SPDX-License-Identifier: Apache-2.0

// This file is where lookups begin: at the slot of a trie, behind the first level where there is one.

package lpm

// A trieRoot is where lookups begin.
type trieRoot struct {
	rootSlot
	first  *firstLevel // what goes before slot; nil: nothing does
	levels *levels     // what answers instead of walks from slot; nil: nothing does
}

// begin returns where the edit of a prefix begins, and what is left of its key and length there. Less than nothing is left of a
// prefix that covers whole slots of the first level and nothing else.
func (r *trieRoot) begin(k trieKey, length int) (at spot, rest trieKey, left int) {
	if r.first == nil {
		return spot{root: &r.rootSlot}, k, length
	}
	if length <= firstLevelBits4 {
		if _, beyond := r.first.span(k, length); beyond {
			return spot{root: &r.rootSlot}, k, length
		}
		return spot{}, k, -1
	}
	if first := k.top(firstLevelBits4); first < uint32(len(r.first.slots)) {
		return spot{first: r.first.slots, at: first}, k.from(firstLevelBits4), length - firstLevelBits4
	}
	return spot{root: &r.rootSlot}, k, length
}

// fillFirstLevel fills the slots that a prefix covers, if it covers whole ones.
func (t *trie) fillFirstLevel(r *trieRoot, k trieKey, length int, replace func(slot uint32) (uint32, bool)) {
	if r.first == nil || length > firstLevelBits4 {
		return
	}
	slots, _ := r.first.span(k, length)
	t.fillRuns(slots, func(i uint32) spot { return spot{first: slots, at: i} }, replace)
}

// lookupFrom walks as the BPF programs do, from a root.
func (t *trie) lookupFrom(r *trieRoot, k trieKey) uint32 {
	if r.levels != nil {
		if slot := r.levels.lookup(k); slot != slotWalk {
			return slot
		}
	}
	if r.first != nil {
		if first := k.top(firstLevelBits4); first < uint32(len(r.first.slots)) {
			return t.lookup(r.first.slots[first], k.from(firstLevelBits4))
		}
	}
	return t.lookup(r.slot, k)
}
