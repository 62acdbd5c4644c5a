// SPDX-License-Identifier: Apache-2.0

// This file edits the forwarding table that bpf/abi.h describes: nodes of any
// stride, and cells that compare many bits at once where only one way goes on. It
// is edited in place so that every single store leaves a table whose every lookup
// gives either the old answer or the new one. It is pure: it edits the memory it is
// given and knows neither BPF nor mappings (RFC 9300 s.4 demands the longest match,
// no more). Which shape the table takes is the business of shape.go.

package lpm

import (
	"math/bits"
	"sync/atomic"
	"time"

	"loci/dataplane/kernel/reclaim"
)

const (
	slotEmpty       = uint32(0)
	slotNode        = uint32(0x40000000)
	slotLeaf        = uint32(0x80000000)
	slotTagMask     = uint32(0xC0000000)
	slotIndex       = ^slotTagMask
	slotStrideShift = 25
	slotCell        = uint32(1)<<slotStrideShift - 1

	// CellSlots are the slots of a cell.
	CellSlots  = 4
	slotOctets = 4
	// CellOctets is how much memory a cell takes.
	CellOctets = slotOctets * CellSlots
	// maxCells is as many as a slot can name: 512 MiB.
	maxCells = 1 << slotStrideShift
	// maxStride bounds a node: 64 MiB of slots.
	maxStride = reclaim.MaxOrder + 2
	// compareBits is what one cell compares at most.
	compareBits = 32
)

// What stands where in a cell that compares.
const (
	compareValue = iota
	compareLength
	compareMatch
	compareOtherwise
)

// A trie is a table of cells with any number of roots.
type trie struct {
	slots []uint32 // cellSlots for each cell
	space space    // which cells are in use
	subs  []uint32 // by the first cell of a node: how many of its slots go on
	wear  []uint32 // by the first cell of a node: removals since it was looked through

	// bitsOf returns the prefix length of a leaf's mapping.
	bitsOf func(leaf uint32) int
	// publish stores a slot that programs can reach, publishRun several side by side.
	publish    func(slot *uint32, value uint32)
	publishRun func(slots []uint32, value uint32)
}

// A rootSlot is the slot at which walks begin.
type rootSlot struct {
	slot uint32
	// store tells the programs of a new slot; nil when none begins here yet.
	store func(slot uint32)
}

// A spot is the place of a slot: in the root, before it where it is wide, or in a cell of
// a node or comparison.
type spot struct {
	root  *rootSlot
	first []uint32 // what at is an index into; nil: slots of the trie
	at    uint32
	node  uint32 // slot of the node that it is in; 0 elsewhere
}

// newTrie makes an empty trie in slots, whose length is a multiple of cellSlots.
// Until its arena is no longer private, no program may know the slots.
func newTrie(slots []uint32, bitsOf func(leaf uint32) int, now func() time.Duration, wait func()) *trie {
	size := uint32(len(slots) / CellSlots)
	t := &trie{
		slots: slots, space: space{cells: reclaim.NewArena(size, now, wait), hurry: func() {}},
		subs: make([]uint32, size), wear: make([]uint32, size),
		bitsOf: bitsOf, publish: atomic.StoreUint32, publishRun: storeRun,
	}
	t.space.cells.Private = true
	return t
}

// storeRun stores slots side by side. Each store is whole, and their order means
// nothing; only what was written before has to be seen before any of them, for which one
// atomic store and load are enough: they cost as much as storing ten slots. An atomic addition is
// not, on processors of arm64 that make one of two instructions.
func storeRun(slots []uint32, value uint32) {
	var fence atomic.Uint32
	fence.Store(1)
	_ = fence.Load()
	for i := range slots {
		slots[i] = value
	}
}

// move continues in a larger table, into which the slots were copied; cells keep
// their places. Walks that begin now see no retired block, those in the old table
// see the old memory, and none comes from an older root to a slot outside of both (fibtables.go):
// retired blocks can be used at once.
func (t *trie) move(slots []uint32) {
	size := uint32(len(slots) / CellSlots)
	more := make([]uint32, size-t.space.cells.Size)
	t.slots, t.subs, t.wear = slots, append(t.subs, more...), append(t.wear, more...)
	t.space.extend(size)
}

// uniform reports whether a walk ends at a slot.
func uniform(slot uint32) bool { return slot&slotTagMask != slotNode }

// stride of a node; 0 for a cell that compares.
func stride(slot uint32) int { return int(slot &^ slotTagMask >> slotStrideShift) }

// lookup walks as the BPF programs do and returns the slot at the end.
func (t *trie) lookup(slot uint32, k trieKey) uint32 {
	for !uniform(slot) {
		base, consumed := slot&slotCell*CellSlots, stride(slot)
		if consumed == 0 {
			consumed = int(t.slots[base+compareLength])
			if k.top(consumed) != t.slots[base+compareValue] {
				return t.slots[base+compareOtherwise]
			}
			slot = t.slots[base+compareMatch]
		} else {
			slot = t.slots[base+k.top(consumed)]
		}
		k = k.from(consumed)
	}
	return slot
}

// step returns where the first bits of a key lead from a node or comparison, how
// many they are, and how many of them a comparison has: all, or the way parts there.
func (t *trie) step(slot uint32, k trieKey) (next spot, consumed, same int) {
	base := slot & slotCell * CellSlots
	if consumed = stride(slot); consumed > 0 {
		return spot{at: base + k.top(consumed), node: slot}, consumed, consumed
	}
	consumed = int(t.slots[base+compareLength])
	same = bits.LeadingZeros32((k.top(consumed) ^ t.slots[base+compareValue]) << (compareBits - consumed))
	return spot{at: base + compareMatch}, consumed, min(same, consumed)
}

func (t *trie) get(at spot) uint32 {
	switch {
	case at.root != nil:
		return at.root.slot
	case at.first != nil:
		return at.first[at.at]
	}
	return t.slots[at.at]
}

// put publishes a slot, and what it made superfluous begins to rest.
func (t *trie) put(at spot, value uint32) {
	if t.space.short {
		panic("lpm: no room was made for an edit") // the caller's error, never the input's
	}
	switch {
	case at.root != nil:
		at.root.slot = value
		if at.root.store != nil {
			at.root.store(value)
		}
	case at.first != nil:
		t.publish(&at.first[at.at], value)
	default:
		if at.node != 0 && uniform(value) != uniform(t.slots[at.at]) {
			if uniform(value) {
				t.subs[at.node&slotCell]--
			} else {
				t.subs[at.node&slotCell]++
			}
		}
		t.publish(&t.slots[at.at], value)
	}
	t.space.published()
}

// orderOf is the order of the block of a node, or of a comparison with stride 0.
func orderOf(stride int) uint8 { return uint8(max(stride-2, 0)) }

func (t *trie) cellOf(slot uint32) []uint32 {
	base := slot & slotCell * CellSlots
	return t.slots[base : base+CellSlots]
}

func (t *trie) nodeOf(slot uint32) []uint32 {
	base := slot & slotCell * CellSlots
	return t.slots[base : base+1<<stride(slot)]
}
