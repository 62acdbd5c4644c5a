// SPDX-License-Identifier: Apache-2.0

package lost

// The memory of EID-Prefixes with locators, and the schedule of what was lost. Both are tables with a limit.

import (
	"iter"
	"time"

	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// Limit bounds the EID-Prefixes that are remembered; the oldest is forgotten for another one.
	Limit = 4096
	// newLimit bounds those asked for that never had locators: half of the places are for what was lost.
	newLimit = Limit / 2
	// Remembered is for how long an EID-Prefix is after it had locators.
	Remembered = time.Hour
	// AskedFor is for how long a lost one is asked for in short intervals: after that, as its TTL says.
	AskedFor = 10 * time.Minute
	// ReturnLasts is for how long after the return of the mapping system sites may not have registered again (RFC
	// 9301 s.8.2), and how long what was not registered then is asked for in short intervals.
	ReturnLasts = time.Minute
	// firstWait is the first interval, which doubles.
	firstWait = time.Second
	// LongestWait bounds it.
	LongestWait = 8 * time.Second
	// latest is how late a Map-Request may be for the sake of the rate: all have their turn.
	latest = time.Minute
)

// Requests bounds the Map-Requests for all that was lost.
func Requests() timing.Rate { return timing.Rate{PerSecond: 100, Burst: 100} }

// had is an EID-Prefix that had locators.
type had struct {
	prefix lisp.Prefix
	until  timing.Instant // when it had them last
	lostAt timing.Instant // when something of it was first not registered since then, 0 for not yet
}

// Prefix is the EID-Prefix of a negative entry that is within one that had locators, or of one that came soon after
// the return of the mapping system.
type Prefix struct {
	Prefix   lisp.Prefix
	told     bool
	isNew    bool // nothing is lost: it had no locators, as far as is known, and is asked for because of the return
	begunAt  timing.Instant
	wait     time.Duration // before the next Map-Request
	askedAt  timing.Instant
	reserved bool // the rate admits it when its timer ends
}

// Table is the memory and the schedule. The zero value is empty.
type Table struct {
	hads  table.Slab[had]
	known table.Prefixes[uint32]
	ages  timing.Deadlines // until, of hads: the earliest is the oldest

	lost   table.Slab[Prefix]
	index  table.Prefixes[uint32]
	Timers timing.Deadlines // when the next Map-Request for a lost one is due
	rate   timing.Bucket

	returnedAt timing.Instant // when the mapping system came back last, 0 for never
}

// Returned notes that the mapping system is back after a silence.
func (t *Table) Returned(now timing.Instant) { t.returnedAt = now }

// isReturning reports whether sites may not have registered again since the mapping system is back.
func (t *Table) isReturning(now timing.Instant) bool {
	return t.returnedAt != 0 && now-t.returnedAt < timing.Instant(ReturnLasts)
}

// Had notes that an EID-Prefix has no locators any more, and had them until now.
func (t *Table) Had(p lisp.Prefix, now timing.Instant) {
	id, ok := t.known.Get(p)
	if !ok {
		if t.known.Size >= Limit {
			t.forget(t.oldest())
		}
		id = t.hads.Add(had{prefix: p})
		t.known.Insert(p, id)
	}
	t.hads.At(id).until, t.hads.At(id).lostAt = now, 0
	t.ages.Set(id, now)
}

func (t *Table) oldest() uint32 {
	id, _ := t.ages.Due(timing.Never)
	return id
}

func (t *Table) forget(id uint32) {
	t.ages.Remove(id)
	t.End(t.hads.At(id).prefix)
	t.known.Remove(t.hads.At(id).prefix)
	t.hads.Release(id)
}

// Within is the EID-Prefix with locators lately that covers another one; zero for none.
func (t *Table) Within(p lisp.Prefix, now timing.Instant) lisp.Prefix {
	if h := t.covering(p, now); h != nil {
		return h.prefix
	}
	return lisp.Prefix{}
}

// Inside yields the remembered EID-Prefixes that are more specific than one, insideMost at most.
func (t *Table) Inside(p lisp.Prefix, now timing.Instant) iter.Seq[lisp.Prefix] {
	return func(yield func(lisp.Prefix) bool) {
		t.forgetOld(now)
		seen := 0
		for more := range t.known.Subtree(p) {
			if seen++; seen > insideMost {
				return
			}
			if more != p && !yield(more) {
				return
			}
		}
	}
}

func (t *Table) forgetOld(now timing.Instant) {
	for t.ages.Next() <= now-timing.Instant(Remembered) {
		t.forget(t.oldest())
	}
}

func (t *Table) covering(p lisp.Prefix, now timing.Instant) *had {
	t.forgetOld(now)
	if _, id, ok := t.known.Longest(p); ok {
		return t.hads.At(id)
	}
	return nil
}

// Begin notes that an EID-Prefix is not registered, and reports whether it had locators lately. What is known to be lost goes on.
func (t *Table) Begin(p lisp.Prefix, now timing.Instant) bool {
	h := t.covering(p, now)
	id, known := t.index.Get(p)
	if h == nil {
		if isNew := known && t.lost.At(id).isNew && now < t.ends(id); !isNew {
			t.End(p)
			t.add(Prefix{Prefix: p, isNew: true}, now, t.isReturning(now))
		}
		return false
	}
	if h.lostAt == 0 {
		h.lostAt = now
	}
	if known {
		t.lost.At(id).isNew = false
		return true
	}
	return t.add(Prefix{Prefix: p}, now, true)
}

// add begins to ask for an EID-Prefix, if it is to be and there is room.
func (t *Table) add(row Prefix, now timing.Instant, wanted bool) bool {
	if !wanted || t.index.Size >= Limit || row.isNew && t.index.Size >= newLimit {
		return false
	}
	row.begunAt, row.askedAt, row.wait = now, now, firstWait
	id := t.lost.Add(row)
	t.index.Insert(row.Prefix, id)
	t.Timers.Set(id, now+timing.Instant(firstWait))
	return true
}

// insideMost bounds the remembered EID-Prefixes that one mapping is looked at for.
const insideMost = 256

// Found notes that an EID-Prefix has locators: it is not lost, and what is lost of it later is lost since then.
func (t *Table) Found(p lisp.Prefix) {
	t.End(p)
	if _, id, ok := t.known.Longest(p); ok {
		t.hads.At(id).lostAt = 0
	}
	seen := 0
	for _, id := range t.known.Subtree(p) {
		if seen++; seen > insideMost {
			return
		}
		t.hads.At(id).lostAt = 0
	}
}

// End forgets that an EID-Prefix is not registered.
func (t *Table) End(p lisp.Prefix) {
	id, known := t.index.Get(p)
	if !known {
		return
	}
	t.Timers.Remove(id)
	t.index.Remove(p)
	t.lost.Release(id)
}

// At is a row of the schedule.
func (t *Table) At(id uint32) *Prefix { return t.lost.At(id) }

// Tell reports whether that EID-Prefix is lost and was not told so before.
func (t *Table) Tell(p lisp.Prefix) bool {
	id, known := t.index.Get(p)
	if !known || t.lost.At(id).told || t.lost.At(id).isNew {
		return false
	}
	t.lost.At(id).told = true
	return true
}

// Has reports whether that EID-Prefix is lost.
func (t *Table) Has(p lisp.Prefix) bool {
	id, known := t.index.Get(p)
	return known && !t.lost.At(id).isNew
}

// Used has an EID-Prefix asked for whose Map-Requests paused while it was not in use.
func (t *Table) Used(p lisp.Prefix, now timing.Instant) {
	id, known := t.index.Get(p)
	if !known || now >= t.ends(id) || t.Timers.Has(id) && t.Timers.Of(id) != t.ends(id) {
		return
	}
	row := t.lost.At(id)
	t.Timers.Set(id, max(now, row.askedAt+timing.Instant(row.wait)))
}

// Unused has an EID-Prefix wait until it is used, whose timer has ended. One that never had locators goes in time: it
// takes the place of another.
func (t *Table) Unused(id uint32, now timing.Instant) {
	row := t.lost.At(id)
	switch {
	case !row.isNew:
	case now >= t.ends(id):
		t.End(row.Prefix)
	default:
		t.Timers.Set(id, t.ends(id))
	}
}

func (t *Table) ends(id uint32) timing.Instant {
	if t.lost.At(id).isNew {
		return t.lost.At(id).begunAt + timing.Instant(ReturnLasts)
	}
	return t.lost.At(id).begunAt + timing.Instant(AskedFor)
}

// Take reports whether an EID-Prefix, which is in use and whose timer has ended, is asked for now, and sets the timer
// of the next time.
func (t *Table) Take(id uint32, now timing.Instant) bool {
	row := t.lost.At(id)
	if now >= t.ends(id) {
		t.Unused(id, now)
		return false
	}
	if !row.reserved {
		at, ok := t.rate.Reserve(now, Requests(), now+timing.Instant(latest))
		if !ok {
			t.Timers.Set(id, now+timing.Instant(LongestWait))
			return false
		}
		if at > now {
			row.reserved = true
			t.Timers.Set(id, at)
			return false
		}
	}
	row.reserved, row.askedAt = false, now
	row.wait = min(2*row.wait, LongestWait)
	t.Timers.Set(id, now+timing.Instant(row.wait))
	return true
}

// NextOf is when an EID-Prefix is asked for next; timing.Never where it is not.
func (t *Table) NextOf(p lisp.Prefix) timing.Instant {
	if id, known := t.index.Get(p); known {
		return t.Timers.Of(id)
	}
	return timing.Never
}

// Since is when an EID-Prefix with locators lately was first called not registered, and when it had locators last.
func (t *Table) Since(p lisp.Prefix, now timing.Instant) (lostAt, hadUntil timing.Instant, ok bool) {
	h := t.covering(p, now)
	if h == nil || h.lostAt == 0 {
		return 0, 0, false
	}
	return h.lostAt, h.until, true
}

// All yields what is lost, in the order of EID-Prefixes, with when each is asked for next: timing.Never while it is not.
func (t *Table) All() iter.Seq2[lisp.Prefix, timing.Instant] {
	return func(yield func(lisp.Prefix, timing.Instant) bool) {
		for p, id := range t.index.All() {
			if !yield(p, t.Timers.Of(id)) {
				return
			}
		}
	}
}
