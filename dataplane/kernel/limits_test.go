// SPDX-License-Identifier: Apache-2.0

// These tests bring tables to their limits, and take them over there.

package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"loci/dataplane"
	"loci/lisp"
)

// fillCells puts entries of both families, of a few Instance-IDs, until the forwarding table is full.
func (p *plainTables) fillCells(t *testing.T, random *rand.Rand) {
	t.Helper()
	for range len(p.records) {
		prefix := fmt.Sprintf("[%d]10.%d.%d.%d", random.IntN(3), random.IntN(256), random.IntN(256), random.IntN(256))
		if random.IntN(2) == 0 {
			prefix = fmt.Sprintf("[%d]2001:db8:%x:%x::/64", random.IntN(3), random.IntN(1<<16), random.IntN(1<<16))
		}
		if err := p.putPrefix(t, kindMapCache, prefix, nil); errors.Is(err, dataplane.ErrFull) {
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
		p := newPlainTables(t, 1<<15, 4, 1<<13)
		p.fillCells(t, random)
		before := p.entries.count
		refused := p.reopen(t)
		if p.entries.count+len(refused) != before {
			t.Errorf("%d entries, %d refused, of %d", p.entries.count, len(refused), before)
		}
		t.Log(before, len(refused), p.fib.cells.unused)
	}
}

// TestManyRefusedEntriesFillNoLog has more entries refused than anybody reads about.
func TestManyRefusedEntriesFillNoLog(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{0, 1, refusedTold, refusedTold + 1, 1000} {
		var text strings.Builder
		refused := make([]error, entries)
		for i := range refused {
			refused[i] = dataplane.ErrFull
		}
		tellRefused(slog.New(slog.NewTextHandler(&text, nil)), refused)
		if lines, want := strings.Count(text.String(), "\n"), min(entries, refusedTold+1); lines != want {
			t.Errorf("%d lines about %d entries, want %d", lines, entries, want)
		}
		if entries > refusedTold && !strings.Contains(text.String(), fmt.Sprintf("entries=%d\n", entries-refusedTold)) {
			t.Errorf("nobody learns how many they are: %s", text.String())
		}
	}
}

// TestFullTableWaitsForNothing has entries refused without waiting for programs where nothing rests.
func TestFullTableWaitsForNothing(t *testing.T) {
	p := newPlainTables(t, 1<<12, 4, 1<<10)
	waits := 0
	p.parts.wait = func() { waits++ }
	p.reopen(t)
	p.fillCells(t, rand.New(rand.NewPCG(1, 2)))
	waits = 0
	for i := range 10 {
		if err := p.putPrefix(t, kindMapCache, fmt.Sprintf("2001:db8:ffff:%x::1", i), nil); !errors.Is(err, dataplane.ErrFull) {
			t.Fatal(err)
		}
	}
	if waits > 0 {
		t.Errorf("%d times programs were waited for", waits)
	}
}

// TestShrinkingIsTriedSeldom has no memory for a smaller table: to ask for it with each deletion would take all the time.
func TestShrinkingIsTriedSeldom(t *testing.T) {
	p := newPlainTables(t, 1<<13, 4, 1<<15)
	p.parts.smallest = 1 << 8
	p.reopen(t)
	for i := range 6000 {
		must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("2001:db8:%x::/64", i*7), nil))
	}
	p.clock += keptGrown
	p.maps.tableFailing = errors.New("no memory")
	before := p.maps.made
	remove := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			key, _ := keyOf(kindMapCache, lisp.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/64", i*7)))
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
	size := p.fib.cells.size
	p.clock += keptGrown
	remove(5900, 5901)
	if p.fib.cells.size >= size {
		t.Errorf("%d cells when there was memory again, before %d", p.fib.cells.size, size)
	}
}

// TestOneRootWithoutABlockHoldsUpNoOther has a root that cannot become wide, while another one no longer needs to be.
func TestOneRootWithoutABlockHoldsUpNoOther(t *testing.T) {
	p := newPlainTables(t, 1<<8, 4, 1<<12)
	p.parts.wideFrom = 16
	p.reopen(t)
	name := func(iid, i int) string { return fmt.Sprintf("[%d]10.0.%d.0/28", iid, i) }
	for i := range 16 {
		must(t, p.putPrefix(t, kindMapCache, name(1, i), nil))
	}
	p.maps.blockFailing = errors.New("no memory")
	for i := range 20 {
		must(t, p.putPrefix(t, kindMapCache, name(2, i), nil))
	}
	for i := range 14 {
		key, _ := keyOf(kindMapCache, lisp.MustParsePrefix(name(1, i)))
		if existed, err := p.delete(key); err != nil || !existed {
			t.Fatalf("delete: %v, %v", existed, err)
		}
	}
	if len(p.maps.blocks) != 0 {
		t.Errorf("%d roots are wide, which have 2 entries, and 20", len(p.maps.blocks))
	}
	p.maps.blockFailing = nil
	for i := 20; i < 32; i++ {
		must(t, p.putPrefix(t, kindMapCache, name(2, i), nil))
	}
	if len(p.maps.blocks) != 1 {
		t.Errorf("%d roots are wide when there is memory and one has twice the entries", len(p.maps.blocks))
	}
}

// TestAdoptionKeepsFewTables takes over a table that grew many times: those that it grew out of are given up as it grows again.
func TestAdoptionKeepsFewTables(t *testing.T) {
	p := newPlainTables(t, 1<<15, 4, 1<<16)
	p.parts.smallest, p.parts.wideFrom = 1<<6, 1<<10
	p.reopen(t)
	for i := range 4000 {
		must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("10.%d.%d.0/28", i>>8, i&255), nil))
	}
	p.maps = newPlainMaps()
	p.parts.maps = p.maps
	p.reopen(t)
	if p.maps.made < 5 || p.maps.most > 2 {
		t.Errorf("of %d tables there were %d at a time", p.maps.made, p.maps.most)
	}
}
