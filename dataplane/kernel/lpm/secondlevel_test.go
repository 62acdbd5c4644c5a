// SPDX-License-Identifier: Apache-2.0

// These tests edit a trie and a group of elements beside it at random, and look after every store whether any lookup by the
// group gives an answer that is neither the old nor the new one, also one that read the element's check some edits before.

package lpm

import (
	"net/netip"
	"testing"

	"loci/dataplane/kernel/reclaim"
)

const testTop = 0x20010 // the first bits of all addresses here

// A slowReader is a program that has read the check of an element, and reads the rest later.
type slowReader struct {
	key     trieKey
	check   uint64
	allowed map[uint32]bool // answers that were right since
}

type levelWorld struct {
	*fibWorld
	groups  levels
	group   *secondLevel
	readers []*slowReader
}

func newLevelWorld(t *testing.T, seed uint64) *levelWorld {
	w := &levelWorld{fibWorld: newFIBWorld(t, seed, true), group: newSecondLevel()}
	w.group.entries = make([]Entry, SecondLevelEntries)
	for i := range w.group.entries {
		w.group.entries[i] = plainEntry(slotEmpty)
	}
	w.groups.second = map[uint32]*secondLevel{testTop: w.group}
	for i, a := range w.probes { // few elements, several addresses in each
		octets := a.As16()
		octets[0], octets[1], octets[2], octets[3] = 0x20, 0x01, 0, byte(w.random.IntN(4))
		w.probes[i] = netip.AddrFrom16(octets)
		w.readers = append(w.readers, &slowReader{key: trieKeyOf(octets[:])})
	}
	return w
}

func (w *levelWorld) elementOf(k trieKey) Entry {
	return w.group.entries[k.hi>>restBits%SecondLevelEntries]
}

// answer is what a program finds that has read a check.
func (w *levelWorld) answer(k trieKey, check uint64) uint32 {
	e, slot := w.elementOf(k), uint32(0)
	if uint32(k.hi&(1<<restBits-1)>>(check>>32)) == uint32(check) {
		slot = e.match
	} else {
		slot = e.otherwise
	}
	if slot == slotWalk {
		return w.trie.lookup(w.root.slot, k)
	}
	return slot
}

func (w *levelWorld) startReaders() {
	for _, r := range w.readers {
		r.check = w.elementOf(r.key).check
		r.allowed = map[uint32]bool{w.trie.lookup(w.root.slot, r.key): true}
	}
}

// edit changes the trie, then the group, and looks after each store.
func (w *levelWorld) edit(p netip.Prefix, change func(netip.Prefix)) {
	before, changed := make([]uint32, len(w.readers)), make([]bool, len(w.readers))
	for i, r := range w.readers {
		before[i] = w.trie.lookup(w.root.slot, r.key)
	}
	change(p)
	look := func() {
		for i, r := range w.readers {
			after := w.trie.lookup(w.root.slot, r.key)
			r.allowed[after] = true
			if got := w.answer(r.key, r.check); !r.allowed[got] {
				w.t.Fatalf("%v: a slow program finds %#x for %v, which was never right since it began", p, got, w.probes[i])
			}
			switch got := w.answer(r.key, w.elementOf(r.key).check); {
			case got == after:
				changed[i] = true
			case got != before[i] || changed[i]:
				w.t.Fatalf("%v: lookup of %v in the middle of an edit: %#x, before %#x, after %#x", p, w.probes[i], got, before[i], after)
			}
		}
	}
	w.group.stored = func() { w.stores++; look() }
	w.groups.paintBelow(w.trie, w.root.slot, testTop, trieKeyOf(p.Addr().AsSlice()), p.Bits())
	look()
	for i, r := range w.readers {
		if got := w.groups.lookup(r.key); got != slotWalk && got != w.want(w.probes[i]) {
			w.t.Fatalf("%v: lookup of %v: %#x, want %#x", p, w.probes[i], got, w.want(w.probes[i]))
		}
	}
}

// randomLongPrefix ends within an element, as a rule.
func (w *levelWorld) randomLongPrefix() netip.Prefix {
	p, _ := w.probes[w.random.IntN(len(w.probes))].Prefix([]int{30, 32, 35, 36, 37, 40, 44, 48, 48, 56, 64, 65, 128}[w.random.IntN(13)])
	return p
}

func TestGroupsStoreByStore(t *testing.T) {
	compared := 0
	for seed := range uint64(4) {
		w := newLevelWorld(t, seed)
		w.startReaders()
		for step := range 250 {
			// What a program read stands for less than the time that things rest.
			if w.clock += reclaim.RestTime / 5; step%4 == 0 {
				w.startReaders()
			}
			p := w.randomLongPrefix()
			if _, exists := w.model.Get(p); exists {
				w.edit(p, w.remove)
			} else {
				w.edit(p, w.insert)
			}
			for _, r := range w.readers {
				if w.elementOf(r.key).check != checkNever {
					compared++
				}
			}
		}
	}
	if compared == 0 {
		t.Error("no element compared anything")
	}
	t.Logf("%d comparisons", compared)
}
