// SPDX-License-Identifier: Apache-2.0

// This file fills the slots that a prefix covers.

package lpm

// fill stores what replace says into a slot and all slots below it.
func (t *trie) fill(at spot, replace func(slot uint32) (uint32, bool)) {
	slot := t.get(at)
	if uniform(slot) {
		if value, ok := replace(slot); ok {
			t.put(at, value)
		}
		return
	}
	base := slot & slotCell * CellSlots
	if stride(slot) == 0 {
		t.fill(spot{at: base + compareMatch}, replace)
		t.fill(spot{at: base + compareOtherwise}, replace)
		return
	}
	t.fillSlots(slot, 0, 1<<stride(slot), replace)
}

// fillRange fills the slots of a node that a prefix covers which ends within it.
func (t *trie) fillRange(node uint32, k trieKey, length int, replace func(slot uint32) (uint32, bool)) {
	open := stride(node) - length
	t.fillSlots(node, k.top(length)<<open, 1<<open, replace)
}

func (t *trie) fillSlots(node, first, count uint32, replace func(slot uint32) (uint32, bool)) {
	base := node & slotCell * CellSlots
	slots := t.slots[base+first : base+first+count]
	t.fillRuns(slots, func(i uint32) spot { return spot{at: base + first + i, node: node} }, replace)
}

// fillRuns stores what replace says into slots side by side and all below them; spotOf
// says where one is. Equal ones are asked about once.
func (t *trie) fillRuns(slots []uint32, spotOf func(i uint32) spot, replace func(slot uint32) (uint32, bool)) {
	for i := 0; i < len(slots); {
		slot := slots[i]
		if !uniform(slot) {
			t.fill(spotOf(uint32(i)), replace)
			i++
			continue
		}
		end := i + 1
		for end < len(slots) && slots[end] == slot {
			end++
		}
		if value, ok := replace(slot); ok {
			t.publishRun(slots[i:end], value)
		}
		i = end
	}
}
