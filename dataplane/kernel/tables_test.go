// SPDX-License-Identifier: Apache-2.0

// These tests drive the tables in plain memory: random operations beside a model,
// and what a later process makes of the records, at any moment.

package kernel

import (
	"cmp"
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
	"loci/forward"
	"loci/lisp"
)

// plainMaps are tableMaps without a kernel. Walks begin where roots say, in slots.
type plainMaps struct {
	roots   map[rootKey]walkBegin
	slots   []uint32 // of the table in force
	next    []uint32
	blocks  map[uint32][]uint32
	groups  map[uint32][]element
	failing error // what every call answers, when set
	// tableFailing is what newTable alone answers, switchFailing what switchTable does.
	tableFailing, switchFailing error
	groupFailing                error // what newGroup alone answers
	blockFailing                error // what newBlock alone answers
	made, blocksPrepared        int   // tables, and times that a block was to be prepared
	slow                        bool  // a table that is to be prepared never is
	prepared                    int   // cells of the one that is being prepared
	wasted                      int   // tables that were prepared for nothing
	live, most                  int   // tables that there are, and were at a time
}

func newPlainMaps() *plainMaps {
	return &plainMaps{roots: map[rootKey]walkBegin{}, blocks: map[uint32][]uint32{}, groups: map[uint32][]element{}}
}

func (m *plainMaps) dropTable(slots []uint32) {
	m.live--
	if m.next != nil && &slots[0] == &m.next[0] {
		m.next = nil
	}
}

func (m *plainMaps) prepareBlock() { m.blocksPrepared++ }

// newBlock makes small ones, so that addresses from 16.0.0.0 on have no slot in a wide root.
func (m *plainMaps) newBlock(family uint8) (uint32, []uint32, error) {
	if err := cmp.Or(m.failing, m.blockFailing); err != nil {
		return 0, nil, err
	}
	block := uint32(1)
	for m.blocks[block] != nil {
		block++
	}
	m.blocks[block] = make([]uint32, 1<<20)
	return block, m.blocks[block], nil
}

// dropBlock lets whoever still reads a block find nonsense, as the kernel's memory would be gone.
func (m *plainMaps) dropBlock(block uint32) {
	storeRun(m.blocks[block], slotNode|slotCell)
	delete(m.blocks, block)
}

func (m *plainMaps) newGroup(write func([]element)) (uint32, []element, error) {
	if err := cmp.Or(m.failing, m.groupFailing); err != nil {
		return 0, nil, err
	}
	number := uint32(1)
	for m.groups[number] != nil {
		number++
	}
	m.groups[number] = make([]element, groupSize)
	write(m.groups[number])
	return number, m.groups[number], nil
}

// dropGroups makes nonsense of them as well.
func (m *plainMaps) dropGroups(numbers []uint32) {
	for _, number := range numbers {
		for i := range m.groups[number] {
			m.groups[number][i] = plainElement(slotLeaf | slotIndex)
		}
		delete(m.groups, number)
	}
}

func (m *plainMaps) newTable(cells int) ([]uint32, error) {
	m.made++
	m.live++
	m.most = max(m.most, m.live)
	if m.prepared != 0 && m.prepared != cells {
		m.wasted++
	}
	m.prepared = 0
	m.next = make([]uint32, cells*cellSlots)
	return m.next, cmp.Or(m.failing, m.tableFailing)
}

func (m *plainMaps) prepareTable(cells int) int {
	m.prepared = max(m.prepared, cells)
	if m.slow {
		return 0
	}
	return m.prepared
}

func (m *plainMaps) preparedCells() int { return m.prepared }

func (m *plainMaps) extendTable(roots map[rootKey]walkBegin) error { return m.switchTable(roots) }

func (m *plainMaps) switchTable(roots map[rootKey]walkBegin) error {
	if err := cmp.Or(m.failing, m.switchFailing); err != nil {
		return err
	}
	m.roots, m.slots, m.live = maps.Clone(roots), m.next, 1
	named := map[uint32]bool{}
	for _, begin := range roots {
		named[begin.block] = true
	}
	maps.DeleteFunc(m.blocks, func(block uint32, _ []uint32) bool { return !named[block] })
	return nil
}

func (m *plainMaps) putRoot(key rootKey, begin walkBegin) error {
	if m.failing != nil {
		return m.failing
	}
	m.roots[key] = begin
	return nil
}

func (m *plainMaps) deleteRoot(key rootKey) error {
	if m.failing == nil {
		delete(m.roots, key)
	}
	return m.failing
}

func (m *plainMaps) clearUsage(uint32) {}

// walk looks an address up as the programs do, by what is in force.
func (m *plainMaps) walk(kind uint8, p lisp.Prefix, address netip.Addr) (uint32, bool) {
	begin := m.roots[rootKey{kind: kind, family: familyOf(address), instance: uint32(p.Instance())}]
	root := trieRoot{slot: begin.slot}
	k, slot := trieKeyOf(address.AsSlice()), slotWalk
	if block := m.blocks[begin.block]; begin.block != 0 && address.Is4() {
		root.wide = &wideRoot{block: begin.block, slots: block}
	} else if begin.block != 0 {
		if elements := m.groups[block[k.top(groupBits)]]; elements != nil {
			slot = elementAnswer(elements, k)
		}
	}
	if slot == slotWalk {
		slot = (&trie{slots: m.slots}).lookupFrom(&root, k)
	}
	return slot & slotIndex, slot&slotTagMask == slotLeaf
}

type plainTables struct {
	*tables
	maps  *plainMaps
	parts tableParts
	clock time.Duration
}

func newPlainTables(t testing.TB, records, sets, cells int) *plainTables {
	t.Helper()
	p := &plainTables{maps: newPlainMaps()}
	p.parts = tableParts{
		maps: p.maps, changed: generations{new(abi.Generations)}, records: make([]abi.Mapping, records), pages: make([]uint64, wordsOfPages(records)), sets: make([]abi.LocatorSet, sets), locators: make([]abi.Locator, locatorsBeside(sets)), cellLimit: cells,
		now: func() time.Duration { return p.clock }, wait: func() {}, smallest: 1 << 12,
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
	key, err := keyOf(kind, lisp.MustParsePrefix(prefix))
	must(t, err)
	flags := uint32(0)
	if kind == kindDatabase {
		flags = flagDatabase
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

// TestFlatRootsAgainstModel has roots of IPv6 whose first bits are one node, once there was room for it.
func TestFlatRootsAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlainTables(t, 400, 64, 1<<19)
	p.parts.flatFrom = 3
	p.reopen(t)
	editTables(t, p, rand.New(rand.NewPCG(6, 7)), 150)
	for i := range 4 {
		p.clock += restTime // what found no room for another shape is tried again
		must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("2001:db8:%d::/48", i), nil))
	}
	if slot := p.roots[rootKey{kind: kindMapCache, family: 6}].slot; stride(slot) != flatStride {
		t.Errorf("the root has %d bits", stride(slot))
	}
}

// TestWideRootsAgainstModel has roots that become wide by few entries, and narrow again by fewer.
func TestWideRootsAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlainTables(t, 400, 64, 1<<14)
	p.parts.wideFrom = 12
	p.reopen(t)
	wide, narrowed := editTables(t, p, rand.New(rand.NewPCG(5, 7)), 400)
	if wide == 0 || narrowed == 0 {
		t.Errorf("roots became wide at %d steps, narrow at %d", wide, narrowed)
	}
}

// TestGroupsAgainstModel has roots of IPv6 that have groups by few entries.
func TestGroupsAgainstModel(t *testing.T) {
	t.Parallel()
	p := newPlainTables(t, 400, 64, 1<<19)
	p.parts.flatFrom, p.parts.groupFrom, p.parts.wideFrom = 4, 1, 1<<20
	p.reopen(t)
	begun, ended := editTables(t, p, rand.New(rand.NewPCG(8, 7)), 300)
	if begun == 0 || ended == 0 {
		t.Errorf("roots got groups at %d steps, lost them at %d", begun, ended)
	}
}

// TestGroupsComeAndGo fills the addresses of two groups and empties them again; what programs find is right all the time.
func TestGroupsComeAndGo(t *testing.T) {
	p := newPlainTables(t, 100, 4, 1<<19)
	p.parts.flatFrom, p.parts.groupFrom = 16, 8
	p.reopen(t)
	var prefixes []lisp.Prefix
	for i := range 32 {
		prefixes = append(prefixes, lisp.MustParsePrefix(fmt.Sprintf("2001:%x:%x::/48", 0x1000*(i%2), i)))
	}
	expect := func(in []lisp.Prefix, groups int) {
		t.Helper()
		if got := len(p.maps.groups); got != groups {
			t.Fatalf("%d groups with %d prefixes, want %d", got, len(in), groups)
		}
		for _, prefix := range prefixes {
			index, ok := p.maps.walk(kindMapCache, prefix, prefix.EID().Addr())
			key, _ := keyOf(kindMapCache, prefix)
			if want := slices.Contains(in, prefix); ok != want || ok && keyOfRecord(&p.records[index]) != key {
				t.Fatalf("%v: found %v, want %v, with %d prefixes", prefix, ok, want, len(in))
			}
		}
	}
	for i, prefix := range prefixes {
		must(t, p.putPrefix(t, kindMapCache, prefix.String(), nil))
		expect(prefixes[:i+1], map[bool]int{true: 2}[i >= 15])
	}
	for i, prefix := range prefixes[:30] {
		p.clock += time.Millisecond
		key, _ := keyOf(kindMapCache, prefix)
		if existed, err := p.delete(key); !existed || err != nil {
			t.Fatalf("delete: %v, %v", existed, err)
		}
		groups := 2
		if i >= 28 { // 3 prefixes are fewer than a quarter of 16
			groups = 0
		}
		expect(prefixes[i+1:], groups)
	}
	if len(p.maps.blocks) != 0 {
		t.Errorf("%d blocks without groups", len(p.maps.blocks))
	}
}

// TestGroupsWithoutMemory goes on by the trie.
func TestGroupsWithoutMemory(t *testing.T) {
	p := newPlainTables(t, 100, 4, 1<<19)
	p.parts.flatFrom, p.parts.groupFrom = 4, 4
	p.reopen(t)
	p.maps.groupFailing = errors.New("no memory")
	put := func(i int) {
		t.Helper()
		must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("2001:0:%x::/48", i), nil))
		if _, ok := p.maps.walk(kindMapCache, lisp.MustParsePrefix("::/0"), netip.MustParseAddr(fmt.Sprintf("2001:0:%x::1", i))); !ok {
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
	if len(p.maps.groups) != 1 {
		t.Errorf("%d groups when there was memory again", len(p.maps.groups))
	}
	if begin := p.maps.roots[rootKey{kind: kindMapCache, family: 6}]; begin.block == 0 || len(p.maps.blocks) != 1 {
		t.Errorf("the root names block %d of %d", begin.block, len(p.maps.blocks))
	}
}

// editTables makes so many edits at random and compares the tables with a model after each. It returns how often
// there were more wide roots afterwards, and fewer.
func editTables(t *testing.T, p *plainTables, random *rand.Rand, steps int) (more, fewer int) {
	model := map[uint8]map[string]lisp.LocatorSet{kindMapCache: {}, kindDatabase: {}}
	for step := range steps {
		before := len(p.maps.blocks)
		p.clock += time.Duration(random.IntN(100)) * time.Millisecond
		kind := []uint8{kindMapCache, kindDatabase}[random.IntN(2)]
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
			key, _ := keyOf(kind, prefix)
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
		if after := len(p.maps.blocks); after > before {
			more++
		} else if after < before {
			fewer++
		}
	}
	return more, fewer
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
	address := randomAddr(random, random.IntN(2) == 0)
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
		kind := []uint8{kindMapCache, kindDatabase}[random.IntN(2)]
		probe := lisp.HostPrefix(lisp.InstanceID(random.IntN(3)), lisp.EIDFromAddr(randomAddr(random, random.IntN(2) == 0)))
		best, found := lisp.Prefix{}, false
		for text := range model[kind] {
			if m := lisp.MustParsePrefix(text); m.Covers(probe) && (!found || m.Bits() > best.Bits()) {
				best, found = m, true
			}
		}
		index, ok := p.maps.walk(kind, probe, probe.EID().Addr())
		if ok != found {
			t.Fatalf("lookup of %v: %v, want %v (%v)", probe, ok, found, best)
		}
		if !ok {
			continue
		}
		record := &p.records[index]
		key := keyOfRecord(record)
		if got, _ := key.prefix(); got != best || !inForce(record) {
			t.Fatalf("lookup of %v: %v, want %v", probe, got, best)
		}
		if !p.sets.of(record.LocatorSet).Equal(model[kind][best.String()]) {
			t.Fatalf("%v: locators %v, want %v", best, p.sets.of(record.LocatorSet), model[kind][best.String()])
		}
	}
}

func TestTablesFull(t *testing.T) {
	p := newPlainTables(t, 3, 2, 1<<10)
	must(t, p.putPrefix(t, kindMapCache, "10.0.0.0/8", locators(rloc4(1))))
	must(t, p.putPrefix(t, kindMapCache, "11.0.0.0/8", locators(rloc4(2))))
	if err := p.putPrefix(t, kindMapCache, "12.0.0.0/8", locators(rloc4(3))); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("third locator-set of two: %v", err)
	}
	must(t, p.putPrefix(t, kindMapCache, "12.0.0.0/8", locators(rloc4(2))))
	if err := p.putPrefix(t, kindMapCache, "13.0.0.0/8", nil); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("fourth entry of three: %v", err)
	}
	must(t, p.putPrefix(t, kindMapCache, "12.0.0.0/8", nil)) // replaced in place
	cells := newPlainTables(t, 100, 10, 20)
	var full error
	for i := range 20 {
		if full = cells.putPrefix(t, kindMapCache, fmt.Sprintf("2001:db8:%d::1", i), nil); full != nil {
			break
		}
	}
	if !errors.Is(full, dataplane.ErrFull) {
		t.Errorf("more cells than 20: %v", full)
	}
	must(t, cells.putPrefix(t, kindMapCache, "2001:db8::1", nil)) // replaced in place
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
		if err := p.putPrefix(t, kindMapCache, address(10, i).String(), locators(address(172, i))); err != nil {
			t.Fatalf("mapping %d: %v", i+1, err)
		}
	}
	if err := p.putPrefix(t, kindMapCache, address(10, 7).String(), locators(address(192, 7))); err != nil {
		t.Errorf("other locators: %v", err)
	}
	if err := p.setSources(lisp.RLOCFromAddr(rloc4(5)), lisp.RLOC{}); err != nil {
		t.Errorf("other own RLOC: %v", err)
	}
}

// TestFailuresChangeNothing lets every system call fail.
func TestFailuresChangeNothing(t *testing.T) {
	p := newPlainTables(t, 10, 10, 1<<10)
	must(t, p.putPrefix(t, kindMapCache, "10.0.0.0/8", locators(rloc4(1))))
	records, uses := p.entries.count, p.fib.cells.inUse()
	p.maps.failing = errors.New("no")
	for _, prefix := range []string{"2001:db8::/32", "[5]10.0.0.0/8"} {
		if err := p.putPrefix(t, kindMapCache, prefix, locators(rloc4(2))); err == nil {
			t.Errorf("%s: no error", prefix)
		}
	}
	key, _ := keyOf(kindMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	if _, err := p.delete(key); err == nil {
		t.Error("delete: no error")
	}
	if p.entries.count != records || p.fib.cells.inUse() != uses || p.indexes.inUse() != 1 || p.sets.indexes.inUse() != 1 {
		t.Errorf("%d entries, %d cells, %d records, %d sets in use after failures", p.entries.count, p.fib.cells.inUse(), p.indexes.inUse(), p.sets.indexes.inUse())
	}
	p.maps.failing = nil
	must(t, p.putPrefix(t, kindMapCache, "2001:db8::/32", locators(rloc4(2))))
}

// TestWideRootThatCannotBeNarrow loses its last entry when there was never memory to make it narrow.
func TestWideRootThatCannotBeNarrow(t *testing.T) {
	p := newPlainTables(t, 10, 10, 1<<12)
	p.parts.wideFrom = 4
	p.reopen(t)
	prefixes := []string{"10.0.0.0/28", "10.0.1.0/28", "10.0.2.0/28", "10.0.3.0/28"}
	for _, prefix := range prefixes {
		must(t, p.putPrefix(t, kindMapCache, prefix, locators(rloc4(1))))
	}
	if len(p.maps.blocks) != 1 {
		t.Fatal("the root is not wide")
	}
	p.maps.tableFailing = errors.New("no memory")
	for _, prefix := range prefixes {
		key, _ := keyOf(kindMapCache, lisp.MustParsePrefix(prefix))
		if existed, err := p.delete(key); err != nil || !existed {
			t.Fatalf("delete %s: %v, %v", prefix, existed, err)
		}
	}
	if len(p.maps.blocks) != 0 || len(p.maps.roots) != 0 || p.fib.cells.inUse() != 0 {
		t.Errorf("%d blocks, %d roots, %d cells in use without entries", len(p.maps.blocks), len(p.maps.roots), p.fib.cells.inUse())
	}
}

// TestWideRootIsTriedSeldom has a root that cannot become wide: building the table anew for each entry would take all the time.
func TestWideRootIsTriedSeldom(t *testing.T) {
	p := newPlainTables(t, 100, 10, 1<<12)
	p.parts.wideFrom = 4
	p.reopen(t)
	must(t, p.putPrefix(t, kindMapCache, "2001:db8::/32", locators(rloc4(1))))
	p.maps.switchFailing = errors.New("no")
	before := p.maps.made
	for i := range 40 {
		must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("10.0.%d.0/24", i), locators(rloc4(1))))
	}
	if tries := p.maps.made - before; tries != 4 { // at 4, 8, 16 and 32 entries
		t.Errorf("%d tries, want 4", tries)
	}
	p.maps.switchFailing = nil
	for i := range 24 {
		must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("10.1.%d.0/24", i), locators(rloc4(1))))
	}
	if len(p.maps.blocks) != 1 {
		t.Errorf("%d blocks at last", len(p.maps.blocks))
	}
}

// Roots that had many entries one after the other are not all wide.
func TestWideRootsAreLimited(t *testing.T) {
	p := newPlainTables(t, 64, 10, 1<<12)
	p.parts.wideFrom = 16
	p.reopen(t)
	for iid := range 6 {
		for i := range 16 {
			must(t, p.putPrefix(t, kindMapCache, fmt.Sprintf("[%d]10.0.%d.0/24", iid, i), locators(rloc4(1))))
		}
		for i := range 12 { // a quarter stays, so it is as wide as before
			key, _ := keyOf(kindMapCache, lisp.MustParsePrefix(fmt.Sprintf("[%d]10.0.%d.0/24", iid, i)))
			if existed, err := p.delete(key); err != nil || !existed {
				t.Fatalf("delete: %v, %v", existed, err)
			}
		}
	}
	if wide := p.wideRoots(); wide != 4 {
		t.Errorf("%d roots are wide, want 4: as many as can have 16 of 64 entries", wide)
	}
}

func TestAdoptRefusesNonsense(t *testing.T) {
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, kindMapCache, "10.0.0.0/8", locators(rloc4(1))))
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
	p.records[10].Flags |= flagHold | flagOneWay
	p.records[10].PrefixLength = 10
	p.records[11] = good
	p.records[11].Flags = 0
	if refused := p.reopen(t); len(refused) != 5 {
		t.Errorf("refused %v, want 5", refused)
	}
	if p.entries.count != 2 || p.records[10].Flags&(flagHold|flagOneWay) != 0 || p.indexes.inUse() != 2 {
		t.Errorf("%d entries, %d records in use, want 2 and nothing on hold", p.entries.count, p.indexes.inUse())
	}
}

func TestLocatorStateChangesBuckets(t *testing.T) {
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, kindMapCache, "10.0.0.0/8", locators(rloc4(1), rloc4(2))))
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
		must(t, p.putPrefix(t, kindMapCache, prefix, locators(rloc4(i%2+1), rloc6(i%2+1))))
	}
	newSource := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.99"))
	must(t, p.setSources(newSource, lisp.RLOC{}))
	for i := range 3 {
		set := &p.parts.sets[p.records[i].LocatorSet]
		run := p.parts.locators[set.First : set.First+set.Count]
		for _, l := range run {
			if l.Family == 4 && addrFrom(4, l.Source) != newSource.Addr() {
				t.Errorf("entry %d: source %v", i, addrFrom(4, l.Source))
			}
		}
		if set.Buckets[0] == forward.NoBucket || run[set.Buckets[0]].Family != 4 {
			t.Errorf("entry %d: a locator without source is used", i)
		}
	}
	if p.sets.indexes.inUse() != 2 {
		t.Errorf("%d locator-sets in use, want 2", p.sets.indexes.inUse())
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
	must(t, p.putPrefix(t, kindMapCache, "10.0.0.0/8", set))
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
	key, _ := keyOf(kindMapCache, lisp.MustParsePrefix("10.0.0.0/8"))
	first, held, err := p.put(entry{key: key, action: lisp.ActionDrop})
	if err != nil || held {
		t.Fatalf("negative: held %v, %v", held, err)
	}
	second, held, err := p.put(entry{key: key, locators: locators(rloc4(1))})
	if err != nil || !held || second != first || p.records[first].Flags&flagHold == 0 {
		t.Fatalf("positive in its place: index %d, held %v, %v", second, held, err)
	}
	p.unhold(first, p.born[first]+1)
	if p.records[first].Flags&flagHold == 0 {
		t.Error("another entry's hold was ended")
	}
	p.unhold(first, p.born[first])
	if _, held, _ := p.put(entry{key: key, locators: locators(rloc4(2))}); held || p.records[first].Flags&flagHold != 0 {
		t.Error("other locators hold packets back")
	}
	if _, _, err := p.put(entry{key: key, action: lisp.ActionNoAction}); err != nil || p.records[first].LocatorSet != noLocatorSet {
		t.Errorf("negative again: %v", err)
	}
	if p.sets.indexes.inUse() != 0 {
		t.Errorf("%d locator-sets in use, want none", p.sets.indexes.inUse())
	}
}

func BenchmarkPut(b *testing.B) {
	p := newPlainTables(b, 1<<20, 1<<10, 1<<20)
	set := locators(rloc4(1), rloc6(1))
	for i := 0; b.Loop(); i++ {
		address := netip.AddrFrom4([4]byte{byte(i>>16) & 0xF, byte(i >> 8), byte(i), 1})
		key, _ := keyOf(kindMapCache, lisp.HostPrefix(0, lisp.EIDFromAddr(address)))
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
		must(t, p.putPrefix(t, kindMapCache, "10.2.0.0/24", locators(rloc4(outer))))
		return p.parts.changed.numbers.Epoch - before
	}
	if put(1) != 0 || put(2) != 0 {
		t.Error("decisions end though no index is used anew")
	}
	if put(3) == 0 {
		t.Error("decisions about a locator-set go on, and its index means another one")
	}
	p.clock += restTime
	if put(4) != 0 {
		t.Error("decisions end though the index has rested")
	}
}

// TestSerialOfALocatorSet has an index mean one locator-set after another: programs tell them apart by the serial number alone.
func TestSerialOfALocatorSet(t *testing.T) {
	clock := time.Duration(0)
	now, wait := func() time.Duration { return clock }, func() {}
	s := newLocatorSets(make([]abi.LocatorSet, 1), newRecycler(1, now, wait), make([]abi.Locator, 64), newArena(64, now, wait))
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
		clock += 2 * restTime
	}
}
