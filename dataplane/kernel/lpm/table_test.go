// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// entryList are entries by index.
type entryList struct {
	indexes map[Key]uint32
	keys    []Key // by index
	free    []uint32
}

func (l *entryList) Get(key Key) (index uint32, ok bool) {
	index, ok = l.indexes[key]
	return index, ok
}

func (l *entryList) All() iter.Seq2[Key, uint32] { return maps.All(l.indexes) }

// plainTable is a forwarding table in plain memory, with its entries.
type plainTable struct {
	*Table
	maps  *plainMemory
	parts Parts
	clock time.Duration
	list  *entryList
}

func newPlainTable(t testing.TB, entries, cells int) *plainTable {
	t.Helper()
	p := &plainTable{maps: newPlainMemory(), list: &entryList{indexes: map[Key]uint32{}, keys: make([]Key, entries)}}
	for index := range entries {
		p.list.free = append(p.list.free, uint32(entries-1-index))
	}
	now := func() time.Duration { return p.clock }
	p.parts = Parts{
		Memory: p.maps, Entries: p.list, Limit: entries, CellLimit: cells, Now: now, Passed: now, Wait: func() {}, Hurry: func() {}, thresholds: Thresholds{Smallest: 1 << 12},
	}
	p.reopen(t)
	return p
}

// reopen makes the table anew as a later process would, and forgets entries that find no room.
func (p *plainTable) reopen(t testing.TB) (refused int) {
	t.Helper()
	var err error
	p.Table, err = New(p.parts)
	must(t, err)
	before := p.list.indexes
	p.list.indexes = map[Key]uint32{}
	for index, key := range p.list.keys {
		if before[key] != uint32(index) || key == (Key{}) {
			continue
		}
		if err := p.MakeRoom(); errors.Is(err, dataplane.ErrFull) {
			refused++
			p.list.keys[index] = Key{}
			p.list.free = append(p.list.free, uint32(index))
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		must(t, p.Insert(key, uint32(index)))
		p.list.indexes[key] = uint32(index)
		p.Inserted(&key)
	}
	must(t, p.GoOnline())
	return refused
}

func (p *plainTable) put(key Key) error {
	if _, exists := p.list.indexes[key]; exists {
		return nil
	}
	if err := p.MakeRoom(); err != nil {
		return err
	}
	last := len(p.list.free) - 1
	if last < 0 {
		return dataplane.ErrFull
	}
	index := p.list.free[last]
	if err := p.Insert(key, index); err != nil {
		return err
	}
	p.list.free = p.list.free[:last]
	p.list.indexes[key], p.list.keys[index] = index, key
	p.Inserted(&key)
	return nil
}

func (p *plainTable) delete(key Key) (existed bool, err error) {
	index, existed := p.list.indexes[key]
	if !existed {
		return false, nil
	}
	if err := p.Remove(key, index); err != nil {
		return false, err
	}
	delete(p.list.indexes, key)
	p.list.keys[index], p.list.free = Key{}, append(p.list.free, index)
	p.Removed(key.Root())
	return true, nil
}

func (p *plainTable) putPrefix(t testing.TB, kind uint8, prefix string) error {
	t.Helper()
	key, err := KeyOf(kind, lisp.MustParsePrefix(prefix))
	must(t, err)
	return p.put(key)
}

// find returns the entry that an address has.
func (p *plainTable) find(kind, family uint8, instance uint32, address []byte) (Key, bool) {
	index, ok := p.Lookup(RootKey{Kind: kind, Family: family, Instance: instance}, address)
	if !ok {
		return Key{}, false
	}
	return p.list.keys[index], true
}

func TestTableAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		editTable(t, newPlainTable(t, 400, 1<<14), rand.New(rand.NewPCG(seed, 7)), 500)
	}
}

// editTable makes so many edits at random and compares the table with its entries after each. It returns how often
// there were more first levels afterwards, and fewer.
func editTable(t *testing.T, p *plainTable, random *rand.Rand, steps int) (more, fewer int) {
	for step := range steps {
		before := len(p.maps.firstLevels)
		p.clock += time.Duration(random.IntN(100)) * time.Millisecond
		key := randomKey(t, random)
		switch random.IntN(10) {
		case 0, 1, 2, 3, 4:
			if err := p.put(key); err != nil && !errors.Is(err, dataplane.ErrFull) {
				t.Fatal(err)
			}
		case 5, 6, 7, 8:
			if step > steps/2 { // what there is, after a time of growth
				key = anyKey(p.list.indexes, key)
			}
			_, known := p.list.indexes[key]
			if existed, err := p.delete(key); err != nil || existed != known {
				t.Fatalf("step %d: delete %v: %v, %v, want %v", step, key, existed, err, known)
			}
		default:
			if refused := p.reopen(t); refused > 0 {
				t.Fatalf("step %d: refused %d", step, refused)
			}
		}
		p.compare(t, random)
		if after := len(p.maps.firstLevels); after > before {
			more++
		} else if after < before {
			fewer++
		}
	}
	return more, fewer
}

// anyKey is one of the keys; another one where there is none.
func anyKey(indexes map[Key]uint32, other Key) Key {
	all := slices.SortedFunc(maps.Keys(indexes), func(a, b Key) int { return int(indexes[a]) - int(indexes[b]) })
	if len(all) == 0 {
		return other
	}
	return all[len(all)/2]
}

// randomKey draws from few prefixes, so that they meet.
func randomKey(t *testing.T, random *rand.Rand) Key {
	address := randomAddr(random, random.IntN(2) == 0)
	bits := []int{0, 7, 8, 9, 16, 20, 24, 31, 32, 64, 127, 128}[random.IntN(12)]
	prefix, err := lisp.PrefixFrom(lisp.InstanceID(random.IntN(3)), lisp.EIDFromAddr(address), min(bits, address.BitLen()))
	must(t, err)
	key, err := KeyOf([]uint8{abi.RootMapCache, abi.RootDatabase}[random.IntN(2)], prefix)
	must(t, err)
	return key
}

// compare looks addresses up as programs do, and as this process does.
func (p *plainTable) compare(t *testing.T, random *rand.Rand) {
	t.Helper()
	for range 20 {
		kind := []uint8{abi.RootMapCache, abi.RootDatabase}[random.IntN(2)]
		address := randomAddr(random, random.IntN(2) == 0)
		probe := lisp.HostPrefix(lisp.InstanceID(random.IntN(3)), lisp.EIDFromAddr(address))
		best, found := Key{}, false
		for key := range p.list.indexes {
			prefix, err := key.Prefix()
			must(t, err)
			if key.Kind == kind && prefix.Covers(probe) && (!found || key.Bits > best.Bits) {
				best, found = key, true
			}
		}
		index, ok := p.maps.walk(kind, probe, address)
		if ok != found || ok && p.list.keys[index] != best {
			t.Fatalf("programs find %d, %v for %v, want %v, %v", index, ok, probe, best, found)
		}
		if got, ok := p.find(kind, abi.Family(address), uint32(probe.Instance()), address.AsSlice()); ok != found || got != best {
			t.Fatalf("lookup of %v: %v, %v, want %v, %v", probe, got, ok, best, found)
		}
	}
}

// TestTableFull refuses what there is no room for.
func TestTableFull(t *testing.T) {
	p := newPlainTable(t, 100, 20)
	var full error
	for i := range 20 {
		if full = p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("2001:db8:%d::1", i)); full != nil {
			break
		}
	}
	if !errors.Is(full, dataplane.ErrFull) {
		t.Errorf("more cells than 20: %v", full)
	}
}

// TestFailuresLeaveTheTable lets every call fail that tells programs of a root.
func TestFailuresLeaveTheTable(t *testing.T) {
	p := newPlainTable(t, 10, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8"))
	uses := p.trie.space.cells.InUse()
	p.maps.failing = errors.New("no")
	for _, prefix := range []string{"2001:db8::/32", "[5]10.0.0.0/8"} {
		if err := p.putPrefix(t, abi.RootMapCache, prefix); err == nil {
			t.Errorf("%s: no error", prefix)
		}
	}
	key, _ := KeyOf(abi.RootMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	if _, err := p.delete(key); err == nil {
		t.Error("delete: no error")
	}
	if p.trie.space.cells.InUse() != uses || len(p.list.indexes) != 1 {
		t.Errorf("%d cells in use, %d entries after failures", p.trie.space.cells.InUse(), len(p.list.indexes))
	}
	p.maps.failing = nil
	must(t, p.putPrefix(t, abi.RootMapCache, "2001:db8::/32"))
	if _, ok := p.maps.walk(abi.RootMapCache, lisp.Prefix{}, netip.MustParseAddr("10.1.1.1")); !ok {
		t.Error("the entry that could not be deleted is gone")
	}
}
