// SPDX-License-Identifier: Apache-2.0

// What programs are told of pages of mappings agrees with the records, whatever is done to the tables.

package tables

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
	"loci/lisp"
)

// checkPages holds each word against the records of its page, and counts the pages of which something is told.
func (p *plainTables) checkPages(t *testing.T) (told int) {
	t.Helper()
	free := 0
	for page := range p.indexes.runs {
		at, word := &p.indexes.runs[page], p.indexes.told(uint32(page))
		free += bits.OnesCount64(at.free)
		all := at.free != p.indexes.all(uint32(page))
		for held := p.indexes.all(uint32(page)) &^ at.free; held != 0; held &= held - 1 {
			index := uint32(page*runLength + bits.TrailingZeros64(held))
			record := &p.Records[index]
			if record.Flags&abi.MappingDatabase != 0 {
				continue
			}
			own, iid := uint64(record.LocatorSet+1), record.Iid
			fits := record.Flags&(abi.MappingValid|abi.MappingHold) == abi.MappingValid && record.LocatorSet != abi.NoLocatorSet && own == at.key.word() && iid == at.key.iid
			all = all && fits
			if word != 0 && (!fits || word != own) { // all of a page have one Instance-ID, of which programs are not told
				t.Fatalf("page %d is told to be %x, its mapping %d is %+v", page, word, index, record)
			}
		}
		if all && at.key.word() != word {
			t.Fatalf("page %d: all fit %x, told is %x", page, at.key.word(), word)
		}
		if word != 0 {
			told++
		}
	}
	if free != p.indexes.ready {
		t.Fatalf("%d indexes are free, counted are %d", free, p.indexes.ready)
	}
	return told
}

func TestPagesAgreeWithRecords(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 64))
		p := newPlainTables(t, 1000, 64, 1<<14)
		told := 0
		for step := range 3000 {
			p.editPages(t, random)
			if step%50 == 0 {
				p.clock += time.Duration(random.IntN(300)) * time.Millisecond
			}
			if step%700 == 699 {
				p.reopen(t)
			}
			told += p.checkPages(t)
		}
		if told == 0 {
			t.Error("nothing was ever told of a page")
		}
	}
}

// editPages makes one change.
func (p *plainTables) editPages(t *testing.T, random *rand.Rand) {
	t.Helper()
	kind, instance, host := abi.RootMapCache, random.IntN(2), random.IntN(900)
	prefix := fmt.Sprintf("[%d]10.%d.%d.0/24", instance, host/200, host%200)
	switch draw := random.IntN(100); {
	case draw < 2: // of the Database
		kind, prefix = abi.RootDatabase, fmt.Sprintf("192.168.%d.0/24", host%200)
		fallthrough
	case draw < 55:
		set := kerneltest.Locators(kerneltest.RLOC4(1+random.IntN(random.IntN(9)+1)), kerneltest.RLOC4(100))
		if draw > 52 {
			set = nil
		}
		if err := p.putPrefix(t, kind, prefix, set); err != nil {
			t.Fatal(err)
		}
	case draw < 75:
		key, err := lpm.KeyOf(kind, lisp.MustParsePrefix(prefix))
		must(t, err)
		_, err = p.Delete(key)
		must(t, err)
	case draw < 99:
		for _, index := range p.Entries.All() {
			if random.IntN(4) > 0 {
				p.Unhold(index, p.Born[index])
			}
		}
	default:
		must(t, p.SetSources(lisp.RLOCFromAddr(kerneltest.RLOC4(200+random.IntN(9))), lisp.RLOCFromAddr(kerneltest.RLOC6(0))))
	}
}

// Mappings of one site stand side by side, those of others apart, as long as there are pages.
func TestPagesAreOfOneLocatorSet(t *testing.T) {
	p := newPlainTables(t, 1024, 64, 1<<14)
	put := func(i int) {
		t.Helper()
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), kerneltest.Locators(kerneltest.RLOC4(1+i%4))))
		for _, index := range p.Entries.All() {
			p.Unhold(index, p.Born[index])
		}
	}
	for i := range 640 {
		put(i)
	}
	if told := p.checkPages(t); told != 12 { // 160 of each
		t.Errorf("%d pages are told of, want 12", told)
	}
	for i := range 4 * 128 { // the same, behind one site
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), kerneltest.Locators(kerneltest.RLOC4(9))))
	}
	if told := p.checkPages(t); told != 12 {
		t.Errorf("%d pages are told of after locators changed, want 12", told)
	}
	for i := 640; i < 1024; i++ {
		put(i)
	}
	p.checkPages(t)
	if err := p.putPrefix(t, abi.RootMapCache, "172.16.0.0/16", kerneltest.Locators(kerneltest.RLOC4(1))); err == nil {
		t.Error("one more than there are indexes")
	}
	for i := range 1024 {
		key, err := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)))
		must(t, err)
		if existed, err := p.Delete(key); !existed || err != nil {
			t.Fatal(existed, err)
		}
	}
	p.clock += time.Second
	put(0)
	if told := p.checkPages(t); told != 1 || p.indexes.inUse() != 1 {
		t.Errorf("%d pages are told of, %d indexes in use, want one", told, p.indexes.inUse())
	}
}

// A page whose mappings all change to another set has that one, also where one of them rests meanwhile.
func TestPageChangesBesideWhatRests(t *testing.T) {
	p := newPlainTables(t, 2*runLength, 4, 1<<14)
	put := func(i int, set lisp.LocatorSet) {
		t.Helper()
		must(t, p.putPrefix(t, abi.RootMapCache, fmt.Sprintf("10.0.%d.0/24", i), set))
		for _, index := range p.Entries.All() {
			p.Unhold(index, p.Born[index])
		}
	}
	for i := range runLength {
		put(i, kerneltest.Locators(kerneltest.RLOC4(1)))
	}
	key, err := lpm.KeyOf(abi.RootMapCache, lisp.MustParsePrefix("10.0.0.0/24"))
	must(t, err)
	_, err = p.Delete(key)
	must(t, err)
	for i := 1; i < runLength; i++ {
		put(i, kerneltest.Locators(kerneltest.RLOC4(2)))
	}
	if told := p.checkPages(t); told != 0 {
		t.Errorf("%d pages are told of while a mapping of another set rests", told)
	}
	p.clock += time.Second
	put(runLength, kerneltest.Locators(kerneltest.RLOC4(3)))
	if told := p.checkPages(t); told != 2 {
		t.Errorf("%d pages are told of when it has rested, want 2", told)
	}
}

func TestFewIndexesAreScarceWhileSomeRest(t *testing.T) {
	clock := time.Duration(0)
	p := newIndexRuns(make([]abi.Mapping, 2), make([]uint64, 1), func() time.Duration { return clock }, func() { t.Error("programs are waited for") })
	first, _, _ := p.take(noRunKey)
	second, _, _ := p.take(noRunKey)
	if p.isScarce(1) {
		t.Error("scarce while nothing rests")
	}
	p.giveBack(first)
	p.giveBack(second)
	if !p.isScarce(1) {
		t.Error("not scarce while all that is left rests")
	}
	clock += reclaim.RestTime
	if p.wake(clock); p.ready != 2 || p.isScarce(1) {
		t.Errorf("%d are ready after the rest", p.ready)
	}
}
