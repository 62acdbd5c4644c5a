// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/reclaim"
)

// missedKey is the key of one EID after the other, as misses bring them.
func missedKey(i int) Key {
	key := Key{Kind: abi.RootMapCache, Family: 4, Bits: 32}
	binary.BigEndian.PutUint32(key.Address[:], 10<<24|64<<16|uint32(i))
	return key
}

func (p *plainTable) expectMissed(t *testing.T, upTo int) {
	t.Helper()
	for i := 1; i <= upTo; i += 97 {
		key := missedKey(i)
		address, _ := netip.AddrFromSlice(key.Address[:4])
		if found, ok := p.find(abi.RootMapCache, 4, 0, address.AsSlice()); !ok || found != key {
			t.Fatalf("of %d EIDs, number %d is not found", upTo, i)
		}
	}
}

// TestNobodyWaitsForAShape has nodes that grow with each EID, in tables most of which rests: programs are not waited for, and a
// larger table is not either as long as there is room for entries.
func TestNobodyWaitsForAShape(t *testing.T) {
	const first, all = 30_000, 50_000
	p := newPlainTable(t, all+1, 1<<20)
	waits, hurries, ahead := 0, 0, time.Duration(0)
	p.parts.Wait = func() { waits++ }
	p.parts.Passed = func() time.Duration { return p.clock + ahead }
	p.parts.Hurry = func() { hurries++; ahead += reclaim.RestTime / 100 } // some hundred entries later all has rested
	p.parts.thresholds.Smallest = 1 << 14
	p.reopen(t)
	waits, p.maps.slow = 0, true
	for i := 1; i <= all; i++ {
		p.clock += 50 * time.Microsecond
		if i == first {
			p.expectMissed(t, first-1)
			if p.trie.space.wanted == 0 {
				t.Error("no node lacks room: the test shows nothing")
			}
			p.maps.slow = false
		}
		made, unused := p.maps.made, p.trie.space.cells.Unused
		err := p.put(missedKey(i))
		must(t, err)
		if p.maps.slow && p.maps.made > made && unused >= insertCells {
			t.Fatalf("a table was made for EID %d, with %d cells to be had", i, unused)
		}
	}
	p.expectMissed(t, all)
	if waits != 0 || hurries == 0 {
		t.Errorf("programs were waited for %d times, and %d times in the background", waits, hurries)
	}
	if p.trie.space.wanted != 0 {
		t.Errorf("a node still lacks %d cells", p.trie.space.wanted)
	}
}

// TestShapeWithoutMemory has no table for nodes that are to grow: mappings are entered nevertheless, and tables are not asked for with
// each of them.
func TestShapeWithoutMemory(t *testing.T) {
	const all = 20_000
	p := newPlainTable(t, all+1, 1<<20)
	p.parts.thresholds.Smallest = 1 << 15
	p.reopen(t)
	p.maps.tableFailing = errors.New("no memory")
	before := p.maps.made
	for i := 1; i <= all; i++ {
		p.clock += 50 * time.Microsecond
		err := p.put(missedKey(i))
		must(t, err)
	}
	p.expectMissed(t, all)
	if tries := p.maps.made - before; tries == 0 || tries > 20 {
		t.Errorf("%d tables were asked for", tries)
	}
}

// A root's block is made ready before the root is wide, and not for one that cannot be.
func TestBlockIsMadeReady(t *testing.T) {
	const from = 2 * preparedShare
	p := newPlainTable(t, 2*from-1, 1<<16)
	p.parts.thresholds.FirstLevel4 = from
	p.reopen(t)
	put := func(i int, instance uint32, family, bits uint8) (ready bool) {
		key := missedKey(i)
		key.Instance, key.Family, key.Bits = instance, family, bits
		err := p.put(key)
		must(t, err)
		return p.maps.blocksPrepared > 0
	}
	for i := 1; i <= from; i++ {
		if ready := put(i, 0, 4, 32); ready != (i >= from-2) {
			t.Fatalf("with %d entries a block is ready: %v", i, ready)
		}
	}
	if p.firstLevels() != 1 {
		t.Errorf("%d roots with a first level", p.firstLevels())
	}
	p.maps.blocksPrepared = 0
	for i := 1; i < from; i++ {
		if put(i, 1, 4, 32) {
			t.Fatalf("with %d entries a block is ready for a root beyond the limit", i)
		}
	}
	p = newPlainTable(t, from, 1<<16)
	p.parts.thresholds.FirstLevel4 = from
	p.reopen(t)
	for i := 1; i < from; i++ {
		if put(i, 0, 6, 128) {
			t.Fatalf("with %d entries a block is ready for a root of IPv6", i)
		}
	}
}

// TestTableKeepsItsSizeForAWhile has a table that grew and is empty soon after.
func TestTableKeepsItsSizeForAWhile(t *testing.T) {
	const all = 20_000
	p := newPlainTable(t, all+2, 1<<20)
	p.clock = time.Minute
	ahead := time.Duration(0)
	p.parts.Passed, p.parts.Hurry = func() time.Duration { return p.clock + ahead }, func() {}
	p.reopen(t)
	for i := 1; i <= all; i++ {
		err := p.put(missedKey(i))
		must(t, err)
	}
	grown := p.trie.space.cells.Size
	if grown <= uint32(p.Thresholds.Smallest) {
		t.Fatal("the table did not grow: the test shows nothing")
	}
	ahead = defaultThresholds.KeptGrown // that programs hold nothing any more is no time that goes by
	for i := 1; i < all; i++ {
		if existed, err := p.delete(missedKey(i)); err != nil || !existed {
			t.Fatalf("delete: %v, %v", existed, err)
		}
	}
	if p.trie.space.cells.Size != grown {
		t.Errorf("%d cells right after it grew to %d", p.trie.space.cells.Size, grown)
	}
	p.clock += defaultThresholds.KeptGrown
	if existed, err := p.delete(missedKey(all)); err != nil || !existed {
		t.Fatalf("delete: %v, %v", existed, err)
	}
	if p.trie.space.cells.Size != uint32(p.Thresholds.Smallest) {
		t.Errorf("%d cells of an empty table later, want %d", p.trie.space.cells.Size, p.Thresholds.Smallest)
	}
}

// TestPreparedTableIsTaken has a table prepared, and then a node that would have it larger, and no cell left.
func TestPreparedTableIsTaken(t *testing.T) {
	const all = 50_000
	p := newPlainTable(t, all+1, 1<<22)
	p.parts.thresholds.Smallest = 1 << 14
	p.reopen(t)
	p.maps.slow = true
	before := p.maps.made
	for i := 1; i <= all && p.maps.made == before; i++ {
		p.clock += 50 * time.Microsecond
		if p.trie.space.wanted = 0; p.maps.prepared != 0 && p.trie.space.cells.Unused < insertCells {
			for p.trie.space.wanted = 1; p.largerTable() <= p.maps.prepared; {
				p.trie.space.wanted *= 2
			}
		}
		err := p.put(missedKey(i))
		must(t, err)
	}
	if p.maps.made == before || p.maps.wasted > 0 {
		t.Errorf("%d tables were made, and %d prepared for nothing", p.maps.made-before, p.maps.wasted)
	}
}
