// SPDX-License-Identifier: Apache-2.0

// This file keeps the groups of elements of IPv6 roots with many prefixes (bpf/abi.h, "Forwarding table"): a second, shorter way to
// what the trie answers, by one access that waits for no other. The trie is the truth and is edited first; then the elements of
// the addresses that an edit is about are written from it. What an element cannot say it leaves to the trie. Every store leaves an
// element that gives the old answer or the new one. It never changes the trie.

package lpm

import (
	"math/bits"
	"sync/atomic"
	"time"

	"loci/dataplane/kernel/reclaim"
)

const (
	firstLevelBits6    = 20
	secondLevelBits    = 16
	restBits           = 64 - firstLevelBits6 - secondLevelBits
	SecondLevelEntries = 1 << secondLevelBits // elements
	entryOctets        = 16
	// slotWalk sends a walk to the root's slot.
	slotWalk = slotNode
	// checkNever is the check of an element that compares nothing: no rest is 1 when all of it is shifted out.
	checkNever = uint64(restBits)<<32 | 1
)

// An Entry is struct lisp_entry: of check, the lower half is the value, the upper one the shift.
type Entry struct {
	check            uint64
	match, otherwise uint32
}

// plainEntry answers the same for all its addresses.
func plainEntry(slot uint32) Entry { return Entry{check: checkNever, otherwise: slot} }

// comparing is an element that compares so many bits, of restBits at most.
func comparing(value uint32, length int, match, otherwise uint32) Entry {
	return Entry{check: uint64(restBits-length)<<32 | uint64(value), match: match, otherwise: otherwise}
}

// A secondLevel is the elements of the addresses below groupBits.
type secondLevel struct {
	number  uint32 // under which programs find it; not 0
	entries []Entry
	private bool                     // no program knows it
	until   map[uint32]time.Duration // by element: how long programs may act by the check before
	resting []storedCheck            // the same, in the order of time
	stored  func()                   // called after each store; tests look then
}

// A storedCheck is an element whose check was changed.
type storedCheck struct {
	element uint32
	until   time.Duration
}

func newSecondLevel() *secondLevel {
	return &secondLevel{until: map[uint32]time.Duration{}, stored: func() {}}
}

// levels are those of one root.
type levels struct {
	number   uint32                  // under which programs find the numbers; 0: there is no group
	first    []uint32                // of groups, by the first bits of the address; 0: there is none
	second   map[uint32]*secondLevel // by the first bits of its addresses
	counts   map[uint32]int          // prefixes of groupBits and more, by the first bits
	failedAt int                     // how many entries the root had when a group could not be made; 0: none failed
}

// A painter writes elements of one group from a trie.
type painter struct {
	trie     *trie
	group    *secondLevel
	base     uint64 // number of the group's first element among those of all addresses
	from, to uint64 // the elements to write, of all addresses
}

// paintBelow writes all elements of a group that a prefix covers, or that it is in.
func (g *levels) paintBelow(t *trie, slot, top uint32, k trieKey, length int) {
	base := uint64(top) << secondLevelBits
	p := painter{trie: t, group: g.second[top], base: base, from: base, to: base + SecondLevelEntries}
	if length > firstLevelBits6 {
		bits := min(length, firstLevelBits6+secondLevelBits)
		p.from = k.hi >> (64 - firstLevelBits6 - secondLevelBits) &^ (1<<(firstLevelBits6+secondLevelBits-bits) - 1)
		p.to = p.from + 1<<(firstLevelBits6+secondLevelBits-bits)
	}
	p.paint(slot, 0, firstLevelBits6+secondLevelBits)
}

// paint writes what a slot says about 2^bits elements.
func (p *painter) paint(slot uint32, first uint64, bits int) {
	end := first + 1<<bits
	if end <= p.from || first >= p.to {
		return
	}
	switch {
	case bits == 0:
		p.write(first, end, p.entryOf(slot))
	case uniform(slot):
		p.write(first, end, plainEntry(slot))
	case stride(slot) == 0:
		p.paintCompare(p.trie.cellOf(slot), first, bits)
	default:
		p.paintNode(slot, first, bits)
	}
}

func (p *painter) paintCompare(c []uint32, first uint64, bits int) {
	value, length := uint64(c[compareValue]), int(c[compareLength])
	at, width := first, uint64(1)
	if length <= bits {
		width = 1 << (bits - length)
		at += value * width
		p.paint(c[compareMatch], at, bits-length)
	} else {
		left := length - bits
		at = first + value>>left
		p.write(at, at+1, p.joined(uint32(value&(1<<left-1)), left, c[compareMatch], c[compareOtherwise]))
	}
	p.write(first, at, plainEntry(c[compareOtherwise]))
	p.write(at+width, first+1<<bits, plainEntry(c[compareOtherwise]))
}

func (p *painter) paintNode(slot uint32, first uint64, bits int) {
	slots, s := p.trie.nodeOf(slot), stride(slot)
	from, to := max(p.from, first)-first, min(p.to, first+1<<bits)-first // those that are wanted
	if s <= bits {
		open := bits - s
		for i := from >> open; i<<open < to; i++ {
			p.paint(slots[i], first+i<<open, open)
		}
		return
	}
	each := uint64(1) << (s - bits)
	for i := from; i < to; i++ {
		p.write(first+i, first+i+1, p.entryFor(slots[i*each:(i+1)*each]))
	}
}

// entryFor says in one element what so many slots side by side say, of which there are 2^n, n > 0.
func (p *painter) entryFor(slots []uint32) Entry {
	odd, ok := single(slots)
	switch {
	case !ok:
		return plainEntry(slotWalk)
	case odd < 0:
		return plainEntry(slots[0])
	}
	return p.joined(uint32(odd), bits.Len(uint(len(slots)))-1, slots[odd], slots[(odd+1)%len(slots)])
}

// entryOf says in one element what a slot says.
func (p *painter) entryOf(slot uint32) Entry {
	switch {
	case uniform(slot):
		return plainEntry(slot)
	case stride(slot) != 0:
		return plainEntry(slotWalk)
	}
	c := p.trie.cellOf(slot)
	return p.joined(c[compareValue], int(c[compareLength]), c[compareMatch], c[compareOtherwise])
}

// joined is the element of a comparison, with those that follow where they have the same alternative.
func (p *painter) joined(value uint32, length int, match, otherwise uint32) Entry {
	for length <= restBits && uniform(otherwise) {
		if uniform(match) {
			return comparing(value, length, match, otherwise)
		}
		c := p.trie.cellOf(match)
		if stride(match) != 0 || c[compareOtherwise] != otherwise {
			break
		}
		more := int(c[compareLength])
		value, length, match = value<<more|c[compareValue], length+more, c[compareMatch]
	}
	return plainEntry(slotWalk)
}

// write stores an element at places side by side, as far as they are wanted.
func (p *painter) write(first, end uint64, e Entry) {
	first, end = max(first, p.from), min(end, p.to)
	for ; first < end; first++ {
		p.group.store(uint32(first-p.base), e, p.trie.space.cells.Now)
	}
}

// store changes an element, by stores each of which leaves it with the old answer or the new one for each address, also for a
// program that has read the check before. While there may be one, `match` stays after it ceased to count, and what counts instead
// of it before, `otherwise`, changes only to slotWalk.
func (g *secondLevel) store(at uint32, want Entry, now func() time.Duration) {
	e := &g.entries[at]
	switch {
	case *e == want:
	case g.private:
		*e = want
	case e.check == checkNever && want.check == checkNever:
		g.storeSlot(&e.otherwise, want.otherwise)
	case e.check == want.check:
		g.storeSlot(&e.match, want.match)
		if e.otherwise != want.otherwise && !g.rested(at, now()) {
			want.otherwise = slotWalk
		}
		g.storeSlot(&e.otherwise, want.otherwise)
	case e.check == checkNever && g.rested(at, now()):
		if e.otherwise != want.otherwise {
			g.storeSlot(&e.otherwise, slotWalk)
		}
		g.storeSlot(&e.match, want.match)
		g.storeCheck(at, want.check, now())
	case e.check == checkNever:
		g.storeSlot(&e.otherwise, slotWalk)
	default:
		if want.check != checkNever {
			want = plainEntry(slotWalk)
		}
		g.storeSlot(&e.otherwise, want.otherwise)
		g.storeCheck(at, checkNever, now())
	}
}

func (g *secondLevel) storeCheck(at uint32, check uint64, now time.Duration) {
	atomic.StoreUint64(&g.entries[at].check, check)
	if len(g.resting) == cap(g.resting) {
		g.forget(now)
	}
	g.until[at] = now + reclaim.RestTime
	g.resting = append(g.resting, storedCheck{at, now + reclaim.RestTime})
	g.stored()
}

// forget drops what has rested.
func (g *secondLevel) forget(now time.Duration) {
	done := 0
	for ; done < len(g.resting) && g.resting[done].until <= now; done++ {
		if r := g.resting[done]; g.until[r.element] == r.until {
			delete(g.until, r.element)
		}
	}
	g.resting = append(g.resting[:0], g.resting[done:]...)
}

func (g *secondLevel) storeSlot(slot *uint32, value uint32) {
	if *slot != value {
		atomic.StoreUint32(slot, value)
		g.stored()
	}
}

func (g *secondLevel) rested(at uint32, now time.Duration) bool { return g.until[at] <= now }

// lookup answers as programs do; slotWalk where the trie is to be asked.
func (g *levels) lookup(k trieKey) uint32 {
	top := g.second[k.top(firstLevelBits6)]
	if top == nil {
		return slotWalk
	}
	return answerOf(top.entries, k)
}

func answerOf(elements []Entry, k trieKey) uint32 {
	e := &elements[k.hi>>restBits%SecondLevelEntries]
	if uint32(k.hi&(1<<restBits-1)>>(e.check>>32&31)) == uint32(e.check) {
		return e.match
	}
	return e.otherwise
}
