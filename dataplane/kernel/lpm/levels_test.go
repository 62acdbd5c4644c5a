// SPDX-License-Identifier: Apache-2.0

// These tests drive the forwarding table in plain memory: random operations beside a model.

package lpm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/reclaim"
	"loci/lisp"
)

// TestFlatRootsAgainstModel has roots of IPv6 whose first bits are one node, once there was room for it.
func TestFlatRootsAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlainTable(t, 400, 1<<19)
	p.parts.thresholds.FirstLevel6 = 3
	p.reopen(t)
	editTable(t, p, rand.New(rand.NewPCG(6, 7)), 150)
	for i := range 4 {
		p.clock += reclaim.RestTime // what found no room for another shape is tried again
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("2001:db8:%d::/48", i)))
	}
	if slot := p.roots[RootKey{Kind: abi.RootMapCache, Family: 6}].slot; stride(slot) != flatStride {
		t.Errorf("the root has %d bits", stride(slot))
	}
}

// TestWideRootsAgainstModel has roots that become wide by few entries, and narrow again by fewer.
func TestWideRootsAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlainTable(t, 400, 1<<14)
	p.parts.thresholds.FirstLevel4 = 12
	p.reopen(t)
	wide, narrowed := editTable(t, p, rand.New(rand.NewPCG(5, 7)), 400)
	if wide == 0 || narrowed == 0 {
		t.Errorf("roots became wide at %d steps, narrow at %d", wide, narrowed)
	}
}

// TestGroupsAgainstModel has roots of IPv6 that have groups by few entries.
func TestGroupsAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlainTable(t, 400, 1<<19)
	p.parts.thresholds.FirstLevel6, p.parts.thresholds.SecondLevel6, p.parts.thresholds.FirstLevel4 = 4, 1, 1<<20
	p.reopen(t)
	begun, ended := editTable(t, p, rand.New(rand.NewPCG(8, 7)), 300)
	if begun == 0 || ended == 0 {
		t.Errorf("roots got groups at %d steps, lost them at %d", begun, ended)
	}
}

// TestGroupsComeAndGo fills the addresses of two groups and empties them again; what programs find is right all the
// time.
func TestGroupsComeAndGo(t *testing.T) {
	p := newPlainTable(t, 100, 1<<19)
	p.parts.thresholds.FirstLevel6, p.parts.thresholds.SecondLevel6 = 16, 8
	p.reopen(t)
	var prefixes []lisp.Prefix
	for i := range 32 {
		prefixes = append(prefixes, lisp.MustParsePrefix(fmt.Sprintf("2001:%x:%x::/48", 0x1000*(i%2), i)))
	}
	expect := func(in []lisp.Prefix, groups int) {
		t.Helper()
		if got := len(p.maps.secondLevels); got != groups {
			t.Fatalf("%d groups with %d prefixes, want %d", got, len(in), groups)
		}
		for _, prefix := range prefixes {
			index, ok := p.maps.walk(abi.RootMapCache, prefix, prefix.EID().Addr())
			key, _ := KeyOf(abi.RootMapCache, prefix)
			if want := slices.Contains(in, prefix); ok != want || ok && p.list.keys[index] != key {
				t.Fatalf("%v: found %v, want %v, with %d prefixes", prefix, ok, want, len(in))
			}
		}
	}
	for i, prefix := range prefixes {
		must(t, p.putPrefix(t, abi.RootMapCache, prefix.String()))
		expect(prefixes[:i+1], map[bool]int{true: 2}[i >= 15])
	}
	for i, prefix := range prefixes[:30] {
		p.clock += time.Millisecond
		key, _ := KeyOf(abi.RootMapCache, prefix)
		if existed, err := p.delete(key); !existed || err != nil {
			t.Fatalf("delete: %v, %v", existed, err)
		}
		groups := 2
		if i >= 28 { // 3 prefixes are fewer than a quarter of 16
			groups = 0
		}
		expect(prefixes[i+1:], groups)
	}
	if len(p.maps.firstLevels) != 0 {
		t.Errorf("%d blocks without groups", len(p.maps.firstLevels))
	}
}

// TestGroupsWithoutMemory goes on by the trie.
func TestGroupsWithoutMemory(t *testing.T) {
	p := newPlainTable(t, 100, 1<<19)
	p.parts.thresholds.FirstLevel6, p.parts.thresholds.SecondLevel6 = 4, 4
	p.reopen(t)
	p.maps.groupFailing = errors.New("no memory")
	put := func(i int) {
		t.Helper()
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("2001:0:%x::/48", i)))
		if _, ok := p.maps.walk(abi.RootMapCache, lisp.MustParsePrefix("::/0"), netip.MustParseAddr(fmt.Sprintf("2001:0:%x::1", i))); !ok {
			t.Fatalf("prefix %d is not found", i)
		}
	}
	for i := range 7 {
		put(i)
	}
	p.maps.groupFailing = nil
	for i := 7; i < 9; i++ {
		put(i)
	}
	if len(p.maps.secondLevels) != 1 {
		t.Errorf("%d groups when there was memory again", len(p.maps.secondLevels))
	}
	if begin := p.maps.roots[RootKey{Kind: abi.RootMapCache, Family: 6}]; begin.FirstLevel == 0 || len(p.maps.firstLevels) != 1 {
		t.Errorf("the root names block %d of %d", begin.FirstLevel, len(p.maps.firstLevels))
	}
}

// TestWideRootThatCannotBeNarrow loses its last entry when there was never memory to make it narrow.
func TestWideRootThatCannotBeNarrow(t *testing.T) {
	p := newPlainTable(t, 10, 1<<12)
	p.parts.thresholds.FirstLevel4 = 4
	p.reopen(t)
	prefixes := []string{"10.0.0.0/28", "10.0.1.0/28", "10.0.2.0/28", "10.0.3.0/28"}
	for _, prefix := range prefixes {
		must(t, p.putPrefix(t, abi.RootMapCache, prefix))
	}
	if len(p.maps.firstLevels) != 1 {
		t.Fatal("the root is not wide")
	}
	p.maps.tableFailing = errors.New("no memory")
	for _, prefix := range prefixes {
		key, _ := KeyOf(abi.RootMapCache, lisp.MustParsePrefix(prefix))
		if existed, err := p.delete(key); err != nil || !existed {
			t.Fatalf("delete %s: %v, %v", prefix, existed, err)
		}
	}
	if len(p.maps.firstLevels) != 0 || len(p.maps.roots) != 0 || p.trie.space.cells.InUse() != 0 {
		t.Errorf("%d blocks, %d roots, %d cells in use without entries", len(p.maps.firstLevels), len(p.maps.roots), p.trie.space.cells.InUse())
	}
}

// TestWideRootIsTriedSeldom has a root that cannot become wide: building the table anew for each entry would take all
// the time.
func TestWideRootIsTriedSeldom(t *testing.T) {
	p := newPlainTable(t, 100, 1<<12)
	p.parts.thresholds.FirstLevel4 = 4
	p.reopen(t)
	must(t, p.putPrefix(t, abi.RootMapCache, "2001:db8::/32"))
	p.maps.switchFailing = errors.New("no")
	before := p.maps.made
	for i := range 40 {
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.0.%d.0/24", i)))
	}
	if tries := p.maps.made - before; tries != 4 { // at 4, 8, 16 and 32 entries
		t.Errorf("%d tries, want 4", tries)
	}
	p.maps.switchFailing = nil
	for i := range 24 {
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.1.%d.0/24", i)))
	}
	if len(p.maps.firstLevels) != 1 {
		t.Errorf("%d blocks at last", len(p.maps.firstLevels))
	}
}

// Roots that had many entries one after the other are not all wide.
func TestWideRootsAreLimited(t *testing.T) {
	p := newPlainTable(t, 64, 1<<12)
	p.parts.thresholds.FirstLevel4 = 16
	p.reopen(t)
	for iid := range 6 {
		for i := range 16 {
			must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("[%d]10.0.%d.0/24", iid, i)))
		}
		for i := range 12 { // a quarter stays, so it is as wide as before
			key, _ := KeyOf(abi.RootMapCache, lisp.MustParsePrefix(fmt.Sprintf("[%d]10.0.%d.0/24", iid, i)))
			if existed, err := p.delete(key); err != nil || !existed {
				t.Fatalf("delete: %v, %v", existed, err)
			}
		}
	}
	if wide := p.firstLevels(); wide != 4 {
		t.Errorf("%d roots are wide, want 4: as many as can have 16 of 64 entries", wide)
	}
}
