// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

// TestSpread compares the slots of a first level with the trie they were made from: prefixes of all lengths close to
// each other, so that nodes and comparisons begin before the slots' bits and end behind them, and among addresses
// that have no slot.
func TestSpread(t *testing.T) {
	block := make([]uint32, firstLevelSlots)
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 3))
		bitsOf := map[uint32]int{}
		length := func(leaf uint32) int { return bitsOf[leaf] }
		now := func() time.Duration { return 0 }
		from := newTrie(make([]uint32, 1<<18), length, now, func() {})
		next := newTrie(make([]uint32, 1<<18), length, now, func() {})
		var root trieRoot
		seen := map[[2]uint32]bool{}
		prefixes := 1 + random.IntN(400)
		near := random.Uint32()
		spreadBits := 1 + random.IntN(31)
		for leaf := uint32(1); leaf <= uint32(prefixes); leaf++ {
			bits := 33 - min(1+random.IntN(33), 1+random.IntN(33))
			address := (near ^ random.Uint32()>>spreadBits) &^ (1<<(32-bits) - 1)
			if seen[[2]uint32{address, uint32(bits)}] {
				continue
			}
			seen[[2]uint32{address, uint32(bits)}] = true
			bitsOf[leaf] = bits
			(&editor{trie: from}).insert(&root, trieKey{hi: uint64(address) << 32}, bits, leaf)
		}
		before := from.space.cells.InUse()
		clear(block)
		wide := trieRoot{first: &firstLevel{number: 1, slots: block}}
		(spreader{next}).spread(block, from, root.slot, firstLevelBits4)
		if next.space.settle(); next.space.short || from.space.cells.InUse() != before {
			t.Fatalf("seed %d: short %v, %d cells in use instead of %d", seed, next.space.short, from.space.cells.InUse(), before)
		}
		reachable := uint32(0)
		for _, slot := range block {
			if !uniform(slot) {
				reachable += next.reachable(slot)
			}
		}
		if used := next.space.cells.InUse(); used != reachable {
			t.Fatalf("seed %d: %d cells in use, %d can be reached", seed, used, reachable)
		}
		for range 5_000 {
			address := near ^ random.Uint32()>>(random.IntN(32))
			if address>>(32-firstLevelBits4) >= firstLevelSlots {
				continue
			}
			var octets [4]byte
			binary.BigEndian.PutUint32(octets[:], address)
			k := trieKeyOf(octets[:])
			if got, want := next.lookupFrom(&wide, k), from.lookup(root.slot, k); got != want {
				t.Fatalf("seed %d, address %v: %#x, want %#x", seed, octets, got, want)
			}
		}
	}
}
