// SPDX-License-Identifier: Apache-2.0

// These tests kill the process in the middle of what it does to the tables, and look at what the next one makes of the memory.

package tables

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/lpm"
	"loci/lisp"
)

// expectSources wants all mappings' locators to have one source of IPv4, and locator-sets that are equal to stand once.
func (p *plainTables) expectSources(t *testing.T, when string, source lisp.RLOC) {
	t.Helper()
	sets := map[string]uint32{}
	for _, index := range p.Entries.All() {
		set := p.Records[index].LocatorSet
		if set == abi.NoLocatorSet {
			continue
		}
		record := &p.parts.Sets[set]
		for _, l := range p.parts.Locators[record.First:][:record.Count] {
			if l.Family == 4 && abi.Addr(4, l.Source) != source.Addr() {
				t.Errorf("%s: entry %d of set %d has source %v, want %v", when, index, set, abi.Addr(4, l.Source), source)
			}
		}
		content := contentOf(p.Sets.Of(set))
		if other, ok := sets[content]; ok && other != set {
			t.Errorf("%s: sets %d and %d are equal", when, set, other)
		}
		sets[content] = set
	}
	if p.Sets.Indexes.InUse() != len(sets) || len(p.Sets.byContent) != len(sets) {
		t.Errorf("%s: %d sets in use, %d known, want %d", when, p.Sets.Indexes.InUse(), len(p.Sets.byContent), len(sets))
	}
}

// TestCrashWhileSourcesChange has only some of a set's mappings moved to the set with the new source.
func TestCrashWhileSourcesChange(t *testing.T) {
	before, after := lisp.RLOCFromAddr(kerneltest.RLOC4(0)), lisp.RLOCFromAddr(kerneltest.RLOC4(50))
	for _, next := range []lisp.RLOC{before, after} {
		for movedEntries := range 4 {
			p := newPlainTables(t, 16, 16, 1<<10)
			for i := range 4 {
				must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.%d.0.0/16", i), kerneltest.Locators(kerneltest.RLOC4(1+i/3), kerneltest.RLOC6(1))))
			}
			must(t, p.Sets.setSources(after, lisp.RLOCFromAddr(kerneltest.RLOC6(0)), func(moved map[uint32]uint32) {
				for i := range movedEntries {
					p.Records[i].LocatorSet = moved[p.Records[i].LocatorSet]
				}
			}))
			if refused := p.reopen(t); len(refused) > 0 {
				t.Fatal(refused)
			}
			when := fmt.Sprintf("%d moved, then %v", movedEntries, next)
			must(t, p.SetSources(next, lisp.RLOCFromAddr(kerneltest.RLOC6(0))))
			p.expectSources(t, when, next)
			must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/16", nil)) // the others keep theirs
			must(t, p.putPrefix(t, abi.RootMapCache, "10.9.0.0/16", kerneltest.Locators(kerneltest.RLOC4(1), kerneltest.RLOC6(1))))
			must(t, p.putPrefix(t, abi.RootMapCache, "10.0.0.0/16", kerneltest.Locators(kerneltest.RLOC4(1), kerneltest.RLOC6(1))))
			p.expectSources(t, when+", after edits", next)
		}
	}
}

// TestSourcesThatCannotChange lacks room for some sets with the new source, and goes back to the old one.
func TestSourcesThatCannotChange(t *testing.T) {
	p := newPlainTables(t, 256, 100, 1<<12)
	for i := range 5 { // of one locator: there is room for these
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.0.%d.0/24", i), kerneltest.Locators(kerneltest.RLOC4(1+i))))
	}
	var err error
	for i := 0; err == nil; i++ {
		var many []netip.Addr
		for j := range lisp.MaxLocators {
			many = append(many, netip.AddrFrom4([4]byte{198, 51, byte(i), byte(j)}))
		}
		err = p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.1.%d.0/24", i), kerneltest.Locators(many...))
	}
	if !errors.Is(err, dataplane.ErrFull) {
		t.Fatal(err)
	}
	before := p.Sets.Source4
	if err := p.SetSources(lisp.RLOCFromAddr(kerneltest.RLOC4(50)), p.Sets.Source6); !errors.Is(err, dataplane.ErrFull) {
		t.Fatalf("there was room: %v", err)
	}
	must(t, p.SetSources(before, p.Sets.Source6))
	p.expectSources(t, "back again", before)
}

// A snapshot is what a later process finds of tables that were killed.
type snapshot struct {
	records  []abi.Mapping
	pages    []uint64
	sets     []abi.LocatorSet
	locators []abi.Locator
}

func (p *plainTables) snapshot() snapshot {
	return snapshot{slices.Clone(p.parts.Records), slices.Clone(p.parts.Runs), slices.Clone(p.parts.Sets), slices.Clone(p.parts.Locators)}
}

// revive makes other tables of a snapshot.
func (s snapshot) revive(t *testing.T, of *plainTables) *plainTables {
	t.Helper()
	p := &plainTables{maps: &plainMemory{}, parts: of.parts}
	p.parts.Memory, p.parts.Changed = p.maps, Generations{new(abi.Generations)}
	p.parts.Records, p.parts.Runs, p.parts.Sets, p.parts.Locators = s.records, s.pages, s.sets, s.locators
	p.parts.Now = func() time.Duration { return p.clock }
	p.parts.Wait, p.parts.stored = func() {}, nil
	if refused := p.reopen(t); len(refused) > 0 {
		t.Fatalf("refused %v", refused)
	}
	return p
}

// A victim is a process that is killed at some step of an edit.
type victim struct {
	*plainTables
	random *rand.Rand
	model  map[uint8]map[string]lisp.LocatorSet
	steps  int // that are left
	found  *snapshot
}

func newVictim(t *testing.T, seed uint64) *victim {
	v := &victim{plainTables: newPlainTables(t, 400, 64, 1<<14), random: rand.New(rand.NewPCG(seed, 21))}
	v.model = map[uint8]map[string]lisp.LocatorSet{abi.RootMapCache: {}, abi.RootDatabase: {}}
	v.parts.Now = func() time.Duration {
		v.step()
		return v.clock
	}
	v.parts.stored = v.step
	v.reopen(t)
	return v
}

func (v *victim) step() {
	if v.steps--; v.steps == 0 {
		found := v.snapshot()
		v.found = &found
	}
}

// edit makes one change.
func (v *victim) edit(t *testing.T) {
	t.Helper()
	kind, prefix := []uint8{abi.RootMapCache, abi.RootDatabase}[v.random.IntN(2)], randomEIDPrefix(v.random)
	switch v.random.IntN(9) {
	case 0:
		must(t, v.SetSources(lisp.RLOCFromAddr(kerneltest.RLOC4(40+v.random.IntN(3))), lisp.RLOCFromAddr(kerneltest.RLOC6(0))))
	case 1:
		for _, index := range v.Entries.All() {
			v.Unhold(index, v.Born[index])
		}
	case 2, 3, 4:
		prefix = anyOf(v.model[kind], prefix)
		key, _ := lpm.KeyOf(kind, prefix)
		_, err := v.Delete(key)
		must(t, err)
		delete(v.model[kind], prefix.String())
	default:
		set := kerneltest.Locators(kerneltest.RLOC4(1+v.random.IntN(4)), kerneltest.RLOC6(v.random.IntN(3)))
		if v.random.IntN(4) == 0 {
			set = nil
		}
		must(t, v.putPrefix(t, kind, prefix.String(), set))
		v.model[kind][prefix.String()] = set
	}
}

// modelOf is what tables hold by their own index.
func (p *plainTables) modelOf() map[uint8]map[string]lisp.LocatorSet {
	model := map[uint8]map[string]lisp.LocatorSet{abi.RootMapCache: {}, abi.RootDatabase: {}}
	for _, index := range p.Entries.All() {
		key := KeyOf(&p.Records[index])
		prefix, _ := key.Prefix()
		model[key.Kind][prefix.String()] = p.Sets.Of(p.Records[index].LocatorSet)
	}
	return model
}

// expectEither wants each entry to be as it was before an edit, or as it is after it.
func expectEither(t *testing.T, got, before, after map[string]lisp.LocatorSet) {
	t.Helper()
	for prefix := range maps.Keys(merged(merged(got, before), after)) {
		set, has := got[prefix]
		old, had := before[prefix]
		fresh, will := after[prefix]
		if asBefore, asAfter := has == had && set.Equal(old), has == will && set.Equal(fresh); !asBefore && !asAfter {
			t.Fatalf("%s: %v (%v), before %v (%v), after %v (%v)", prefix, set, has, old, had, fresh, will)
		}
	}
}

func merged(a, b map[string]lisp.LocatorSet) map[string]lisp.LocatorSet {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// TestKilledWhileEditing kills a process at any step of edits at random: the next one finds all entries, as before the edit or after it, and
// goes on without having lost anything.
func TestKilledWhileEditing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		v, kills := newVictim(t, seed), 0
		for range 400 {
			v.clock += time.Duration(v.random.IntN(100)) * time.Millisecond
			before := map[uint8]map[string]lisp.LocatorSet{abi.RootMapCache: maps.Clone(v.model[abi.RootMapCache]), abi.RootDatabase: maps.Clone(v.model[abi.RootDatabase])}
			v.found, v.steps = nil, 1+v.random.IntN(12)
			v.edit(t)
			if v.found == nil {
				continue
			}
			kills++
			next := v.found.revive(t, v.plainTables)
			model := next.modelOf()
			for kind := range model {
				expectEither(t, model[kind], before[kind], v.model[kind])
			}
			compareTables(t, next, model, v.random)
			next.checkPages(t)
			must(t, next.SetSources(lisp.RLOCFromAddr(kerneltest.RLOC4(44)), lisp.RLOCFromAddr(kerneltest.RLOC6(0))))
			next.expectSources(t, "after a restart", lisp.RLOCFromAddr(kerneltest.RLOC4(44)))
			compareTables(t, next, model, v.random)
		}
		if kills < 100 {
			t.Errorf("killed %d times", kills)
		}
	}
}

// TestKilledWhileReplacing wants locators of before to live no longer than before: the new times are stored after the new locator-set.
func TestKilledWhileReplacing(t *testing.T) {
	const replacements = 200000
	var record abi.Mapping
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		for i := range uint64(replacements) {
			replaceRecord(&record, Entry{ExpiresNs: i, CreatedNs: i, Ttl: uint32(i), Cookie: uint32(i)}, uint32(i))
		}
	}()
	for !done.Load() {
		expires, created := atomic.LoadUint64(&record.ExpiresNs), atomic.LoadUint64(&record.CreatedNs)
		ttl, cookie := atomic.LoadUint32(&record.TtlMinutes), atomic.LoadUint32(&record.Cookie)
		if set := atomic.LoadUint32(&record.LocatorSet); max(uint32(expires), uint32(created), ttl, cookie) > set {
			t.Fatalf("times %d, %d, %d and cookie %d with locator-set %d", expires, created, ttl, cookie, set)
		}
	}
}
