// SPDX-License-Identifier: Apache-2.0

// This file edits the forwarding table that bpf/abi.h describes: nodes of any
// stride, and cells that compare many bits at once where only one way goes on. It
// is edited in place so that every single store leaves a table whose every lookup
// gives either the old answer or the new one. It is pure: it edits the memory it is
// given and knows neither BPF nor mappings (RFC 9300 s.4 demands the longest match,
// no more). Which shape the table takes is the business of fibshape.go.

package kernel

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	slotEmpty       = uint32(0)
	slotNode        = uint32(0x40000000)
	slotLeaf        = uint32(0x80000000)
	slotTagMask     = uint32(0xC0000000)
	slotIndex       = ^slotTagMask
	slotStrideShift = 25
	slotCell        = uint32(1)<<slotStrideShift - 1

	cellSlots  = 4
	slotOctets = 4
	cellOctets = slotOctets * cellSlots
	// maxCells is as many as a slot can name: 512 MiB.
	maxCells = 1 << slotStrideShift
	// maxStride bounds a node: 64 MiB of slots.
	maxStride = maxBlockOrder + 2
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

// A trieKey is an address, its first bit the highest of hi.
type trieKey struct{ hi, lo uint64 }

// trieKeyOf takes 4 or 16 octets.
func trieKeyOf(address []byte) trieKey {
	if len(address) == 4 {
		return trieKey{hi: uint64(binary.BigEndian.Uint32(address)) << 32}
	}
	return trieKey{binary.BigEndian.Uint64(address), binary.BigEndian.Uint64(address[8:])}
}

// from returns the key without its first n bits.
func (k trieKey) from(n int) trieKey {
	if n >= 64 {
		return trieKey{hi: k.lo << (n - 64)}
	}
	return trieKey{k.hi<<n | k.lo>>(64-n), k.lo << n}
}

// top returns the first n bits, of 32 at most.
func (k trieKey) top(n int) uint32 { return uint32(k.hi >> (64 - n)) }

// A trie is a table of cells with any number of roots.
type trie struct {
	slots []uint32 // cellSlots for each cell
	cells *arena
	subs  []uint32 // by the first cell of a node: how many of its slots go on
	wear  []uint32 // by the first cell of a node: removals since it was looked through

	path   []spot  // the places that the edit at hand went through
	doomed []block // what is out of use once the edit at hand is published
	fresh  []block // what the change of shape at hand took
	short  bool    // it found no room
	wanted uint32  // cells of the block that a change of shape lacked, when what rested had rested too; 0: none did

	spare     bool          // the edit at hand is a change of shape, without which answers are the same: programs are not waited for
	notBefore time.Duration // no node grows before, by the arena's clock: one found no room
	hurry     func()        // has what rests be looked after

	// bitsOf returns the prefix length of a leaf's mapping.
	bitsOf func(leaf uint32) int
	// publish stores a slot that programs can reach, publishRun several side by side.
	publish    func(slot *uint32, value uint32)
	publishRun func(slots []uint32, value uint32)
}

// A trieRoot is the slot at which walks begin.
type trieRoot struct {
	slot   uint32
	wide   *wideRoot // what goes before slot; nil: nothing does
	groups *groups   // what answers instead of walks from slot; nil: nothing does
	// store tells the programs of a new slot; nil when none begins here yet.
	store func(slot uint32)
}

// A spot is the place of a slot: in the root, before it where it is wide, or in a cell of
// a node or comparison.
type spot struct {
	root *trieRoot
	wide []uint32 // what at is an index into; nil: slots of the trie
	at   uint32
	node uint32 // slot of the node that it is in; 0 elsewhere
}

// newTrie makes an empty trie in slots, whose length is a multiple of cellSlots.
// Until its arena is no longer private, no program may know the slots.
func newTrie(slots []uint32, bitsOf func(leaf uint32) int, now func() time.Duration, wait func()) *trie {
	size := uint32(len(slots) / cellSlots)
	t := &trie{
		slots: slots, cells: newArena(size, now, wait), subs: make([]uint32, size), wear: make([]uint32, size),
		bitsOf: bitsOf, publish: atomic.StoreUint32, publishRun: storeRun, hurry: func() {},
	}
	t.cells.private = true
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
	size := uint32(len(slots) / cellSlots)
	more := make([]uint32, size-t.cells.size)
	t.slots, t.subs, t.wear = slots, append(t.subs, more...), append(t.wear, more...)
	t.cells.rested()
	t.cells.extend(size)
	t.wanted, t.notBefore = 0, 0
}

// uniform reports whether a walk ends at a slot.
func uniform(slot uint32) bool { return slot&slotTagMask != slotNode }

// stride of a node; 0 for a cell that compares.
func stride(slot uint32) int { return int(slot &^ slotTagMask >> slotStrideShift) }

// lookup walks as the BPF programs do and returns the slot at the end.
func (t *trie) lookup(slot uint32, k trieKey) uint32 {
	for !uniform(slot) {
		base, consumed := slot&slotCell*cellSlots, stride(slot)
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

// insert adds a prefix that the trie does not hold. The caller made sure of room
// for insertCells.
func (t *trie) insert(root *trieRoot, k trieKey, length int, leaf uint32) {
	longer := func(slot uint32) (uint32, bool) {
		return slotLeaf | leaf, slot == slotEmpty || t.bitsOf(slot&slotIndex) <= length
	}
	t.path = t.path[:0]
	t.fillWide(root, k, length, longer)
	if at, k, rest := root.begin(k, length); rest >= 0 {
		t.insertBelow(at, k, rest, slotLeaf|leaf, longer)
	}
	t.widen()
}

// insertBelow adds a prefix of which so many bits are left at a spot.
func (t *trie) insertBelow(at spot, k trieKey, length int, leaf uint32, longer func(slot uint32) (uint32, bool)) {
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
func (t *trie) remove(root *trieRoot, k trieKey, length int, leaf, covering uint32) {
	own := func(slot uint32) (uint32, bool) { return covering, slot == slotLeaf|leaf }
	t.path = t.path[:0]
	t.fillWide(root, k, length, own)
	if at, k, rest := root.begin(k, length); rest >= 0 {
		t.removeBelow(at, k, rest, own)
	}
	t.tidy()
}

// removeBelow takes out a prefix of which so many bits are left at a spot.
func (t *trie) removeBelow(at spot, k trieKey, length int, own func(slot uint32) (uint32, bool)) {
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
func (t *trie) descend(at spot, k trieKey, length int, split bool) (end spot, rest int) {
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

// step returns where the first bits of a key lead from a node or comparison, how
// many they are, and how many of them a comparison has: all, or the way parts there.
func (t *trie) step(slot uint32, k trieKey) (next spot, consumed, same int) {
	base := slot & slotCell * cellSlots
	if consumed = stride(slot); consumed > 0 {
		return spot{at: base + k.top(consumed), node: slot}, consumed, consumed
	}
	consumed = int(t.slots[base+compareLength])
	same = bits.LeadingZeros32((k.top(consumed) ^ t.slots[base+compareValue]) << (compareBits - consumed))
	return spot{at: base + compareMatch}, consumed, min(same, consumed)
}

// fill stores what replace says into a slot and all slots below it.
func (t *trie) fill(at spot, replace func(slot uint32) (uint32, bool)) {
	slot := t.get(at)
	if uniform(slot) {
		if value, ok := replace(slot); ok {
			t.put(at, value)
		}
		return
	}
	base := slot & slotCell * cellSlots
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
	base := node & slotCell * cellSlots
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

func (t *trie) get(at spot) uint32 {
	switch {
	case at.root != nil:
		return at.root.slot
	case at.wide != nil:
		return at.wide[at.at]
	}
	return t.slots[at.at]
}

// put publishes a slot, and what it made superfluous begins to rest.
func (t *trie) put(at spot, value uint32) {
	if t.short {
		panic("dataplane/kernel: no room was made for an edit") // the caller's error, never the input's
	}
	switch {
	case at.root != nil:
		at.root.slot = value
		if at.root.store != nil {
			at.root.store(value)
		}
	case at.wide != nil:
		t.publish(&at.wide[at.at], value)
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
	for _, b := range t.doomed {
		t.cells.giveBack(b)
	}
	t.doomed, t.fresh = t.doomed[:0], t.fresh[:0]
}
