// SPDX-License-Identifier: Apache-2.0

// This file hands out the indexes of mappings so that pages of LISP_RUN_MAPPINGS side by side have one locator-set and one
// Instance-ID as far as that goes, and says of each page whether they have (bpf/abi.h, mapping_runs), so that programs need not read the
// record. An index given back rests as in package reclaim. It changes no record.

package tables

import (
	"math/bits"
	"sync/atomic"
	"time"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

const (
	runLength = 64 // LISP_RUN_MAPPINGS
	wordRuns  = 4  // LISP_WORD_RUNS
	runBits   = 64 / wordRuns
)

// runKey is what the mappings of a page have in common.
type runKey struct{ set, iid uint32 }

// noRunKey is for entries about which a page says nothing: those of the Database, those without locators.
var noRunKey = runKey{set: abi.NoLocatorSet}

// word is what programs are told of a page of which all is known: nothing where that does not fit.
func (k runKey) word() uint64 {
	if k.set >= 1<<runBits-1 {
		return 0
	}
	return uint64(k.set + 1)
}

// runKeyOf is that of the page in which an entry should be.
func runKeyOf(key *lpm.Key, set uint32) runKey {
	if key.Kind == abi.RootDatabase || set == abi.NoLocatorSet {
		return noRunKey
	}
	return runKey{set: set, iid: key.Instance}
}

// A indexRun has a bit for each of its indexes.
type indexRun struct {
	key        runKey
	free       uint64 // can be handed out at once
	fits       uint64 // programs may hold it, and its record says what the key says
	used       uint64 // was handed out before
	prev, next uint32 // of the open pages with this key, from 1 on; 0: none
}

// indexRuns hands out the indexes from 0 to len(records)-1.
type indexRuns struct {
	records []abi.Mapping
	words   []uint64 // that programs read, of wordPages each
	runs    []indexRun
	fresh   uint32            // pages from here on were never used
	empty   []uint32          // pages before that of which all indexes are free
	open    map[runKey]uint32 // the first of the other pages with free indexes, from 1 on
	ready   int               // how many indexes are free
	cursor  uint32            // where the last free index of any key was found
	resting reclaim.Queue[uint32]
	now     func() time.Duration
	wait    func() // returns when no program holds a retired index any more
}

func newIndexRuns(records []abi.Mapping, words []uint64, now func() time.Duration, wait func()) *indexRuns {
	p := &indexRuns{
		records: records, words: words, runs: make([]indexRun, (len(records)+runLength-1)/runLength),
		open: map[runKey]uint32{}, ready: len(records), now: now, wait: wait,
	}
	for i := range p.runs {
		p.runs[i].free = p.all(uint32(i))
	}
	return p
}

// all are the indexes that a page has: the last one may have fewer.
func (p *indexRuns) all(page uint32) uint64 {
	return ^uint64(0) >> (runLength - min(len(p.records)-int(page)*runLength, runLength))
}

// take returns an unused index, of a page with the key if there is one. reused says that it was in use before, so that
// what belongs to it may need clearing; ok is false when all are in use.
func (p *indexRuns) take(key runKey) (index uint32, reused, ok bool) {
	p.wake(p.now())
	if p.ready == 0 && p.resting.Len() > 0 {
		p.wait()
		p.wake(reclaim.Never)
	}
	if p.ready == 0 {
		return 0, false, false
	}
	page := p.runFor(key)
	at := &p.runs[page]
	bit := uint64(1) << bits.TrailingZeros64(at.free)
	reused = at.used&bit != 0
	at.used |= bit
	at.free &^= bit
	p.ready--
	if at.free == 0 {
		p.unlink(page)
	}
	p.publish(page)
	return page*runLength + uint32(bits.TrailingZeros64(bit)), reused, true
}

// runFor returns a page with a free index, which is linked.
func (p *indexRuns) runFor(key runKey) uint32 {
	if first := p.open[key]; first != 0 {
		return first - 1
	}
	page := p.fresh
	switch n := len(p.empty); {
	case n > 0:
		page = p.empty[n-1]
		p.empty = p.empty[:n-1]
	case int(p.fresh) < len(p.runs):
		p.fresh++
	default:
		return p.anyRun()
	}
	p.runs[page].key, p.runs[page].fits = key, 0
	p.link(page)
	return page
}

// anyRun is one of another key: all pages are taken.
func (p *indexRuns) anyRun() uint32 {
	for p.runs[p.cursor].free == 0 {
		p.cursor = (p.cursor + 1) % uint32(len(p.runs))
	}
	return p.cursor
}

func (p *indexRuns) link(page uint32) {
	at := &p.runs[page]
	at.prev, at.next = 0, p.open[at.key]
	if at.next != 0 {
		p.runs[at.next-1].prev = page + 1
	}
	p.open[at.key] = page + 1
}

func (p *indexRuns) unlink(page uint32) {
	at := &p.runs[page]
	if at.next != 0 {
		p.runs[at.next-1].prev = at.prev
	}
	switch {
	case at.prev != 0:
		p.runs[at.prev-1].next = at.next
	case at.next != 0:
		p.open[at.key] = at.next
	default:
		delete(p.open, at.key)
	}
	at.prev, at.next = 0, 0
}

// giveBack retires an index. Its record, and what its page says of it, stay as they are while programs may hold it.
func (p *indexRuns) giveBack(index uint32) { p.resting.Push(index, p.now()+reclaim.RestTime) }

// wake makes those usable that have rested.
func (p *indexRuns) wake(now time.Duration) {
	for index, ok := p.resting.Pop(now); ok; index, ok = p.resting.Pop(now) {
		p.release(index)
	}
}

// release makes an index free that no program holds any more.
func (p *indexRuns) release(index uint32) {
	page := index / runLength
	at := &p.runs[page]
	linked := at.free != 0
	at.free |= bitOf(index)
	at.fits &^= bitOf(index)
	p.ready++
	switch {
	case at.free == p.all(page):
		if linked {
			p.unlink(page)
		}
		p.empty = append(p.empty, page)
	case !linked:
		p.link(page)
	}
	if at.fits == 0 {
		p.findKey(page)
	}
	p.publish(page)
}

// findKey gives a page of which nothing fits the key of one of its mappings: what rested may have been the last with the key before.
func (p *indexRuns) findKey(page uint32) {
	for taken := p.all(page) &^ p.runs[page].free; taken != 0; taken &= taken - 1 {
		record := &p.records[page*runLength+uint32(bits.TrailingZeros64(taken))]
		if hasRunKey(record) {
			p.adoptKey(page, runKey{record.LocatorSet, record.Iid})
			return
		}
	}
}

func bitOf(index uint32) uint64 { return 1 << (index % runLength) }

// isScarce reports whether some rest, and fewer than so many do not.
func (p *indexRuns) isScarce(few int) bool { return p.resting.Len() > 0 && p.ready < few }

// inUse is how many indexes are handed out.
func (p *indexRuns) inUse() int { return len(p.records) - p.ready - p.resting.Len() }

// change is called before a record changes that a program may find.
func (p *indexRuns) change(index uint32) {
	page := index / runLength
	p.runs[page].fits &^= bitOf(index)
	p.publish(page)
}

// changed is called when a record has been written.
func (p *indexRuns) changed(index uint32) {
	page := index / runLength
	at := &p.runs[page]
	record := &p.records[index]
	if at.fits == 0 && !at.key.fits(record) && hasRunKey(record) {
		p.adoptKey(page, runKey{record.LocatorSet, record.Iid})
	}
	if at.key.fits(record) {
		at.fits |= bitOf(index)
	}
	p.publish(page)
}

// fits reports whether a page with the key may say so of a record. Of the Database's no program asks its page.
func (k runKey) fits(record *abi.Mapping) bool {
	return record.Flags&abi.MappingDatabase != 0 || hasRunKey(record) && k == runKey{record.LocatorSet, record.Iid}
}

// hasRunKey reports whether packets go by a mapping's locator-set and nothing else.
func hasRunKey(record *abi.Mapping) bool {
	return record.Flags&(abi.MappingValid|abi.MappingHold|abi.MappingDatabase) == abi.MappingValid && record.LocatorSet != abi.NoLocatorSet
}

// adoptKey gives a page of which nothing fits another key: so does a site's when its locators have changed.
func (p *indexRuns) adoptKey(page uint32, key runKey) {
	at := &p.runs[page]
	linked := at.free != 0
	if linked {
		p.unlink(page)
	}
	at.key, at.fits = key, 0
	for taken := p.all(page) &^ at.free; taken != 0; taken &= taken - 1 {
		if bit := taken & -taken; key.fits(&p.records[page*runLength+uint32(bits.TrailingZeros64(bit))]) {
			at.fits |= bit
		}
	}
	if linked {
		p.link(page)
	}
}

// publish tells programs what holds for all of a page that they may hold.
func (p *indexRuns) publish(page uint32) {
	at := &p.runs[page]
	word := uint64(0)
	if taken := p.all(page) &^ at.free; taken != 0 && taken == at.fits {
		word = at.key.word()
	}
	if p.told(page) != word {
		of, shift := &p.words[page/wordRuns], page%wordRuns*runBits
		atomic.StoreUint64(of, *of&^((1<<runBits-1)<<shift)|word<<shift)
	}
}

// told is what programs are told of a page.
func (p *indexRuns) told(page uint32) uint64 {
	return p.words[page/wordRuns] >> (page % wordRuns * runBits) & (1<<runBits - 1)
}

// adopt marks the indexes for which used holds as handed out. All others count as used before, by an earlier owner.
func (p *indexRuns) adopt(used func(index uint32) bool) {
	p.fresh, p.ready, p.empty = uint32(len(p.runs)), 0, nil
	clear(p.open)
	for page := uint32(len(p.runs)); page > 0; page-- {
		p.adoptRun(page-1, used)
	}
}

func (p *indexRuns) adoptRun(page uint32, used func(index uint32) bool) {
	at := &p.runs[page]
	*at = indexRun{key: noRunKey, used: p.all(page), free: p.all(page)}
	for bit := range uint32(bits.Len64(at.used)) {
		index := page*runLength + bit
		if !used(index) {
			continue
		}
		at.free &^= bitOf(index)
		if record := &p.records[index]; at.key == noRunKey && hasRunKey(record) {
			at.key = runKey{record.LocatorSet, record.Iid}
		}
	}
	p.ready += bits.OnesCount64(at.free)
	if at.free == at.used {
		p.empty = append(p.empty, page)
	} else {
		key := at.key
		if at.free != 0 {
			p.link(page)
		}
		p.adoptKey(page, key)
	}
	p.publish(page)
}
