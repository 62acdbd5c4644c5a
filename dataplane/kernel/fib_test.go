// SPDX-License-Identifier: Apache-2.0

// These tests drive the compiler of the forwarding table with random edits against
// a prefix table that is not ours, and look after every single store whether any
// lookup gives an answer that is neither the old nor the new one.

package kernel

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gaissmai/bart"
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
	w.trie = newTrie(make([]uint32, insertCells*cellSlots), func(leaf uint32) int { return w.bits[leaf] },
		func() time.Duration { return w.clock }, func() { w.clock += restTime })
	w.trie.cells.private = false
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
	for w.trie.cells.available() < insertCells || w.trie.wanted > 0 {
		larger := make([]uint32, len(w.trie.slots)+cellSlots*(insertCells+int(w.trie.wanted)))
		copy(larger, w.trie.slots)
		w.trie.move(larger)
	}
	w.next++
	leaf := w.next
	w.bits[leaf] = p.Bits()
	w.watch(func() { w.trie.insert(&w.root, trieKeyOf(p.Addr().AsSlice()), p.Bits(), leaf) }, func() { w.model.Insert(p, leaf) })
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
	w.watch(func() { w.trie.remove(&w.root, trieKeyOf(p.Addr().AsSlice()), p.Bits(), leaf, covering) }, func() { w.model.Delete(p) })
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
				w.trie.clear(&w.root)
				if used := w.trie.cells.inUse(); used != 0 {
					t.Errorf("seed %d: an empty table uses %d cells", seed, used)
				}
				if w.stores == 0 {
					t.Error("no store was watched")
				}
			}
		})
	}
}

func TestRecyclerLetsIndexesRest(t *testing.T) {
	clock, waits := time.Duration(0), 0
	r := newRecycler(2, func() time.Duration { return clock }, func() { waits++ })
	a, reused, ok := r.take()
	if a != 0 || reused || !ok {
		t.Fatalf("first index: %d, reused %v, ok %v", a, reused, ok)
	}
	r.giveBack(a)
	if b, _, _ := r.take(); b != 1 {
		t.Errorf("an index that rests was handed out although a fresh one was left")
	}
	if again, reused, ok := r.take(); again != 0 || !reused || !ok || waits != 1 {
		t.Errorf("last index: %d, reused %v, ok %v after %d waits, want 0, true, true after 1", again, reused, ok, waits)
	}
	if _, _, ok := r.take(); ok {
		t.Error("an index was handed out twice")
	}
	r.giveBack(1)
	clock += restTime
	if index, _, ok := r.take(); index != 1 || !ok || waits != 1 {
		t.Error("an index that has rested was not handed out without waiting")
	}
	if r.available() != 0 || r.inUse() != 2 {
		t.Errorf("available %d, in use %d, want 0 and 2", r.available(), r.inUse())
	}
}

func TestRecyclerAdopts(t *testing.T) {
	r := newRecycler(8, func() time.Duration { return 0 }, func() {})
	r.adopt(func(index uint32) bool { return index == 1 || index == 3 })
	seen := map[uint32]bool{}
	for {
		index, _, ok := r.take()
		if !ok {
			break
		}
		seen[index] = true
	}
	if len(seen) != 6 || seen[1] || seen[3] {
		t.Errorf("handed out %v, want all but 1 and 3", seen)
	}
}

// realisticLength4 draws a prefix length as often as the Internet's tables have it.
func realisticLength4(random *rand.Rand) int {
	for _, share := range []struct{ permille, length int }{
		{600, 24}, {110, 23}, {115, 22}, {50, 21}, {45, 20}, {25, 19}, {15, 18}, {8, 17}, {14, 16}, {6, 13}, {2, 9}, {5, 28},
	} {
		if random.IntN(1000) < share.permille {
			return share.length
		}
	}
	return 32
}

// reachable counts the cells of all blocks below a slot.
func (t *trie) reachable(slot uint32) uint32 {
	if uniform(slot) {
		return 0
	}
	sum := block{order: orderOf(stride(slot))}.cells()
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

// TestTablesOfManyPrefixes fills tables, compares them with the model, takes half and
// then all out again, and looks at memory and the length of walks.
func TestTablesOfManyPrefixes(t *testing.T) {
	t.Parallel()
	const roots, each = 20, 1000
	random := rand.New(rand.NewPCG(1, 2))
	p := newPlainTables(t, roots*each, 4, 1<<20)
	models := make([]bart.Table[entryKey], roots)
	var keys []entryKey
	for instance := range models {
		for models[instance].Size() < each {
			address := netip.AddrFrom4([4]byte{byte(random.IntN(224)), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())})
			prefix, _ := address.Prefix(realisticLength4(random))
			key := entryKey{kind: kindMapCache, family: 4, bits: uint8(prefix.Bits()), instance: uint32(instance), address: octetsOf(prefix.Addr())}
			if _, exists := models[instance].Get(prefix); exists {
				continue
			}
			_, _, err := p.put(entry{key: key})
			must(t, err)
			models[instance].Insert(prefix, key)
			keys = append(keys, key)
		}
	}
	compare := func() {
		t.Helper()
		for range 50 * roots {
			near := keys[random.IntN(len(keys))]
			near.address[random.IntN(4)] ^= byte(random.IntN(4))
			address := addrFrom(4, near.address)
			want, found := models[near.instance].Lookup(address)
			record, ok := p.lookup(kindMapCache, 4, near.instance, address.AsSlice())
			if ok != found || ok && keyOfRecord(record) != want {
				t.Fatalf("lookup of %v in Instance-ID %d: %v, want %v %v", address, near.instance, ok, found, want)
			}
		}
		reachable := uint32(0)
		for _, r := range p.roots {
			reachable += p.fib.reachable(r.slot)
		}
		if used := p.fib.cells.inUse(); used != reachable {
			t.Fatalf("%d cells in use, %d can be reached", used, reachable)
		}
	}
	compare()
	if octets := p.fib.cells.size * cellOctets; octets > 100*roots*each {
		t.Errorf("%d octets for %d prefixes: more than 100 for each", octets, roots*each)
	}
	full := p.fib.cells.size
	p.clock += keptGrown
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, key := range keys {
		p.clock += time.Millisecond
		existed, err := p.delete(key)
		if !existed || err != nil {
			t.Fatalf("delete %v: %v, %v", key, existed, err)
		}
		models[key.instance].Delete(netip.PrefixFrom(addrFrom(4, key.address), int(key.bits)))
		if i%(len(keys)/4) == 0 {
			compare()
		}
	}
	if p.fib.cells.inUse() != 0 || p.fib.cells.size >= full/4 {
		t.Errorf("empty tables: %d cells in use, of %d; full ones had %d", p.fib.cells.inUse(), p.fib.cells.size, full)
	}
}
