// SPDX-License-Identifier: Apache-2.0

// This file is the compiler of the forwarding table that bpf/abi.h describes: a
// multibit trie with a stride of one octet in an array of nodes, edited in place so
// that every single store leaves a table whose every lookup gives either the old
// answer or the new one. It is pure: it edits the memory it is given and knows
// neither BPF nor mappings (RFC 9300 s.4 demands the longest match, no more).

package kernel

import (
	"sync/atomic"
)

const (
	nodeSlots   = 256
	slotEmpty   = uint32(0)
	slotNode    = uint32(0x40000000)
	slotLeaf    = uint32(0x80000000)
	slotTagMask = uint32(0xC0000000)
	slotIndex   = ^slotTagMask
)

// A trie is a table of nodes with any number of roots.
type trie struct {
	slots []uint32  // nodeSlots for each node
	holds []uint16  // by node: prefixes that end in it and its child nodes; 0 means uniform
	nodes *recycler // its limit is the number of nodes in slots

	// bitsOf returns the prefix length of a leaf's mapping.
	bitsOf func(leaf uint32) int
	// publish stores a slot that programs can reach.
	publish func(slot *uint32, value uint32)
}

// newTrie makes an empty trie in slots, whose length is a multiple of nodeSlots.
func newTrie(slots []uint32, nodes *recycler, bitsOf func(leaf uint32) int) *trie {
	return &trie{
		slots: slots, holds: make([]uint16, len(slots)/nodeSlots), nodes: nodes,
		bitsOf: bitsOf, publish: atomic.StoreUint32,
	}
}

// move continues in a larger table, into which the slots were copied; nodes keep
// their indexes. Walks that begin now see no retired node, those in the old table
// see the old memory: retired nodes can be used at once.
func (t *trie) move(slots []uint32) {
	t.slots = slots
	t.holds = append(t.holds, make([]uint16, len(slots)/nodeSlots-len(t.holds))...)
	t.nodes.limit = uint32(len(slots) / nodeSlots)
	t.nodes.rested()
}

// addRoot returns an empty node to begin walks at. The caller made sure of room.
func (t *trie) addRoot() uint32 {
	return t.newNode(slotEmpty)
}

// removeRoot retires a root that no walk begins at any more and that holds nothing.
func (t *trie) removeRoot(root uint32) {
	t.nodes.giveBack(root)
}

// lookup walks as the BPF programs do and returns the slot at the end.
func (t *trie) lookup(root uint32, address []byte) uint32 {
	slot := slotNode | root
	for _, octet := range address {
		slot = t.node(slot)[octet]
		if slot&slotTagMask != slotNode {
			return slot
		}
	}
	return slotEmpty
}

// missing is how many nodes insert would have to make.
func (t *trie) missing(root uint32, address []byte, bits int) int {
	depth := terminalDepth(bits)
	slot := slotNode | root
	for level := range depth {
		slot = t.node(slot)[address[level]]
		if slot&slotTagMask != slotNode {
			return depth - level
		}
	}
	return 0
}

// insert adds a prefix that the trie does not hold. The caller made sure that there
// is room for as many nodes as missing says.
func (t *trie) insert(root uint32, address []byte, bits int, leaf uint32) {
	depth := terminalDepth(bits)
	at := root
	for level := range depth {
		at = t.descend(at, address[level])
	}
	t.holds[at]++
	first, count := slotRange(address, bits)
	t.fill(at, first, count, func(slot uint32) (uint32, bool) {
		return slotLeaf | leaf, slot == slotEmpty || t.bitsOf(slot&slotIndex) <= bits
	})
}

// remove takes out a prefix that the trie holds, and puts in its place what covers
// it: the slot of the longest shorter prefix, or slotEmpty.
func (t *trie) remove(root uint32, address []byte, bits int, leaf, covering uint32) {
	depth := terminalDepth(bits)
	path := make([]uint32, depth+1)
	path[0] = root
	for level := range depth {
		path[level+1] = t.node(path[level])[address[level]] & slotIndex
	}
	at := path[depth]
	first, count := slotRange(address, bits)
	t.fill(at, first, count, func(slot uint32) (uint32, bool) {
		return covering, slot == slotLeaf|leaf
	})
	t.holds[at]--
	t.collapse(path, address)
}

// collapse replaces nodes at the end of a path that hold nothing any more by the
// slot of which they are 256 copies.
func (t *trie) collapse(path []uint32, address []byte) {
	for level := len(path) - 1; level > 0 && t.holds[path[level]] == 0; level-- {
		parent := t.node(path[level-1])
		t.publish(&parent[address[level-1]], t.node(path[level])[0])
		t.holds[path[level-1]]--
		t.nodes.giveBack(path[level])
	}
}

// descend returns the child node at a slot and makes it when there is none.
func (t *trie) descend(node uint32, octet byte) uint32 {
	slot := t.node(node)[octet]
	if slot&slotTagMask == slotNode {
		return slot & slotIndex
	}
	child := t.newNode(slot)
	t.publish(&t.node(node)[octet], slotNode|child)
	t.holds[node]++
	return child
}

// fill stores what replace says into the slots of a range and of all nodes below.
func (t *trie) fill(node uint32, first, count int, replace func(slot uint32) (uint32, bool)) {
	slots := t.node(node)[first : first+count]
	for i, slot := range slots {
		if slot&slotTagMask == slotNode {
			t.fill(slot&slotIndex, 0, nodeSlots, replace)
			continue
		}
		if value, ok := replace(slot); ok {
			t.publish(&slots[i], value)
		}
	}
}

// newNode returns a node whose slots all are copies of one.
func (t *trie) newNode(slot uint32) uint32 {
	index, _, ok := t.nodes.take()
	if !ok {
		panic("dataplane/kernel: no room was made for a node") // the caller's error, never the input's
	}
	slots := t.node(index)
	for i := range slots {
		slots[i] = slot
	}
	t.holds[index] = 0
	return index
}

// node returns the slots of a node, given by index or by the slot that refers to it.
func (t *trie) node(slot uint32) []uint32 {
	at := int(slot&slotIndex) * nodeSlots
	return t.slots[at : at+nodeSlots : at+nodeSlots]
}

// terminalDepth is how many nodes lie above the one in which a prefix ends.
func terminalDepth(bits int) int {
	if bits == 0 {
		return 0
	}
	return (bits - 1) / 8
}

// slotRange returns the slots that a prefix covers in the node in which it ends.
func slotRange(address []byte, bits int) (first, count int) {
	if bits == 0 {
		return 0, nodeSlots
	}
	depth := terminalDepth(bits)
	count = 1 << (8*(depth+1) - bits)
	return int(address[depth]) &^ (count - 1), count
}
