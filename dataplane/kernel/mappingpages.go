// SPDX-License-Identifier: Apache-2.0

// This file hands out the indexes of mappings so that pages of LISP_PAGE_MAPPINGS side by side have one locator-set and one
// Instance-ID as far as that goes, and says of each page whether they have (bpf/abi.h, mapping_pages), so that programs need not read the
// record. An index given back rests as in package reclaim. It changes no record.

package kernel

import (
	"math/bits"
	"sync/atomic"
	"time"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

const (
	pageMappings = 64 // LISP_PAGE_MAPPINGS
	wordPages    = 4  // LISP_WORD_PAGES
	pageBits     = 64 / wordPages
)

// wordsOfPages is how many words programs are told of so many mappings.
func wordsOfPages(mappings int) int {
	const each = pageMappings * wordPages
	return (mappings + each - 1) / each
}

// pageKey is what the mappings of a page have in common.
type pageKey struct{ set, iid uint32 }

// noPageKey is for entries about which a page says nothing: those of the Database, those without locators.
var noPageKey = pageKey{set: abi.NoLocatorSet}

// word is what programs are told of a page of which all is known: nothing where that does not fit.
func (k pageKey) word() uint64 {
	if k.set >= 1<<pageBits-1 {
		return 0
	}
	return uint64(k.set + 1)
}

// keyOfPage is that of the page in which an entry should be.
func keyOfPage(key *lpm.Key, set uint32) pageKey {
	if key.Kind == abi.RootDatabase || set == abi.NoLocatorSet {
		return noPageKey
	}
	return pageKey{set: set, iid: key.Instance}
}

// A mappingPage has a bit for each of its indexes.
type mappingPage struct {
	key        pageKey
	free       uint64 // can be handed out at once
	fits       uint64 // programs may hold it, and its record says what the key says
	used       uint64 // was handed out before
	prev, next uint32 // of the open pages with this key, from 1 on; 0: none
}

// mappingPages hands out the indexes from 0 to len(records)-1.
type mappingPages struct {
	records []abi.Mapping
	words   []uint64 // that programs read, of wordPages each
	pages   []mappingPage
	fresh   uint32             // pages from here on were never used
	empty   []uint32           // pages before that of which all indexes are free
	open    map[pageKey]uint32 // the first of the other pages with free indexes, from 1 on
	ready   int                // how many indexes are free
	cursor  uint32             // where the last free index of any key was found
	resting reclaim.Queue[uint32]
	now     func() time.Duration
	wait    func() // returns when no program holds a retired index any more
}

func newMappingPages(records []abi.Mapping, words []uint64, now func() time.Duration, wait func()) *mappingPages {
	p := &mappingPages{
		records: records, words: words, pages: make([]mappingPage, (len(records)+pageMappings-1)/pageMappings),
		open: map[pageKey]uint32{}, ready: len(records), now: now, wait: wait,
	}
	for i := range p.pages {
		p.pages[i].free = p.all(uint32(i))
	}
	return p
}

// all are the indexes that a page has: the last one may have fewer.
func (p *mappingPages) all(page uint32) uint64 {
	return ^uint64(0) >> (pageMappings - min(len(p.records)-int(page)*pageMappings, pageMappings))
}

// take returns an unused index, of a page with the key if there is one. reused says that it was in use before, so that
// what belongs to it may need clearing; ok is false when all are in use.
func (p *mappingPages) take(key pageKey) (index uint32, reused, ok bool) {
	p.wake(p.now())
	if p.ready == 0 && p.resting.Len() > 0 {
		p.wait()
		p.wake(reclaim.Never)
	}
	if p.ready == 0 {
		return 0, false, false
	}
	page := p.pageFor(key)
	at := &p.pages[page]
	bit := uint64(1) << bits.TrailingZeros64(at.free)
	reused = at.used&bit != 0
	at.used |= bit
	at.free &^= bit
	p.ready--
	if at.free == 0 {
		p.unlink(page)
	}
	p.publish(page)
	return page*pageMappings + uint32(bits.TrailingZeros64(bit)), reused, true
}

// pageFor returns a page with a free index, which is linked.
func (p *mappingPages) pageFor(key pageKey) uint32 {
	if first := p.open[key]; first != 0 {
		return first - 1
	}
	page := p.fresh
	switch n := len(p.empty); {
	case n > 0:
		page = p.empty[n-1]
		p.empty = p.empty[:n-1]
	case int(p.fresh) < len(p.pages):
		p.fresh++
	default:
		return p.anyPage()
	}
	p.pages[page].key, p.pages[page].fits = key, 0
	p.link(page)
	return page
}

// anyPage is one of another key: all pages are taken.
func (p *mappingPages) anyPage() uint32 {
	for p.pages[p.cursor].free == 0 {
		p.cursor = (p.cursor + 1) % uint32(len(p.pages))
	}
	return p.cursor
}

func (p *mappingPages) link(page uint32) {
	at := &p.pages[page]
	at.prev, at.next = 0, p.open[at.key]
	if at.next != 0 {
		p.pages[at.next-1].prev = page + 1
	}
	p.open[at.key] = page + 1
}

func (p *mappingPages) unlink(page uint32) {
	at := &p.pages[page]
	if at.next != 0 {
		p.pages[at.next-1].prev = at.prev
	}
	switch {
	case at.prev != 0:
		p.pages[at.prev-1].next = at.next
	case at.next != 0:
		p.open[at.key] = at.next
	default:
		delete(p.open, at.key)
	}
	at.prev, at.next = 0, 0
}

// giveBack retires an index. Its record, and what its page says of it, stay as they are while programs may hold it.
func (p *mappingPages) giveBack(index uint32) { p.resting.Push(index, p.now()+reclaim.RestTime) }

// wake makes those usable that have rested.
func (p *mappingPages) wake(now time.Duration) {
	for index, ok := p.resting.Pop(now); ok; index, ok = p.resting.Pop(now) {
		p.release(index)
	}
}

// release makes an index free that no program holds any more.
func (p *mappingPages) release(index uint32) {
	page := index / pageMappings
	at := &p.pages[page]
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
func (p *mappingPages) findKey(page uint32) {
	for taken := p.all(page) &^ p.pages[page].free; taken != 0; taken &= taken - 1 {
		record := &p.records[page*pageMappings+uint32(bits.TrailingZeros64(taken))]
		if hasPageKey(record) {
			p.adoptKey(page, pageKey{record.LocatorSet, record.Iid})
			return
		}
	}
}

func bitOf(index uint32) uint64 { return 1 << (index % pageMappings) }

// isScarce reports whether some rest, and fewer than so many do not.
func (p *mappingPages) isScarce(few int) bool { return p.resting.Len() > 0 && p.ready < few }

// inUse is how many indexes are handed out.
func (p *mappingPages) inUse() int { return len(p.records) - p.ready - p.resting.Len() }

// change is called before a record changes that a program may find.
func (p *mappingPages) change(index uint32) {
	page := index / pageMappings
	p.pages[page].fits &^= bitOf(index)
	p.publish(page)
}

// changed is called when a record has been written.
func (p *mappingPages) changed(index uint32) {
	page := index / pageMappings
	at := &p.pages[page]
	record := &p.records[index]
	if at.fits == 0 && !at.key.fits(record) && hasPageKey(record) {
		p.adoptKey(page, pageKey{record.LocatorSet, record.Iid})
	}
	if at.key.fits(record) {
		at.fits |= bitOf(index)
	}
	p.publish(page)
}

// fits reports whether a page with the key may say so of a record. Of the Database's no program asks its page.
func (k pageKey) fits(record *abi.Mapping) bool {
	return record.Flags&abi.MappingDatabase != 0 || hasPageKey(record) && k == pageKey{record.LocatorSet, record.Iid}
}

// hasPageKey reports whether packets go by a mapping's locator-set and nothing else.
func hasPageKey(record *abi.Mapping) bool {
	return record.Flags&(abi.MappingValid|abi.MappingHold|abi.MappingDatabase) == abi.MappingValid && record.LocatorSet != abi.NoLocatorSet
}

// adoptKey gives a page of which nothing fits another key: so does a site's when its locators have changed.
func (p *mappingPages) adoptKey(page uint32, key pageKey) {
	at := &p.pages[page]
	linked := at.free != 0
	if linked {
		p.unlink(page)
	}
	at.key, at.fits = key, 0
	for taken := p.all(page) &^ at.free; taken != 0; taken &= taken - 1 {
		if bit := taken & -taken; key.fits(&p.records[page*pageMappings+uint32(bits.TrailingZeros64(bit))]) {
			at.fits |= bit
		}
	}
	if linked {
		p.link(page)
	}
}

// publish tells programs what holds for all of a page that they may hold.
func (p *mappingPages) publish(page uint32) {
	at := &p.pages[page]
	word := uint64(0)
	if taken := p.all(page) &^ at.free; taken != 0 && taken == at.fits {
		word = at.key.word()
	}
	if p.told(page) != word {
		of, shift := &p.words[page/wordPages], page%wordPages*pageBits
		atomic.StoreUint64(of, *of&^((1<<pageBits-1)<<shift)|word<<shift)
	}
}

// told is what programs are told of a page.
func (p *mappingPages) told(page uint32) uint64 {
	return p.words[page/wordPages] >> (page % wordPages * pageBits) & (1<<pageBits - 1)
}

// adopt marks the indexes for which used holds as handed out. All others count as used before, by whoever had them.
func (p *mappingPages) adopt(used func(index uint32) bool) {
	p.fresh, p.ready, p.empty = uint32(len(p.pages)), 0, nil
	clear(p.open)
	for page := uint32(len(p.pages)); page > 0; page-- {
		p.adoptPage(page-1, used)
	}
}

func (p *mappingPages) adoptPage(page uint32, used func(index uint32) bool) {
	at := &p.pages[page]
	*at = mappingPage{key: noPageKey, used: p.all(page), free: p.all(page)}
	for bit := range uint32(bits.Len64(at.used)) {
		index := page*pageMappings + bit
		if !used(index) {
			continue
		}
		at.free &^= bitOf(index)
		if record := &p.records[index]; at.key == noPageKey && hasPageKey(record) {
			at.key = pageKey{record.LocatorSet, record.Iid}
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
