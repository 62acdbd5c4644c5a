// SPDX-License-Identifier: Apache-2.0

// These tests fill the forwarding table with many prefixes.

package lpm

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/gaissmai/bart"

	"loci/dataplane/kernel/abi"
)

// TestTablesOfManyPrefixes fills tables, compares them with the model, takes half and
// then all out again, and looks at memory and the length of walks.
func TestTablesOfManyPrefixes(t *testing.T) {
	t.Parallel()
	const roots, each = 20, 1000
	random := rand.New(rand.NewPCG(1, 2))
	p := newPlainTable(t, roots*each, 1<<20)
	models := make([]bart.Table[Key], roots)
	var keys []Key
	for instance := range models {
		for models[instance].Size() < each {
			address := netip.AddrFrom4([4]byte{byte(random.IntN(224)), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())})
			prefix, _ := address.Prefix(realisticLength4(random))
			key := Key{Kind: abi.RootMapCache, Family: 4, Bits: uint8(prefix.Bits()), Instance: uint32(instance), Address: abi.Octets(prefix.Addr())}
			if _, exists := models[instance].Get(prefix); exists {
				continue
			}
			err := p.put(key)
			must(t, err)
			models[instance].Insert(prefix, key)
			keys = append(keys, key)
		}
	}
	compare := func() {
		t.Helper()
		for range 50 * roots {
			near := keys[random.IntN(len(keys))]
			near.Address[random.IntN(4)] ^= byte(random.IntN(4))
			address := abi.Addr(4, near.Address)
			want, found := models[near.Instance].Lookup(address)
			got, ok := p.find(abi.RootMapCache, 4, near.Instance, address.AsSlice())
			if ok != found || ok && got != want {
				t.Fatalf("lookup of %v in Instance-ID %d: %v, want %v %v", address, near.Instance, ok, found, want)
			}
		}
		reachable := uint32(0)
		for _, r := range p.roots {
			reachable += p.trie.reachable(r.slot)
		}
		if used := p.trie.space.cells.InUse(); used != reachable {
			t.Fatalf("%d cells in use, %d can be reached", used, reachable)
		}
	}
	compare()
	if octets := p.trie.space.cells.Size * CellOctets; octets > 100*roots*each {
		t.Errorf("%d octets for %d prefixes: more than 100 for each", octets, roots*each)
	}
	full := p.trie.space.cells.Size
	p.clock += defaultThresholds.KeptGrown
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for i, key := range keys {
		p.clock += time.Millisecond
		existed, err := p.delete(key)
		if !existed || err != nil {
			t.Fatalf("delete %v: %v, %v", key, existed, err)
		}
		models[key.Instance].Delete(netip.PrefixFrom(abi.Addr(4, key.Address), int(key.Bits)))
		if i%(len(keys)/4) == 0 {
			compare()
		}
	}
	if p.trie.space.cells.InUse() != 0 || p.trie.space.cells.Size >= full/4 {
		t.Errorf("empty tables: %d cells in use, of %d; full ones had %d", p.trie.space.cells.InUse(), p.trie.space.cells.Size, full)
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

// TestGroupsAnswer has most answers of a table like the Internet's given by its groups.
func TestGroupsAnswer(t *testing.T) {
	const prefixes = 6000
	random := rand.New(rand.NewPCG(3, 4))
	p := newPlainTable(t, prefixes, 1<<19)
	p.parts.thresholds.FirstLevel6, p.parts.thresholds.SecondLevel6 = prefixes/2, prefixes/8
	p.reopen(t)
	var keys []Key
	for len(keys) < prefixes {
		address := netip.AddrFrom16([16]byte{0x20, 1, byte(random.IntN(64)), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32()), byte(random.Uint32())})
		prefix, _ := address.Prefix([]int{48, 48, 48, 32, 36, 40, 44, 29, 64}[random.IntN(9)])
		key := Key{Kind: abi.RootMapCache, Family: 6, Bits: uint8(prefix.Bits()), Address: abi.Octets(prefix.Addr())}
		if _, exists := p.list.Get(key); exists {
			continue
		}
		err := p.put(key)
		must(t, err)
		keys = append(keys, key)
	}
	r, walks := p.roots[RootKey{Kind: abi.RootMapCache, Family: 6}], 0
	for _, key := range keys {
		slot := r.levels.lookup(key.trieKey())
		if slot == slotWalk {
			walks++
			continue
		}
		if want := p.trie.lookup(r.slot, key.trieKey()); slot != want {
			t.Fatalf("%v: %#x, want %#x", key, slot, want)
		}
	}
	if walks*10 > prefixes {
		t.Errorf("%d of %d lookups go on in the trie", walks, prefixes)
	}
}
