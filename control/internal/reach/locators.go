// SPDX-License-Identifier: Apache-2.0

package reach

// The ITR's locators: one row for each RLOC of the map-cache, with one state, its
// reason and its age (RFC 9301 s.7, RFC 9300 s.10). Who says that a locator answers
// or not is prober.go's; here is what becomes of it: hysteresis, so that a path
// that flaps does not move the traffic each time. Unanswered probes say that the control plane does not
// answers, not that nothing forwards: such a locator is unconfirmed, and is used where a
// mapping has no better one. It never sends anything.

import (
	"iter"
	"math"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// peerActive: RFC 9301 s.6.1 speaks of the last minute; use is reported late.
	peerActive = time.Minute + settings.UsageDelay
	// peerBatch bounds the locators looked at for active peers in one event-loop iteration.
	peerBatch = 4096
)

// PageRows bounds the rows that are looked at for one page of a list.
const PageRows = 2048

// judgeRows bounds the locators that one judgement looks at.
const judgeRows = 4096

// HeardFor is how long an unconfirmed locator counts as heard from.
const HeardFor = 10 * time.Second

// Hysteresis. A locator falls at once when its probes stay unanswered: traffic
// may be lost. It comes back after upAnswers answers in a row, and when it fell
// again within flapMemory, not before a time that doubles with each fall. Until then it is
// unconfirmed: hysteresis takes no mapping its last locator.
const (
	upAnswers   = 3
	flapMemory  = 10 * time.Minute
	FlapHold    = 10 * time.Second
	flapHoldMax = 5 * time.Minute
)

// Table is the table, with the deadlines of the probes.
type Table struct {
	h      *system.System
	Rows   table.Slab[Locator]
	ByRLOC map[lisp.RLOC]uint32
	Timers timing.Deadlines
}

// NewTable makes an empty table.
func NewTable(h *system.System) Table {
	return Table{h: h, ByRLOC: make(map[lisp.RLOC]uint32)}
}

// Get returns the row of an RLOC.
func (t *Table) Get(r lisp.RLOC) (uint32, *Locator, bool) {
	id, ok := t.ByRLOC[r]
	if !ok {
		return 0, nil, false
	}
	return id, t.Rows.At(id), true
}

// Track notes another mapping with these locators. The ids of rows that are new are
// yielded, for their first probe. Our own RLOCs and those that nothing is sent to
// have no row.
func (t *Table) Track(m lisp.Mapping, first func(id uint32)) {
	alone := aloneIn(m)
	for _, l := range m.Locators {
		if !l.Usable() || slices.Contains(t.h.RLOCs, l.RLOC) {
			continue
		}
		if _, row, known := t.Get(l.RLOC); known {
			row.mappings++
			row.alone += alone
			row.Prefix, row.usedAt = m.Prefix, t.h.Now
			row.serves(m.Prefix)
			continue
		}
		if len(t.ByRLOC) >= t.h.Limits.Locators {
			t.h.Count(counter.RefusedLocatorTable)
			continue
		}
		id := t.Rows.Add(Locator{
			RLOC: l.RLOC, Prefix: m.Prefix, mappings: 1, alone: alone, usedAt: t.h.Now,
			State: effect.LocatorUnknown, reason: effect.LocatorNotProbed, changedAt: t.h.Now, Told: effect.LocatorUp,
		})
		t.Rows.At(id).serves(m.Prefix)
		t.ByRLOC[l.RLOC] = id
		first(id)
	}
}

// SiteAt is an EID-Prefix of the site behind an RLOC, of the Instance-ID and family of another one; zero for none.
func (t *Table) SiteAt(r lisp.RLOC, like lisp.Prefix) lisp.Prefix {
	_, l, known := t.Get(r)
	if !known {
		return lisp.Prefix{}
	}
	if p := l.sites[siteIndex(like)]; p.Kind() == like.Kind() && p.Instance() == like.Instance() {
		return p
	}
	return lisp.Prefix{}
}

// untrack takes a mapping's locators out; the ids of rows that no mapping needs any more are
// yielded to last before they go, those whose status bits went with it to raise; with
// keepBits they stay. A locator beyond the table's limit when it came, but within it now,
// may be counted out once too often: then it is only probed no more.
func (t *Table) untrack(m lisp.Mapping, keepBits bool, raise, last func(id uint32)) {
	alone := aloneIn(m)
	for _, l := range m.Locators {
		id, row, known := t.Get(l.RLOC)
		if !known {
			continue
		}
		if at := slices.Index(row.loweredBy, m.Prefix); at >= 0 && !keepBits { // those bits were of another locator-set
			row.loweredBy = slices.Delete(row.loweredBy, at, at+1)
			raise(id)
		}
		if !l.Usable() {
			continue
		}
		row.alone = max(row.alone-alone, 0)
		if row.mappings--; row.mappings > 0 {
			continue
		}
		last(id)
		if row.Told != effect.LocatorUp {
			t.forget(row.RLOC)
		}
		t.Timers.Remove(id)
		delete(t.ByRLOC, l.RLOC)
		t.Rows.Release(id)
	}
}

// aloneIn is 1 for a mapping with one locator that may be used, 0 for others.
func aloneIn(m lisp.Mapping) int {
	usable := 0
	for _, l := range m.Locators {
		if l.Usable() {
			usable++
		}
	}
	if usable == 1 {
		return 1
	}
	return 0
}

// Used notes that a mapping with these locators forwarded something.
func (t *Table) Used(m lisp.Mapping, at timing.Instant) {
	best := notUsed
	for _, l := range m.Locators {
		best = min(best, t.preference(l))
	}
	for _, l := range m.Locators {
		if _, row, known := t.Get(l.RLOC); known {
			row.usedAt, row.Prefix = max(row.usedAt, at), m.Prefix
			row.serves(m.Prefix)
			if best != notUsed && t.preference(l) == best {
				row.SentAt = max(row.SentAt, at)
			}
		}
	}
}

// notUsed is the preference of a locator that packets are not sent to.
const notUsed = math.MaxInt

// preference orders the locators of a set as the data plane does: by state, then by priority. The lowest are used.
func (t *Table) preference(l lisp.Locator) int {
	_, row, known := t.Get(l.RLOC)
	if !known || !l.Usable() {
		return notUsed
	}
	switch t.forPlane(row) {
	case effect.LocatorUp:
		return int(l.Priority)
	case effect.LocatorHeard:
		return lisp.PriorityUnused + int(l.Priority)
	case effect.LocatorUnconfirmed:
		return 2*lisp.PriorityUnused + int(l.Priority)
	}
	return notUsed
}

// active yields the locators from a row on that were of use lately, of a batch of rows.
func (t *Table) active(cursor uint32, yield func(*Locator)) (next uint32, more bool) {
	rows := uint32(t.Rows.Len())
	next = min(cursor+peerBatch, rows)
	for ; cursor < next; cursor++ {
		if l := t.Rows.At(cursor); l.mappings > 0 && t.h.Now-l.usedAt <= timing.Instant(peerActive) {
			yield(l)
		}
	}
	return next, next < rows
}

// Set puts a locator into a state, and tells the data plane and the operator when
// that means something else for packets.
func (t *Table) Set(l *Locator, state effect.LocatorState, reason effect.LocatorReason) {
	if l.State == state && l.reason == reason {
		return
	}
	was := l.State
	l.reason = reason
	if was != state {
		l.State, l.changedAt = state, t.h.Now
		t.noteChange(l, was)
	}
	t.tell(l)
}

func (t *Table) noteChange(l *Locator, was effect.LocatorState) {
	kind := effect.NoticeLocatorDown
	switch {
	case l.State == effect.LocatorDown:
		t.h.Count(counter.LocatorWentDown)
	case l.State == effect.LocatorUnconfirmed:
		kind = effect.NoticeLocatorUnconfirmed
		t.h.Count(counter.LocatorWentUnconfirmed)
	case was == effect.LocatorDown || was == effect.LocatorUnconfirmed:
		kind = effect.NoticeLocatorUp
		t.h.Count(counter.LocatorCameUp)
	default:
		return // unknown and up are the same to packets
	}
	t.h.Notice(effect.Notice{Kind: kind, Prefix: l.Prefix, Detail: l.RLOC.String() + ": " + string(l.reason)})
}

// tell keeps the data plane's view in step. It takes every RLOC for up that it was not
// told about; but an earlier run may have told it, so the first verdict is always said.
func (t *Table) tell(l *Locator) {
	state := t.forPlane(l)
	if l.Told == state && (l.certain || l.reason == effect.LocatorAwaitsReply) {
		return
	}
	l.Told, l.certain = state, true
	t.h.Emit(effect.SetLocatorState{RLOC: l.RLOC, State: state})
}

// forPlane is a locator's state as the data plane is told it.
func (t *Table) forPlane(l *Locator) effect.LocatorState {
	switch {
	case l.State == effect.LocatorDown:
		return effect.LocatorDown
	case l.State != effect.LocatorUnconfirmed:
		return effect.LocatorUp
	case l.answers > 0 || t.heardWithin(l, HeardFor):
		return effect.LocatorHeard
	}
	return effect.LocatorUnconfirmed
}

// heardWithin reports whether data packets came from a locator so lately.
func (t *Table) heardWithin(l *Locator, d time.Duration) bool {
	return l.heardAt > 0 && t.h.Now-l.heardAt < timing.Instant(d)
}

// Fall makes a locator unconfirmed or down.
func (t *Table) Fall(l *Locator, to effect.LocatorState, reason effect.LocatorReason) {
	l.answers = 0
	if !l.isFallen() {
		if l.downAt != 0 && t.h.Now-l.downAt < timing.Instant(flapMemory) {
			l.downs++
		} else {
			l.downs = 0
		}
		l.downAt, l.heldUntil = t.h.Now, t.h.Now
		if l.downs > 0 {
			l.heldUntil += timing.Instant(min(FlapHold<<min(l.downs-1, 16), flapHoldMax))
		}
	}
	t.Set(l, to, reason)
}

// answered notes an answer; a locator that fell comes back by several of them, by one
// when only a hint took it out of use, and by none when its site says that it is down.
func (t *Table) answered(l *Locator) {
	l.proven = true
	if !l.isFallen() {
		t.Set(l, effect.LocatorUp, effect.LocatorAnswered)
		return
	}
	l.answers++
	switch {
	case len(l.loweredBy) > 0:
	case l.answers < upAnswers && !l.hinted(), t.h.Now < l.heldUntil:
		t.Set(l, effect.LocatorUnconfirmed, effect.LocatorReturning)
	default:
		t.Set(l, effect.LocatorUp, effect.LocatorAnswered)
	}
}

// reset forgets what was known: the locator is probed no more.
func (t *Table) reset(l *Locator) {
	l.proven, l.answers, l.downs, l.downAt = false, 0, 0, 0
	t.Set(l, effect.LocatorUnknown, effect.LocatorNotProbed)
}

// Adopt takes over from the data plane which locators were down or unconfirmed before a
// restart. They stay so until they answer; those that no mapping has any more are forgotten.
func (t *Table) Adopt(kept []effect.SetLocatorState) {
	for _, k := range kept {
		_, l, known := t.Get(k.RLOC)
		if !known {
			t.forget(k.RLOC)
			continue
		}
		l.Told = k.State
		if l.State != effect.LocatorUnknown || l.reason == effect.LocatorNotProbed || k.State == effect.LocatorUp {
			t.tell(l)
			continue
		}
		l.State, l.reason, l.changedAt, l.downAt = effect.LocatorUnconfirmed, effect.LocatorAdopted, t.h.Now, t.h.Now
		if k.State == effect.LocatorDown {
			l.State = effect.LocatorDown
		}
	}
}

// forget makes the data plane use an RLOC again that nothing is known about.
func (t *Table) forget(r lisp.RLOC) {
	t.h.Emit(effect.SetLocatorState{RLOC: r, State: effect.LocatorUp})
}

// Status yields the locators in the order of RLOCs.
func (t *Table) Status() iter.Seq[status.LocatorStatus] {
	return func(yield func(status.LocatorStatus) bool) {
		ids := make([]uint32, 0, len(t.ByRLOC))
		for _, id := range t.ByRLOC {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b uint32) int { return t.Rows.At(a).RLOC.Compare(t.Rows.At(b).RLOC) })
		for _, id := range ids {
			if !yield(t.RowStatus(id)) {
				return
			}
		}
	}
}

// Page is a part of what status yields, in no order.
func (t *Table) Page(from uint32, most int) (page []status.LocatorStatus, next uint32, more bool) {
	rows := uint32(t.Rows.Len())
	for next = from; next < rows && len(page) < most && next-from < PageRows; next++ {
		if !t.Rows.At(next).RLOC.IsZero() {
			page = append(page, t.RowStatus(next))
		}
	}
	return page, next, next < rows
}

// RowStatus tells how things stand with a locator.
func (t *Table) RowStatus(id uint32) status.LocatorStatus {
	l := t.Rows.At(id)
	s := status.LocatorStatus{
		RLOC: l.RLOC, State: l.State, Told: l.Told, Reason: l.reason, ChangedAt: t.h.Time(l.changedAt), Mappings: l.mappings, Prefix: l.Prefix,
		ProbesSent: l.Probes.sent, ProbesAnswered: l.Probes.answered, RoundTrip: l.trips.Status(),
	}
	if l.heardAt > 0 {
		s.LastHeardAt, s.Silent = t.h.Time(l.heardAt), l.silence == l.heardAt
	}
	if l.isFallen() && l.heldUntil > t.h.Now {
		s.HeldUntil = t.h.Time(l.heldUntil)
	}
	if l.Probes.sentAt != 0 {
		s.LastProbeAt = t.h.Time(l.Probes.sentAt)
	}
	if l.Probes.answeredAt != 0 {
		s.LastReplyAt = t.h.Time(l.Probes.answeredAt)
	}
	if next := t.Timers.Of(id); next != timing.Never {
		s.NextProbeAt = t.h.Time(next)
	}
	return s
}

// Liveness returns an RLOC that answers its probes, nil for none, whether one that did is being
// asked again, and whether one that did is unconfirmed or down.
func (t *Table) Liveness() (up *Locator, doubtful, down bool) {
	for id := range min(t.Rows.Len(), judgeRows) {
		l := t.Rows.At(uint32(id))
		switch {
		case l.mappings == 0:
		case l.State == effect.LocatorUp && l.Probes.unanswered == 0:
			return l, doubtful, down
		case l.State == effect.LocatorUp:
			doubtful = true
		case l.isFallen() && l.proven:
			down = true
		}
	}
	return nil, doubtful, down
}

// lowered is the EID-Prefixes whose status bits hold a locator down.
func (t *Table) lowered(l *Locator, known bool) []lisp.Prefix {
	if !known {
		return nil
	}
	return l.loweredBy
}
