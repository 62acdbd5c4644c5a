// SPDX-License-Identifier: Apache-2.0

// These tests edit a trie and a group of elements beside it at random, and look after every store whether any lookup by the
// group gives an answer that is neither the old nor the new one, also one that read the element's check some edits before.

package kernel

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

const testTop = 0x20010 // the first bits of all addresses here

// A slowReader is a program that has read the check of an element, and reads the rest later.
type slowReader struct {
	key     trieKey
	check   uint64
	allowed map[uint32]bool // answers that were right since
}

type groupWorld struct {
	*fibWorld
	groups  groups
	group   *group
	readers []*slowReader
}

func newGroupWorld(t *testing.T, seed uint64) *groupWorld {
	w := &groupWorld{fibWorld: newFIBWorld(t, seed, true), group: newGroup()}
	w.group.elements = make([]element, groupSize)
	for i := range w.group.elements {
		w.group.elements[i] = plainElement(slotEmpty)
	}
	w.groups.open = map[uint32]*group{testTop: w.group}
	for i, a := range w.probes { // few elements, several addresses in each
		octets := a.As16()
		octets[0], octets[1], octets[2], octets[3] = 0x20, 0x01, 0, byte(w.random.IntN(4))
		w.probes[i] = netip.AddrFrom16(octets)
		w.readers = append(w.readers, &slowReader{key: trieKeyOf(octets[:])})
	}
	return w
}

func (w *groupWorld) elementOf(k trieKey) element { return w.group.elements[k.hi>>restBits%groupSize] }

// answer is what a program finds that has read a check.
func (w *groupWorld) answer(k trieKey, check uint64) uint32 {
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

func (w *groupWorld) startReaders() {
	for _, r := range w.readers {
		r.check = w.elementOf(r.key).check
		r.allowed = map[uint32]bool{w.trie.lookup(w.root.slot, r.key): true}
	}
}

// edit changes the trie, then the group, and looks after each store.
func (w *groupWorld) edit(p netip.Prefix, change func(netip.Prefix)) {
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
func (w *groupWorld) randomLongPrefix() netip.Prefix {
	p, _ := w.probes[w.random.IntN(len(w.probes))].Prefix([]int{30, 32, 35, 36, 37, 40, 44, 48, 48, 56, 64, 65, 128}[w.random.IntN(13)])
	return p
}

func TestGroupsStoreByStore(t *testing.T) {
	compared := 0
	for seed := range uint64(4) {
		w := newGroupWorld(t, seed)
		w.startReaders()
		for step := range 250 {
			// What a program read stands for less than the time that things rest.
			if w.clock += restTime / 5; step%4 == 0 {
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

// TestGroupsAnswer has most answers of a table like the Internet's given by its groups.
func TestGroupsAnswer(t *testing.T) {
	const prefixes = 6000
	random := rand.New(rand.NewPCG(3, 4))
	p := newPlainTables(t, prefixes, 4, 1<<19)
	p.parts.flatFrom, p.parts.groupFrom = prefixes/2, prefixes/8
	p.reopen(t)
	var keys []entryKey
	for len(keys) < prefixes {
		address := netip.AddrFrom16([16]byte{0x20, 1, byte(random.IntN(64)), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())})
		prefix, _ := address.Prefix([]int{48, 48, 48, 32, 36, 40, 44, 29, 64}[random.IntN(9)])
		key := entryKey{kind: kindMapCache, family: 6, bits: uint8(prefix.Bits()), address: octetsOf(prefix.Addr())}
		if _, exists := p.entries.get(key); exists {
			continue
		}
		_, _, err := p.put(entry{key: key})
		must(t, err)
		keys = append(keys, key)
	}
	r, walks := p.roots[rootKey{kind: kindMapCache, family: 6}], 0
	for _, key := range keys {
		slot := r.groups.lookup(key.trieKey())
		if slot == slotWalk {
			walks++
			continue
		}
		if want := p.fib.lookup(r.slot, key.trieKey()); slot != want {
			t.Fatalf("%v: %#x, want %#x", key, slot, want)
		}
	}
	if walks*10 > prefixes {
		t.Errorf("%d of %d lookups go on in the trie", walks, prefixes)
	}
}
