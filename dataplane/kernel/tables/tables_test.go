// SPDX-License-Identifier: Apache-2.0

// These tests drive the tables in plain memory: random operations beside a model,
// and what a later process makes of the records, at any moment.

package tables

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
	"loci/forward"
	"loci/lisp"
)

type plainTables struct {
	*Tables
	maps  *plainMemory
	parts Parts
	clock time.Duration
}

func newPlainTables(t testing.TB, records, sets, cells int) *plainTables {
	t.Helper()
	p := &plainTables{maps: &plainMemory{}}
	p.parts = Parts{
		Memory:     p.maps,
		Paths:      memoryPaths{},
		ClearUsage: func(uint32) {},
		Changed:    Generations{new(abi.Generations)},
		Records:    make([]abi.Mapping, records),
		Runs:       make([]uint64, RunWords(records)),
		Sets:       make([]abi.LocatorSet, sets),
		Locators:   make([]abi.Locator, LocatorsBeside(sets)),
		CellLimit:  cells,
		Now:        func() time.Duration { return p.clock },
		Wait:       func() {},
	}
	p.reopen(t)
	return p
}

// reopen makes tables from the records as a later process would.
func (p *plainTables) reopen(t testing.TB) (refused []error) {
	t.Helper()
	var err error
	p.Tables, err = New(p.parts)
	must(t, err)
	p.Sets.Source4, p.Sets.Source6 = lisp.RLOCFromAddr(kerneltest.RLOC4(0)), lisp.RLOCFromAddr(kerneltest.RLOC6(0))
	refused, err = p.Adopt()
	must(t, err)
	must(t, p.GoOnline())
	return refused
}

func (p *plainTables) putPrefix(t testing.TB, kind uint8, prefix string, locators lisp.LocatorSet) error {
	t.Helper()
	key, err := lpm.KeyOf(kind, lisp.MustParsePrefix(prefix))
	must(t, err)
	flags := uint32(0)
	if kind == abi.RootDatabase {
		flags = abi.MappingDatabase
	}
	_, _, err = p.Put(Entry{Key: key, Locators: locators, Flags: flags, Action: lisp.ActionDrop})
	return err
}

func TestTablesAgainstModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		editTables(t, newPlainTables(t, 400, 64, 1<<14), rand.New(rand.NewPCG(seed, 7)), 500)
	}
}

// editTables makes so many edits at random and compares the tables with a model after each.
func editTables(t *testing.T, p *plainTables, random *rand.Rand, steps int) {
	model := map[uint8]map[string]lisp.LocatorSet{abi.RootMapCache: {}, abi.RootDatabase: {}}
	for step := range steps {
		p.clock += time.Duration(random.IntN(100)) * time.Millisecond
		kind := []uint8{abi.RootMapCache, abi.RootDatabase}[random.IntN(2)]
		prefix := randomEIDPrefix(random)
		switch random.IntN(10) {
		case 0, 1, 2, 3, 4:
			set := kerneltest.Locators(kerneltest.RLOC4(random.IntN(8)), kerneltest.RLOC6(random.IntN(8)))
			if random.IntN(4) == 0 {
				set = nil
			}
			if err := p.putPrefix(t, kind, prefix.String(), set); err == nil {
				model[kind][prefix.String()] = set
			} else if !errors.Is(err, dataplane.ErrFull) {
				t.Fatal(err)
			}
		case 5, 6, 7, 8:
			if step > steps/2 { // what there is, after a time of growth
				prefix = anyOf(model[kind], prefix)
			}
			key, _ := lpm.KeyOf(kind, prefix)
			_, known := model[kind][prefix.String()]
			existed, err := p.Delete(key)
			if err != nil || existed != known {
				t.Fatalf("step %d: delete %v: %v, %v, want %v", step, prefix, existed, err, known)
			}
			delete(model[kind], prefix.String())
		default:
			if refused := p.reopen(t); len(refused) > 0 {
				t.Fatalf("step %d: refused %v", step, refused)
			}
		}
		compareTables(t, p, model, random)
	}
}

// anyOf is a prefix of a model; another one where there is none.
func anyOf(model map[string]lisp.LocatorSet, other lisp.Prefix) lisp.Prefix {
	all := slices.Sorted(maps.Keys(model))
	if len(all) == 0 {
		return other
	}
	return lisp.MustParsePrefix(all[len(all)/2])
}

// randomEIDPrefix draws from few prefixes, so that they meet.
func randomEIDPrefix(random *rand.Rand) lisp.Prefix {
	address := randomAddress(random, random.IntN(2) == 0)
	bits := []int{0, 7, 8, 9, 16, 20, 24, 31, 32, 64, 127, 128}[random.IntN(12)]
	p, err := lisp.PrefixFrom(lisp.InstanceID(random.IntN(3)), lisp.EIDFromAddr(address), min(bits, address.BitLen()))
	if err != nil {
		panic(err)
	}
	return p
}

func compareTables(t *testing.T, p *plainTables, model map[uint8]map[string]lisp.LocatorSet, random *rand.Rand) {
	t.Helper()
	for range 20 {
		kind := []uint8{abi.RootMapCache, abi.RootDatabase}[random.IntN(2)]
		probe := lisp.HostPrefix(lisp.InstanceID(random.IntN(3)), lisp.EIDFromAddr(randomAddress(random, random.IntN(2) == 0)))
		best, found := lisp.Prefix{}, false
		for text := range model[kind] {
			if m := lisp.MustParsePrefix(text); m.Covers(probe) && (!found || m.Bits() > best.Bits()) {
				best, found = m, true
			}
		}
		address := probe.EID().Addr()
		record, ok := p.Lookup(kind, abi.Family(address), uint32(probe.Instance()), address.AsSlice())
		if ok != found {
			t.Fatalf("lookup of %v: %v, want %v (%v)", probe, ok, found, best)
		}
		if !ok {
			continue
		}
		key := KeyOf(record)
		if got, _ := key.Prefix(); got != best || !InForce(record) {
			t.Fatalf("lookup of %v: %v, want %v", probe, got, best)
		}
		if !p.Sets.Of(record.LocatorSet).Equal(model[kind][best.String()]) {
			t.Fatalf("%v: locators %v, want %v", best, p.Sets.Of(record.LocatorSet), model[kind][best.String()])
		}
	}
}

func TestTablesFull(t *testing.T) {
	p := newPlainTables(t, 3, 2, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(1))))
	must(t, p.putPrefix(t, abi.RootMapCache, "11.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(2))))
	if err := p.putPrefix(t, abi.RootMapCache, "12.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(3))); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("third locator-set of two: %v", err)
	}
	must(t, p.putPrefix(t, abi.RootMapCache, "12.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(2))))
	if err := p.putPrefix(t, abi.RootMapCache, "13.0.0.0/8", nil); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("fourth entry of three: %v", err)
	}
	must(t, p.putPrefix(t, abi.RootMapCache, "12.0.0.0/8", nil)) // replaced in place
	cells := newPlainTables(t, 100, 10, 20)
	var full error
	for i := range 20 {
		if full = cells.putPrefix(t, abi.RootMapCache, fmt.Sprintf("2001:db8:%d::1", i), nil); full != nil {
			break
		}
	}
	if !errors.Is(full, dataplane.ErrFull) {
		t.Errorf("more cells than 20: %v", full)
	}
	must(t, cells.putPrefix(t, abi.RootMapCache, "2001:db8::1", nil)) // replaced in place
}

// TestEachMappingOfItsOwnLocatorSet fills the tables with mappings of which no two
// have the same locators, replaces one, and changes the own RLOC that all are sent from.
func TestEachMappingOfItsOwnLocatorSet(t *testing.T) {
	const mappings = 10000
	p := newPlainTables(t, mappings, DefaultLocatorSets(mappings), 1<<14)
	address := func(network byte, i int) netip.Addr {
		return netip.AddrFrom4([4]byte{network, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for i := range mappings {
		if err := p.putPrefix(t, abi.RootMapCache, address(10, i).String(), kerneltest.Locators(address(172, i))); err != nil {
			t.Fatalf("mapping %d: %v", i+1, err)
		}
	}
	if err := p.putPrefix(t, abi.RootMapCache, address(10, 7).String(), kerneltest.Locators(address(192, 7))); err != nil {
		t.Errorf("other locators: %v", err)
	}
	if err := p.SetSources(lisp.RLOCFromAddr(kerneltest.RLOC4(5)), lisp.RLOC{}); err != nil {
		t.Errorf("other own RLOC: %v", err)
	}
}

// TestFailuresChangeNothing lets every system call fail.
func TestFailuresChangeNothing(t *testing.T) {
	p := newPlainTables(t, 10, 10, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(1))))
	records := p.Entries.Count
	p.maps.failing = errors.New("no")
	for _, prefix := range []string{"2001:db8::/32", "[5]10.0.0.0/8"} {
		if err := p.putPrefix(t, abi.RootMapCache, prefix, kerneltest.Locators(kerneltest.RLOC4(2))); err == nil {
			t.Errorf("%s: no error", prefix)
		}
	}
	key, _ := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	if _, err := p.Delete(key); err == nil {
		t.Error("delete: no error")
	}
	if p.Entries.Count != records || p.indexes.inUse() != 1 || p.Sets.Indexes.InUse() != 1 {
		t.Errorf("%d entries, %d records, %d sets in use after failures", p.Entries.Count, p.indexes.inUse(), p.Sets.Indexes.InUse())
	}
	p.maps.failing = nil
	must(t, p.putPrefix(t, abi.RootMapCache, "2001:db8::/32", kerneltest.Locators(kerneltest.RLOC4(2))))
}

func TestAdoptRefusesNonsense(t *testing.T) {
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(1))))
	good := p.Records[0]
	for i, change := range []func(*abi.Mapping){
		func(m *abi.Mapping) { m.Family = 5 },
		func(m *abi.Mapping) { m.PrefixLength = 33 },
		func(m *abi.Mapping) { m.Prefix[3] = 1 },
		func(m *abi.Mapping) {}, // the prefix stands twice
		func(m *abi.Mapping) { m.PrefixLength, m.LocatorSet = 9, 999 },
	} {
		p.Records[i+1] = good
		change(&p.Records[i+1])
	}
	p.Records[10] = good
	p.Records[10].Flags |= abi.MappingHold | abi.MappingSingleNextHop
	p.Records[10].PrefixLength = 10
	p.Records[11] = good
	p.Records[11].Flags = 0
	if refused := p.reopen(t); len(refused) != 5 {
		t.Errorf("refused %v, want 5", refused)
	}
	if p.Entries.Count != 2 || p.Records[10].Flags&(abi.MappingHold|abi.MappingSingleNextHop) != 0 || p.indexes.inUse() != 2 {
		t.Errorf("%d entries, %d records in use, want 2 and nothing on hold", p.Entries.Count, p.indexes.inUse())
	}
}

func TestLocatorStateChangesBuckets(t *testing.T) {
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", kerneltest.Locators(kerneltest.RLOC4(1), kerneltest.RLOC4(2))))
	record := &p.parts.Sets[p.Records[0].LocatorSet]
	before := record.Buckets
	p.Sets.SetState(lisp.PathTo(lisp.RLOCFromAddr(kerneltest.RLOC4(2))), dataplane.LocatorDown)
	for i, bucket := range record.Buckets {
		if bucket != 0 || before[i] == 0 && bucket != before[i] {
			t.Fatalf("bucket %d is %d, was %d", i, bucket, before[i])
		}
	}
	p.Sets.SetState(lisp.PathTo(lisp.RLOCFromAddr(kerneltest.RLOC4(1))), dataplane.LocatorDown)
	if record.Buckets[0] != forward.NoBucket {
		t.Error("a locator that is down is used")
	}
	p.Sets.SetState(lisp.PathTo(lisp.RLOCFromAddr(kerneltest.RLOC4(1))), dataplane.LocatorUp)
	p.Sets.SetState(lisp.PathTo(lisp.RLOCFromAddr(kerneltest.RLOC4(2))), dataplane.LocatorUp)
	if record.Buckets != before {
		t.Error("buckets do not return")
	}
}

func TestSourcesChange(t *testing.T) {
	p := newPlainTables(t, 16, 3, 1<<10)
	for i, prefix := range []string{"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"} {
		must(t, p.putPrefix(t, abi.RootMapCache, prefix, kerneltest.Locators(kerneltest.RLOC4(i%2+1), kerneltest.RLOC6(i%2+1))))
	}
	newSource := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.99"))
	must(t, p.SetSources(newSource, lisp.RLOC{}))
	for i := range 3 {
		set := &p.parts.Sets[p.Records[i].LocatorSet]
		run := p.parts.Locators[set.First : set.First+set.Count]
		for _, l := range run {
			if l.Family == 4 && abi.Addr(4, l.Source) != newSource.Addr() {
				t.Errorf("entry %d: source %v", i, abi.Addr(4, l.Source))
			}
		}
		if set.Buckets[0] == forward.NoBucket || run[set.Buckets[0]].Family != 4 {
			t.Errorf("entry %d: a locator without source is used", i)
		}
	}
	if p.Sets.Indexes.InUse() != 2 {
		t.Errorf("%d locator-sets in use, want 2", p.Sets.Indexes.InUse())
	}
}

// TestManyLocators installs as many locators as a mapping may have.
func TestManyLocators(t *testing.T) {
	var all []lisp.Locator
	for i := range lisp.MaxLocators {
		all = append(all, lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})), Priority: uint8(100 - i), Weight: 1, Reachable: true})
	}
	set, err := lisp.NewLocatorSet(all...)
	must(t, err)
	p := newPlainTables(t, 4, 4, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", set))
	record := &p.parts.Sets[p.Records[0].LocatorSet]
	if used := p.parts.Locators[record.First+uint32(record.Buckets[0])]; record.Count != lisp.MaxLocators || used.Rloc[3] != 31 {
		t.Errorf("%d locators, the best is %v", record.Count, used.Rloc)
	}
	p.reopen(t)
	if got := p.Sets.Of(p.Records[0].LocatorSet); !got.Equal(set) {
		t.Errorf("read back %v", got)
	}
}

func TestReplacementInPlace(t *testing.T) {
	p := newPlainTables(t, 4, 4, 1<<10)
	key, _ := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	first, held, err := p.Put(Entry{Key: key, Action: lisp.ActionDrop})
	if err != nil || held {
		t.Fatalf("negative: held %v, %v", held, err)
	}
	second, held, err := p.Put(Entry{Key: key, Locators: kerneltest.Locators(kerneltest.RLOC4(1))})
	if err != nil || !held || second != first || p.Records[first].Flags&abi.MappingHold == 0 {
		t.Fatalf("positive in its place: index %d, held %v, %v", second, held, err)
	}
	p.Unhold(first, p.Born[first]+1)
	if p.Records[first].Flags&abi.MappingHold == 0 {
		t.Error("another entry's hold was ended")
	}
	p.Unhold(first, p.Born[first])
	if _, held, _ := p.Put(Entry{Key: key, Locators: kerneltest.Locators(kerneltest.RLOC4(2))}); held || p.Records[first].Flags&abi.MappingHold != 0 {
		t.Error("other locators hold packets back")
	}
	if _, _, err := p.Put(Entry{Key: key, Action: lisp.ActionNoAction}); err != nil || p.Records[first].LocatorSet != abi.NoLocatorSet {
		t.Errorf("negative again: %v", err)
	}
	if p.Sets.Indexes.InUse() != 0 {
		t.Errorf("%d locator-sets in use, want none", p.Sets.Indexes.InUse())
	}
}

func BenchmarkPut(b *testing.B) {
	p := newPlainTables(b, 1<<20, 1<<10, 1<<20)
	set := kerneltest.Locators(kerneltest.RLOC4(1), kerneltest.RLOC6(1))
	for i := 0; b.Loop(); i++ {
		address := netip.AddrFrom4([4]byte{byte(i>>16) & 0xF, byte(i >> 8), byte(i), 1})
		key, _ := lpm.KeyOf(abi.RootMapCache, lisp.HostPrefix(0, lisp.EIDFromAddr(address)))
		if _, _, err := p.Put(Entry{Key: key, Locators: set}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSetsThatDidNotRest wants flow-cache entries to end when the index of a locator-set means another one before it has rested.
func TestSetsThatDidNotRest(t *testing.T) {
	p := newPlainTables(t, 8, 2, 1024)
	put := func(outer int) (epoch uint32) {
		before := p.parts.Changed.Numbers.Epoch
		must(t, p.putPrefix(t, abi.RootMapCache, "10.2.0.0/24", kerneltest.Locators(kerneltest.RLOC4(outer))))
		return p.parts.Changed.Numbers.Epoch - before
	}
	if put(1) != 0 || put(2) != 0 {
		t.Error("decisions end though no index is used anew")
	}
	if put(3) == 0 {
		t.Error("decisions about a locator-set go on, and its index means another one")
	}
	p.clock += reclaim.RestTime
	if put(4) != 0 {
		t.Error("decisions end though the index has rested")
	}
}

// TestSerialOfALocatorSet has an index mean one locator-set after another: programs distinguish them only by the serial
// number.
func TestSerialOfALocatorSet(t *testing.T) {
	clock := time.Duration(0)
	now, wait := func() time.Duration { return clock }, func() {}
	s := newLocatorSets(make([]abi.LocatorSet, 1), reclaim.NewIndexes(1, now, wait), make([]abi.Locator, 64), reclaim.NewArena(64, now, wait), memoryPaths{})
	seen := map[uint32]bool{}
	for i := range 5 {
		index, err := s.acquire(kerneltest.Locators(kerneltest.RLOC4(1 + i)))
		if err != nil || index != 0 {
			t.Fatalf("index %d (%v)", index, err)
		}
		if serial := s.Records[index].Serial; seen[serial] {
			t.Errorf("set %d has serial number %d as well", i, serial)
		}
		seen[s.Records[index].Serial] = true
		s.release(index)
		clock += 2 * reclaim.RestTime
	}
}

// randomAddress draws from a small space, so that prefixes nest and collide.
func randomAddress(random *rand.Rand, v4 bool) netip.Addr {
	octets := make([]byte, 16)
	if v4 {
		octets = make([]byte, 4)
	}
	for i := range octets {
		octets[i] = []byte{0, 0, 1, 127, 128, 255, byte(random.Uint32())}[random.IntN(7)]
	}
	address, _ := netip.AddrFromSlice(octets)
	return address
}

func TestPlaceOfThreeLocators(t *testing.T) {
	if order := PlaceOf(&abi.LocatorSet{Count: 3}).Order; 1<<order < 3 {
		t.Errorf("order %d for three locators", order)
	}
}
