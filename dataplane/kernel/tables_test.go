// SPDX-License-Identifier: Apache-2.0

// These tests drive the tables in plain memory: random operations beside a model,
// and what a later process makes of the records, at any moment.

package kernel

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
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
	"loci/forward"
	"loci/lisp"
)

type plainTables struct {
	*tables
	maps  *plainMemory
	parts tableParts
	clock time.Duration
}

func newPlainTables(t testing.TB, records, sets, cells int) *plainTables {
	t.Helper()
	p := &plainTables{maps: &plainMemory{}}
	p.parts = tableParts{
		memory: p.maps, clearUsage: func(uint32) {}, changed: generations{new(abi.Generations)}, records: make([]abi.Mapping, records), pages: make([]uint64, wordsOfPages(records)), sets: make([]abi.LocatorSet, sets), locators: make([]abi.Locator, locatorsBeside(sets)), cellLimit: cells,
		now: func() time.Duration { return p.clock }, wait: func() {},
	}
	p.reopen(t)
	return p
}

// reopen makes tables from the records as a later process would.
func (p *plainTables) reopen(t testing.TB) (refused []error) {
	t.Helper()
	var err error
	p.tables, err = newTables(p.parts)
	must(t, err)
	p.sets.source4, p.sets.source6 = lisp.RLOCFromAddr(rloc4(0)), lisp.RLOCFromAddr(rloc6(0))
	refused, err = p.adopt()
	must(t, err)
	must(t, p.goOnline())
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
	_, _, err = p.put(entry{key: key, locators: locators, flags: flags, action: lisp.ActionDrop})
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
			set := locators(rloc4(random.IntN(8)), rloc6(random.IntN(8)))
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
			existed, err := p.delete(key)
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
		record, ok := p.lookup(kind, abi.Family(address), uint32(probe.Instance()), address.AsSlice())
		if ok != found {
			t.Fatalf("lookup of %v: %v, want %v (%v)", probe, ok, found, best)
		}
		if !ok {
			continue
		}
		key := keyOfRecord(record)
		if got, _ := key.Prefix(); got != best || !inForce(record) {
			t.Fatalf("lookup of %v: %v, want %v", probe, got, best)
		}
		if !p.sets.of(record.LocatorSet).Equal(model[kind][best.String()]) {
			t.Fatalf("%v: locators %v, want %v", best, p.sets.of(record.LocatorSet), model[kind][best.String()])
		}
	}
}

func TestTablesFull(t *testing.T) {
	p := newPlainTables(t, 3, 2, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", locators(rloc4(1))))
	must(t, p.putPrefix(t, abi.RootMapCache, "11.0.0.0/8", locators(rloc4(2))))
	if err := p.putPrefix(t, abi.RootMapCache, "12.0.0.0/8", locators(rloc4(3))); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("third locator-set of two: %v", err)
	}
	must(t, p.putPrefix(t, abi.RootMapCache, "12.0.0.0/8", locators(rloc4(2))))
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
	sizes, err := mapLimits{mappings: mappings}.entries(1)
	must(t, err)
	p := newPlainTables(t, mappings, int(sizes[abi.MapLocatorSets]), 1<<14)
	address := func(network byte, i int) netip.Addr {
		return netip.AddrFrom4([4]byte{network, byte(i >> 16), byte(i >> 8), byte(i)})
	}
	for i := range mappings {
		if err := p.putPrefix(t, abi.RootMapCache, address(10, i).String(), locators(address(172, i))); err != nil {
			t.Fatalf("mapping %d: %v", i+1, err)
		}
	}
	if err := p.putPrefix(t, abi.RootMapCache, address(10, 7).String(), locators(address(192, 7))); err != nil {
		t.Errorf("other locators: %v", err)
	}
	if err := p.setSources(lisp.RLOCFromAddr(rloc4(5)), lisp.RLOC{}); err != nil {
		t.Errorf("other own RLOC: %v", err)
	}
}

// TestFailuresChangeNothing lets every system call fail.
func TestFailuresChangeNothing(t *testing.T) {
	p := newPlainTables(t, 10, 10, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", locators(rloc4(1))))
	records := p.entries.count
	p.maps.failing = errors.New("no")
	for _, prefix := range []string{"2001:db8::/32", "[5]10.0.0.0/8"} {
		if err := p.putPrefix(t, abi.RootMapCache, prefix, locators(rloc4(2))); err == nil {
			t.Errorf("%s: no error", prefix)
		}
	}
	key, _ := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	if _, err := p.delete(key); err == nil {
		t.Error("delete: no error")
	}
	if p.entries.count != records || p.indexes.inUse() != 1 || p.sets.indexes.InUse() != 1 {
		t.Errorf("%d entries, %d records, %d sets in use after failures", p.entries.count, p.indexes.inUse(), p.sets.indexes.InUse())
	}
	p.maps.failing = nil
	must(t, p.putPrefix(t, abi.RootMapCache, "2001:db8::/32", locators(rloc4(2))))
}

func TestAdoptRefusesNonsense(t *testing.T) {
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", locators(rloc4(1))))
	good := p.records[0]
	for i, change := range []func(*abi.Mapping){
		func(m *abi.Mapping) { m.Family = 5 },
		func(m *abi.Mapping) { m.PrefixLength = 33 },
		func(m *abi.Mapping) { m.Prefix[3] = 1 },
		func(m *abi.Mapping) {}, // the prefix stands twice
		func(m *abi.Mapping) { m.PrefixLength, m.LocatorSet = 9, 999 },
	} {
		p.records[i+1] = good
		change(&p.records[i+1])
	}
	p.records[10] = good
	p.records[10].Flags |= abi.MappingHold | abi.MappingOneWay
	p.records[10].PrefixLength = 10
	p.records[11] = good
	p.records[11].Flags = 0
	if refused := p.reopen(t); len(refused) != 5 {
		t.Errorf("refused %v, want 5", refused)
	}
	if p.entries.count != 2 || p.records[10].Flags&(abi.MappingHold|abi.MappingOneWay) != 0 || p.indexes.inUse() != 2 {
		t.Errorf("%d entries, %d records in use, want 2 and nothing on hold", p.entries.count, p.indexes.inUse())
	}
}

func TestLocatorStateChangesBuckets(t *testing.T) {
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/8", locators(rloc4(1), rloc4(2))))
	record := &p.parts.sets[p.records[0].LocatorSet]
	before := record.Buckets
	p.sets.setState(lisp.RLOCFromAddr(rloc4(2)), dataplane.LocatorDown)
	for i, bucket := range record.Buckets {
		if bucket != 0 || before[i] == 0 && bucket != before[i] {
			t.Fatalf("bucket %d is %d, was %d", i, bucket, before[i])
		}
	}
	p.sets.setState(lisp.RLOCFromAddr(rloc4(1)), dataplane.LocatorDown)
	if record.Buckets[0] != forward.NoBucket {
		t.Error("a locator that is down is used")
	}
	p.sets.setState(lisp.RLOCFromAddr(rloc4(1)), dataplane.LocatorUp)
	p.sets.setState(lisp.RLOCFromAddr(rloc4(2)), dataplane.LocatorUp)
	if record.Buckets != before {
		t.Error("buckets do not return")
	}
}

func TestSourcesChange(t *testing.T) {
	p := newPlainTables(t, 16, 3, 1<<10)
	for i, prefix := range []string{"10.0.0.0/8", "11.0.0.0/8", "12.0.0.0/8"} {
		must(t, p.putPrefix(t, abi.RootMapCache, prefix, locators(rloc4(i%2+1), rloc6(i%2+1))))
	}
	newSource := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.99"))
	must(t, p.setSources(newSource, lisp.RLOC{}))
	for i := range 3 {
		set := &p.parts.sets[p.records[i].LocatorSet]
		run := p.parts.locators[set.First : set.First+set.Count]
		for _, l := range run {
			if l.Family == 4 && abi.Addr(4, l.Source) != newSource.Addr() {
				t.Errorf("entry %d: source %v", i, abi.Addr(4, l.Source))
			}
		}
		if set.Buckets[0] == forward.NoBucket || run[set.Buckets[0]].Family != 4 {
			t.Errorf("entry %d: a locator without source is used", i)
		}
	}
	if p.sets.indexes.InUse() != 2 {
		t.Errorf("%d locator-sets in use, want 2", p.sets.indexes.InUse())
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
	record := &p.parts.sets[p.records[0].LocatorSet]
	if used := p.parts.locators[record.First+uint32(record.Buckets[0])]; record.Count != lisp.MaxLocators || used.Rloc[3] != 31 {
		t.Errorf("%d locators, the best is %v", record.Count, used.Rloc)
	}
	p.reopen(t)
	if got := p.sets.of(p.records[0].LocatorSet); !got.Equal(set) {
		t.Errorf("read back %v", got)
	}
}

func TestReplacementInPlace(t *testing.T) {
	p := newPlainTables(t, 4, 4, 1<<10)
	key, _ := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	first, held, err := p.put(entry{key: key, action: lisp.ActionDrop})
	if err != nil || held {
		t.Fatalf("negative: held %v, %v", held, err)
	}
	second, held, err := p.put(entry{key: key, locators: locators(rloc4(1))})
	if err != nil || !held || second != first || p.records[first].Flags&abi.MappingHold == 0 {
		t.Fatalf("positive in its place: index %d, held %v, %v", second, held, err)
	}
	p.unhold(first, p.born[first]+1)
	if p.records[first].Flags&abi.MappingHold == 0 {
		t.Error("another entry's hold was ended")
	}
	p.unhold(first, p.born[first])
	if _, held, _ := p.put(entry{key: key, locators: locators(rloc4(2))}); held || p.records[first].Flags&abi.MappingHold != 0 {
		t.Error("other locators hold packets back")
	}
	if _, _, err := p.put(entry{key: key, action: lisp.ActionNoAction}); err != nil || p.records[first].LocatorSet != abi.NoLocatorSet {
		t.Errorf("negative again: %v", err)
	}
	if p.sets.indexes.InUse() != 0 {
		t.Errorf("%d locator-sets in use, want none", p.sets.indexes.InUse())
	}
}

func BenchmarkPut(b *testing.B) {
	p := newPlainTables(b, 1<<20, 1<<10, 1<<20)
	set := locators(rloc4(1), rloc6(1))
	for i := 0; b.Loop(); i++ {
		address := netip.AddrFrom4([4]byte{byte(i>>16) & 0xF, byte(i >> 8), byte(i), 1})
		key, _ := lpm.KeyOf(abi.RootMapCache, lisp.HostPrefix(0, lisp.EIDFromAddr(address)))
		if _, _, err := p.put(entry{key: key, locators: set}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSetsThatDidNotRest wants kept decisions to end when the index of a locator-set means another one before it has rested.
func TestSetsThatDidNotRest(t *testing.T) {
	p := newPlainTables(t, 8, 2, 1024)
	put := func(outer int) (epoch uint32) {
		before := p.parts.changed.numbers.Epoch
		must(t, p.putPrefix(t, abi.RootMapCache, "10.2.0.0/24", locators(rloc4(outer))))
		return p.parts.changed.numbers.Epoch - before
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

// TestSerialOfALocatorSet has an index mean one locator-set after another: programs tell them apart by the serial number alone.
func TestSerialOfALocatorSet(t *testing.T) {
	clock := time.Duration(0)
	now, wait := func() time.Duration { return clock }, func() {}
	s := newLocatorSets(make([]abi.LocatorSet, 1), reclaim.NewIndexes(1, now, wait), make([]abi.Locator, 64), reclaim.NewArena(64, now, wait))
	seen := map[uint32]bool{}
	for i := range 5 {
		index, err := s.acquire(locators(rloc4(1 + i)))
		if err != nil || index != 0 {
			t.Fatalf("index %d (%v)", index, err)
		}
		if serial := s.records[index].Serial; seen[serial] {
			t.Errorf("set %d has serial number %d as well", i, serial)
		}
		seen[s.records[index].Serial] = true
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
