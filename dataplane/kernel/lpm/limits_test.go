// SPDX-License-Identifier: Apache-2.0

// These tests bring tables to their limits, and take them over there.

package lpm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// fillCells puts entries of both families, of a few Instance-IDs, until the forwarding table is full.
func (p *plainTable) fillCells(t *testing.T, random *rand.Rand) {
	t.Helper()
	for range p.parts.Limit {
		prefix := fmt.Sprintf("[%d]10.%d.%d.%d", random.IntN(3), random.IntN(256), random.IntN(256), random.IntN(256))
		if random.IntN(2) == 0 {
			prefix = fmt.Sprintf("[%d]2001:db8:%x:%x::/64", random.IntN(3), random.IntN(1<<16), random.IntN(1<<16))
		}
		if err := p.putPrefix(t, abi.RootMapCache, prefix); errors.Is(err, dataplane.ErrFull) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the forwarding table never was full")
}

// TestAdoptAFullTable has a table of all cells that there may be taken over by a later process.
func TestAdoptAFullTable(t *testing.T) {
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 11))
		p := newPlainTable(t, 1<<15, 1<<13)
		p.fillCells(t, random)
		before := len(p.list.indexes)
		refused := p.reopen(t)
		if len(p.list.indexes)+refused != before {
			t.Errorf("%d entries, %d refused, of %d", len(p.list.indexes), refused, before)
		}
		t.Log(before, refused, p.trie.space.cells.Unused)
	}
}

// TestFullTableWaitsForNothing has entries refused without waiting for programs where nothing rests.
func TestFullTableWaitsForNothing(t *testing.T) {
	p := newPlainTable(t, 1<<12, 1<<10)
	waits := 0
	p.parts.Wait = func() { waits++ }
	p.reopen(t)
	p.fillCells(t, rand.New(rand.NewPCG(1, 2)))
	waits = 0
	for i := range 10 {
		if err := p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("2001:db8:ffff:%x::1", i)); !errors.Is(err, dataplane.ErrFull) {
			t.Fatal(err)
		}
	}
	if waits > 0 {
		t.Errorf("%d times programs were waited for", waits)
	}
}

// TestShrinkingIsTriedSeldom has no memory for a smaller table: to ask for it with each deletion would take all the time.
func TestShrinkingIsTriedSeldom(t *testing.T) {
	p := newPlainTable(t, 1<<13, 1<<15)
	p.parts.thresholds.Smallest = 1 << 8
	p.reopen(t)
	for i := range 6000 {
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("2001:db8:%x::/64", i*7)))
	}
	p.clock += defaultThresholds.KeptGrown
	p.maps.tableFailing = errors.New("no memory")
	before := p.maps.made
	remove := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			key, _ := KeyOf(abi.RootMapCache, lisp.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/64", i*7)))
			if existed, err := p.delete(key); err != nil || !existed {
				t.Fatalf("delete: %v, %v", existed, err)
			}
		}
	}
	remove(0, 5900)
	if tries := p.maps.made - before; tries != 1 {
		t.Errorf("%d tries, want 1", tries)
	}
	p.maps.tableFailing = nil
	size := p.trie.space.cells.Size
	p.clock += defaultThresholds.KeptGrown
	remove(5900, 5901)
	if p.trie.space.cells.Size >= size {
		t.Errorf("%d cells when there was memory again, before %d", p.trie.space.cells.Size, size)
	}
}

// TestOneRootWithoutABlockHoldsUpNoOther has a root that cannot become wide, while another one no longer needs to be.
func TestOneRootWithoutABlockHoldsUpNoOther(t *testing.T) {
	p := newPlainTable(t, 1<<8, 1<<12)
	p.parts.thresholds.FirstLevel4 = 16
	p.reopen(t)
	name := func(iid, i int) string { return fmt.Sprintf("[%d]10.0.%d.0/28", iid, i) }
	for i := range 16 {
		must(t, p.putPrefix(t, abi.RootMapCache, name(1, i)))
	}
	p.maps.blockFailing = errors.New("no memory")
	for i := range 20 {
		must(t, p.putPrefix(t, abi.RootMapCache, name(2, i)))
	}
	for i := range 14 {
		key, _ := KeyOf(abi.RootMapCache, lisp.MustParsePrefix(name(1, i)))
		if existed, err := p.delete(key); err != nil || !existed {
			t.Fatalf("delete: %v, %v", existed, err)
		}
	}
	if len(p.maps.firstLevels) != 0 {
		t.Errorf("%d roots are wide, which have 2 entries, and 20", len(p.maps.firstLevels))
	}
	p.maps.blockFailing = nil
	for i := 20; i < 32; i++ {
		must(t, p.putPrefix(t, abi.RootMapCache, name(2, i)))
	}
	if len(p.maps.firstLevels) != 1 {
		t.Errorf("%d roots are wide when there is memory and one has twice the entries", len(p.maps.firstLevels))
	}
}

// TestAdoptionKeepsFewTables takes over a table that grew many times: those that it grew out of are given up as it grows again.
func TestAdoptionKeepsFewTables(t *testing.T) {
	p := newPlainTable(t, 1<<15, 1<<16)
	p.parts.thresholds.Smallest, p.parts.thresholds.FirstLevel4 = 1<<6, 1<<10
	p.reopen(t)
	for i := range 4000 {
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.%d.%d.0/28", i>>8, i&255)))
	}
	p.maps = newPlainMemory()
	p.parts.Memory = p.maps
	p.reopen(t)
	if p.maps.made < 5 || p.maps.most > 2 {
		t.Errorf("of %d tables there were %d at a time", p.maps.made, p.maps.most)
	}
}
