// SPDX-License-Identifier: Apache-2.0

// These tests drive the compiler of the forwarding table with random edits against
// a prefix table that is not ours, and look after every single store whether any
// lookup gives an answer that is neither the old nor the new one.

package lpm

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gaissmai/bart"

	"loci/dataplane/kernel/reclaim"
)

// fibWorld is a trie beside its model.
type fibWorld struct {
	t         *testing.T
	random    *rand.Rand
	trie      *trie
	root      trieRoot
	published uint32         // what walks begin with
	bits      map[uint32]int // of each leaf
	model     *bart.Table[uint32]
	probes    []netip.Addr
	clock     time.Duration
	next      uint32
	stores    int
}

func newFIBWorld(t *testing.T, seed uint64, v6 bool) *fibWorld {
	w := &fibWorld{t: t, random: rand.New(rand.NewPCG(seed, 1)), bits: map[uint32]int{}, model: new(bart.Table[uint32])}
	w.trie = newTrie(make([]uint32, insertCells*CellSlots), func(leaf uint32) int { return w.bits[leaf] },
		func() time.Duration { return w.clock }, func() { w.clock += reclaim.RestTime })
	w.trie.space.cells.Private = false
	for range 40 {
		w.probes = append(w.probes, randomAddr(w.random, v6))
	}
	return w
}

// randomAddr draws from a small space, so that prefixes nest and collide.
func randomAddr(random *rand.Rand, v6 bool) netip.Addr {
	octets := make([]byte, 4)
	if v6 {
		octets = make([]byte, 16)
	}
	for i := range octets {
		octets[i] = []byte{0, 0, 1, 127, 128, 255, byte(random.Uint32())}[random.IntN(7)]
	}
	addr, _ := netip.AddrFromSlice(octets)
	return addr
}

func (w *fibWorld) randomPrefix() netip.Prefix {
	addr := w.probes[w.random.IntN(len(w.probes))]
	prefix, _ := addr.Prefix(w.random.IntN(addr.BitLen() + 1))
	return prefix
}

func (w *fibWorld) lookup(a netip.Addr) uint32 {
	return w.trie.lookup(w.published, trieKeyOf(a.AsSlice()))
}

func (w *fibWorld) want(a netip.Addr) uint32 {
	if leaf, ok := w.model.Lookup(a); ok {
		return slotLeaf | leaf
	}
	return slotEmpty
}

// watch runs one edit; after each store every probe must see the old answer, then
// the new one, never going back.
func (w *fibWorld) watch(edit, change func()) {
	before := make([]uint32, len(w.probes))
	for i, a := range w.probes {
		before[i] = w.want(a)
	}
	change()
	changed := make([]bool, len(w.probes))
	look := func() {
		w.stores++
		for i, a := range w.probes {
			got := w.lookup(a)
			switch {
			case got == w.want(a):
				changed[i] = true
			case got != before[i] || changed[i]:
				w.t.Fatalf("lookup of %v in the middle of an edit: %#x, before %#x, after %#x", a, got, before[i], w.want(a))
			}
		}
	}
	w.trie.publish = func(slot *uint32, value uint32) { *slot = value; look() }
	w.trie.publishRun = func(slots []uint32, value uint32) {
		for i := range slots {
			w.trie.publish(&slots[i], value)
		}
	}
	w.root.store = func(slot uint32) { w.published = slot; look() }
	edit()
	for _, a := range w.probes {
		if got := w.lookup(a); got != w.want(a) {
			w.t.Fatalf("lookup of %v: %#x, want %#x", a, got, w.want(a))
		}
	}
}

func (w *fibWorld) insert(p netip.Prefix) {
	if _, exists := w.model.Get(p); exists {
		return
	}
	for w.trie.space.cells.Available() < insertCells || w.trie.space.wanted > 0 {
		larger := make([]uint32, len(w.trie.slots)+CellSlots*(insertCells+int(w.trie.space.wanted)))
		copy(larger, w.trie.slots)
		w.trie.move(larger)
	}
	w.next++
	leaf := w.next
	w.bits[leaf] = p.Bits()
	w.watch(func() { (&editor{trie: w.trie}).insert(&w.root, trieKeyOf(p.Addr().AsSlice()), p.Bits(), leaf) }, func() { w.model.Insert(p, leaf) })
}

func (w *fibWorld) remove(p netip.Prefix) {
	leaf, exists := w.model.Get(p)
	if !exists {
		return
	}
	covering := slotEmpty
	for bits := p.Bits() - 1; bits >= 0 && covering == slotEmpty; bits-- {
		shorter, _ := p.Addr().Prefix(bits)
		if leaf, ok := w.model.Get(shorter); ok {
			covering = slotLeaf | leaf
		}
	}
	w.watch(func() {
		(&editor{trie: w.trie}).remove(&w.root, trieKeyOf(p.Addr().AsSlice()), p.Bits(), leaf, covering)
	}, func() { w.model.Delete(p) })
}

func TestForwardingTableAgainstModel(t *testing.T) {
	for _, family := range []struct {
		name string
		v6   bool
	}{{"IPv4", false}, {"IPv6", true}} {
		t.Run(family.name, func(t *testing.T) {
			for seed := range uint64(5) {
				w := newFIBWorld(t, seed, family.v6)
				for range 150 {
					w.clock += 50 * time.Millisecond
					if p := w.randomPrefix(); w.random.IntN(5) < 3 {
						w.insert(p)
					} else {
						w.remove(p)
					}
				}
				for p := range w.model.Clone().All() {
					w.remove(p)
				}
				(&editor{trie: w.trie}).clear(&w.root)
				if used := w.trie.space.cells.InUse(); used != 0 {
					t.Errorf("seed %d: an empty table uses %d cells", seed, used)
				}
				if w.stores == 0 {
					t.Error("no store was watched")
				}
			}
		})
	}
}

// reachable counts the cells of all blocks below a slot.
func (t *trie) reachable(slot uint32) uint32 {
	if uniform(slot) {
		return 0
	}
	sum := reclaim.Block{Order: orderOf(stride(slot))}.Cells()
	if stride(slot) == 0 {
		return sum + t.reachable(t.cellOf(slot)[compareMatch])
	}
	subs := uint32(0)
	for _, child := range t.nodeOf(slot) {
		if !uniform(child) {
			subs++
		}
		sum += t.reachable(child)
	}
	if subs != t.subs[slot&slotCell] {
		panic("a node's count of slots that go on is wrong")
	}
	return sum
}
