// SPDX-License-Identifier: Apache-2.0

package control

// The ITR's locators: one row for each RLOC of the map-cache, with one state, its
// reason and its age (RFC 9301 s.7, RFC 9300 s.10). Who says that a locator answers
// or not is probing.go's; here is what becomes of it: hysteresis, so that a path
// that flaps does not move the traffic each time. Unanswered probes say that nobody
// answers, not that nothing forwards: such a locator is unconfirmed, and is used where a
// mapping has no better one. It never sends anything.

import (
	"iter"
	"math"
	"slices"
	"time"

	"loci/lisp"
)

const (
	// peerActive: RFC 9301 s.6.1 speaks of the last minute; use is reported late.
	peerActive = time.Minute + usageDelay
	// peerBatch bounds the locators that one turn looks at for active peers.
	peerBatch = 4096
)

// judgeRows bounds the locators that one judgement looks at.
const judgeRows = 4096

// heardFor is how long an unconfirmed locator counts as heard from.
const heardFor = 10 * time.Second

// Hysteresis. A locator falls at once when its probes stay unanswered: traffic
// may be lost. It comes back after upAnswers answers in a row, and when it fell
// again within flapMemory, not before a time that doubles with each fall. Until then it is
// unconfirmed: hysteresis takes no mapping its last locator.
const (
	upAnswers   = 3
	flapMemory  = 10 * time.Minute
	flapHold    = 10 * time.Second
	flapHoldMax = 5 * time.Minute
)

// locator is what the ITR knows about one RLOC.
type locator struct {
	rloc      lisp.RLOC
	prefix    lisp.Prefix    // one of the mappings with this RLOC, for probes to name
	entry     uint32         // where in the map-cache that one was last
	sites     [2]lisp.Prefix // of the mappings with this RLOC, the last used of IPv4 and of other EIDs
	mappings  int            // of the map-cache with this RLOC
	usedAt    instant        // when one of them last forwarded, or was installed
	state     LocatorState
	reason    LocatorReason
	changedAt instant
	told      LocatorState // by the data plane: LocatorUp where it was told nothing
	certain   bool         // it was told anything by this run

	proven    bool // it answered at least once
	downs     int  // falls within flapMemory of each other
	downAt    instant
	heldUntil instant       // not up before
	answers   int           // in a row, since it fell
	alone     int           // mappings in which no other locator may be used
	loweredBy []lisp.Prefix // mappings whose Locator-Status-Bits hold it down
	loweredAt instant       // when the last of them did
	sentAt    instant       // when packets were last sent that were for it, or for another one of its priority
	heardAt   instant       // when packets last came from it
	silence   instant       // heardAt when it was last probed for being silent since

	probes probeState
	trips  roundTrips
}

// locatorTable is the table, with the deadlines of the probes.
type locatorTable struct {
	h      *host
	rows   slab[locator]
	byRLOC map[lisp.RLOC]uint32
	timers deadlines
}

// newLocatorTable makes an empty table.
func newLocatorTable(h *host) locatorTable {
	return locatorTable{h: h, byRLOC: make(map[lisp.RLOC]uint32)}
}

// get returns the row of an RLOC.
func (t *locatorTable) get(r lisp.RLOC) (uint32, *locator, bool) {
	id, ok := t.byRLOC[r]
	if !ok {
		return 0, nil, false
	}
	return id, t.rows.at(id), true
}

// track notes another mapping with these locators. The ids of rows that are new are
// yielded, for their first probe. Our own RLOCs and those that nothing is sent to
// have no row.
func (t *locatorTable) track(m lisp.Mapping, first func(id uint32)) {
	alone := aloneIn(m)
	for _, l := range m.Locators {
		if !l.Usable() || slices.Contains(t.h.rlocs, l.RLOC) {
			continue
		}
		if _, row, known := t.get(l.RLOC); known {
			row.mappings++
			row.alone += alone
			row.prefix, row.usedAt = m.Prefix, t.h.now
			row.serves(m.Prefix)
			continue
		}
		if len(t.byRLOC) >= t.h.limits.Locators {
			t.h.count(RefusedLocatorTable)
			continue
		}
		id := t.rows.add(locator{
			rloc: l.RLOC, prefix: m.Prefix, mappings: 1, alone: alone, usedAt: t.h.now,
			state: LocatorUnknown, reason: LocatorNotProbed, changedAt: t.h.now, told: LocatorUp,
		})
		t.rows.at(id).serves(m.Prefix)
		t.byRLOC[l.RLOC] = id
		first(id)
	}
}

// serves notes that a mapping with this RLOC is in use.
func (l *locator) serves(p lisp.Prefix) { l.sites[siteIndex(p)] = p }

func siteIndex(p lisp.Prefix) int {
	if p.Kind() == lisp.EIDIPv4 {
		return 0
	}
	return 1
}

// siteAt is an EID-Prefix of the site behind an RLOC, of the Instance-ID and family of another one; zero for none.
func (t *locatorTable) siteAt(r lisp.RLOC, like lisp.Prefix) lisp.Prefix {
	_, l, known := t.get(r)
	if !known {
		return lisp.Prefix{}
	}
	if p := l.sites[siteIndex(like)]; p.Kind() == like.Kind() && p.Instance() == like.Instance() {
		return p
	}
	return lisp.Prefix{}
}

// untrack takes a mapping's locators out; the ids of rows that nobody needs any more are
// yielded to last before they go, those whose status bits went with it to raise; with
// keepBits they stay. A locator beyond the table's limit when it came, but within it now,
// may be counted out once too often: then it is only probed no more.
func (t *locatorTable) untrack(m lisp.Mapping, keepBits bool, raise, last func(id uint32)) {
	alone := aloneIn(m)
	for _, l := range m.Locators {
		id, row, known := t.get(l.RLOC)
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
		if row.told != LocatorUp {
			t.forget(row.rloc)
		}
		t.timers.remove(id)
		delete(t.byRLOC, l.RLOC)
		t.rows.release(id)
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

// used notes that a mapping with these locators forwarded something.
func (t *locatorTable) used(m lisp.Mapping, at instant) {
	best := notUsed
	for _, l := range m.Locators {
		best = min(best, t.preference(l))
	}
	for _, l := range m.Locators {
		if _, row, known := t.get(l.RLOC); known {
			row.usedAt, row.prefix = max(row.usedAt, at), m.Prefix
			row.serves(m.Prefix)
			if best != notUsed && t.preference(l) == best {
				row.sentAt = max(row.sentAt, at)
			}
		}
	}
}

// notUsed is the preference of a locator that packets are not sent to.
const notUsed = math.MaxInt

// preference orders the locators of a set as the data plane does: by state, then by priority. The lowest are used.
func (t *locatorTable) preference(l lisp.Locator) int {
	_, row, known := t.get(l.RLOC)
	if !known || !l.Usable() {
		return notUsed
	}
	switch t.forPlane(row) {
	case LocatorUp:
		return int(l.Priority)
	case LocatorHeard:
		return lisp.PriorityUnused + int(l.Priority)
	case LocatorUnconfirmed:
		return 2*lisp.PriorityUnused + int(l.Priority)
	}
	return notUsed
}

// active yields the locators from a row on that were of use lately, of a batch of rows.
func (t *locatorTable) active(cursor uint32, yield func(*locator)) (next uint32, more bool) {
	rows := uint32(t.rows.len())
	next = min(cursor+peerBatch, rows)
	for ; cursor < next; cursor++ {
		if l := t.rows.at(cursor); l.mappings > 0 && t.h.now-l.usedAt <= instant(peerActive) {
			yield(l)
		}
	}
	return next, next < rows
}

// set puts a locator into a state, and tells the data plane and the operator when
// that means something else for packets.
func (t *locatorTable) set(l *locator, state LocatorState, reason LocatorReason) {
	if l.state == state && l.reason == reason {
		return
	}
	was := l.state
	l.reason = reason
	if was != state {
		l.state, l.changedAt = state, t.h.now
		t.noteChange(l, was)
	}
	t.tell(l)
}

func (t *locatorTable) noteChange(l *locator, was LocatorState) {
	kind := NoticeLocatorDown
	switch {
	case l.state == LocatorDown:
		t.h.count(LocatorWentDown)
	case l.state == LocatorUnconfirmed:
		kind = NoticeLocatorUnconfirmed
		t.h.count(LocatorWentUnconfirmed)
	case was == LocatorDown || was == LocatorUnconfirmed:
		kind = NoticeLocatorUp
		t.h.count(LocatorCameUp)
	default:
		return // unknown and up are the same to packets
	}
	t.h.notice(Notice{Kind: kind, Prefix: l.prefix, Detail: l.rloc.String() + ": " + string(l.reason)})
}

// tell keeps the data plane's view in step. It takes every RLOC for up that it was not
// told about; but an earlier run may have told it, so the first verdict is always said.
func (t *locatorTable) tell(l *locator) {
	state := t.forPlane(l)
	if l.told == state && (l.certain || l.reason == LocatorAwaitsReply) {
		return
	}
	l.told, l.certain = state, true
	t.h.emit(SetLocatorState{RLOC: l.rloc, State: state})
}

// forPlane is a locator's state as the data plane is told it.
func (t *locatorTable) forPlane(l *locator) LocatorState {
	switch {
	case l.state == LocatorDown:
		return LocatorDown
	case l.state != LocatorUnconfirmed:
		return LocatorUp
	case l.answers > 0 || t.heardWithin(l, heardFor):
		return LocatorHeard
	}
	return LocatorUnconfirmed
}

// heardWithin reports whether data packets came from a locator so lately.
func (t *locatorTable) heardWithin(l *locator, d time.Duration) bool {
	return l.heardAt > 0 && t.h.now-l.heardAt < instant(d)
}

// isFallen reports whether a locator is unconfirmed or down.
func (l *locator) isFallen() bool { return l.state == LocatorUnconfirmed || l.state == LocatorDown }

// fall makes a locator unconfirmed or down.
func (t *locatorTable) fall(l *locator, to LocatorState, reason LocatorReason) {
	l.answers = 0
	if !l.isFallen() {
		if l.downAt != 0 && t.h.now-l.downAt < instant(flapMemory) {
			l.downs++
		} else {
			l.downs = 0
		}
		l.downAt, l.heldUntil = t.h.now, t.h.now
		if l.downs > 0 {
			l.heldUntil += instant(min(flapHold<<min(l.downs-1, 16), flapHoldMax))
		}
	}
	t.set(l, to, reason)
}

// answered notes an answer; a locator that fell comes back by several of them, by one
// when only a hint took it out of use, and by none when its site says that it is down.
func (t *locatorTable) answered(l *locator) {
	l.proven = true
	if !l.isFallen() {
		t.set(l, LocatorUp, LocatorAnswered)
		return
	}
	l.answers++
	switch {
	case len(l.loweredBy) > 0:
	case l.answers < upAnswers && !l.hinted(), t.h.now < l.heldUntil:
		t.set(l, LocatorUnconfirmed, LocatorReturning)
	default:
		t.set(l, LocatorUp, LocatorAnswered)
	}
}

// reset forgets what was known: nobody probes any more.
func (t *locatorTable) reset(l *locator) {
	l.proven, l.answers, l.downs, l.downAt = false, 0, 0, 0
	t.set(l, LocatorUnknown, LocatorNotProbed)
}

// adopt takes over from the data plane which locators were down or unconfirmed before a
// restart. They stay so until they answer; those that no mapping has any more are forgotten.
func (t *locatorTable) adopt(kept []SetLocatorState) {
	for _, k := range kept {
		_, l, known := t.get(k.RLOC)
		if !known {
			t.forget(k.RLOC)
			continue
		}
		l.told = k.State
		if l.state != LocatorUnknown || l.reason == LocatorNotProbed || k.State == LocatorUp {
			t.tell(l)
			continue
		}
		l.state, l.reason, l.changedAt, l.downAt = LocatorUnconfirmed, LocatorAdopted, t.h.now, t.h.now
		if k.State == LocatorDown {
			l.state = LocatorDown
		}
	}
}

// forget makes the data plane use an RLOC again that nothing is known about.
func (t *locatorTable) forget(r lisp.RLOC) {
	t.h.emit(SetLocatorState{RLOC: r, State: LocatorUp})
}

// status yields the locators in the order of RLOCs.
func (t *locatorTable) status() iter.Seq[LocatorStatus] {
	return func(yield func(LocatorStatus) bool) {
		ids := make([]uint32, 0, len(t.byRLOC))
		for _, id := range t.byRLOC {
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b uint32) int { return t.rows.at(a).rloc.Compare(t.rows.at(b).rloc) })
		for _, id := range ids {
			if !yield(t.rowStatus(id)) {
				return
			}
		}
	}
}

// page is a part of what status yields, in no order.
func (t *locatorTable) page(from uint32, most int) (page []LocatorStatus, next uint32, more bool) {
	rows := uint32(t.rows.len())
	for next = from; next < rows && len(page) < most && next-from < reviewRows; next++ {
		if !t.rows.at(next).rloc.IsZero() {
			page = append(page, t.rowStatus(next))
		}
	}
	return page, next, next < rows
}

// rowStatus tells how things stand with a locator.
func (t *locatorTable) rowStatus(id uint32) LocatorStatus {
	l := t.rows.at(id)
	s := LocatorStatus{
		RLOC: l.rloc, State: l.state, Told: l.told, Reason: l.reason, ChangedAt: t.h.time(l.changedAt), Mappings: l.mappings, Prefix: l.prefix,
		ProbesSent: l.probes.sent, ProbesAnswered: l.probes.answered, RoundTrip: l.trips.status(),
	}
	if l.heardAt > 0 {
		s.LastHeardAt, s.Silent = t.h.time(l.heardAt), l.silence == l.heardAt
	}
	if l.isFallen() && l.heldUntil > t.h.now {
		s.HeldUntil = t.h.time(l.heldUntil)
	}
	if l.probes.sentAt != 0 {
		s.LastProbeAt = t.h.time(l.probes.sentAt)
	}
	if l.probes.answeredAt != 0 {
		s.LastReplyAt = t.h.time(l.probes.answeredAt)
	}
	if next := t.timers.of(id); next != never {
		s.NextProbeAt = t.h.time(next)
	}
	return s
}

// liveness returns an RLOC that answers its probes, nil for none, whether one that did is being
// asked again, and whether one that did is unconfirmed or down.
func (t *locatorTable) liveness() (up *locator, doubtful, down bool) {
	for id := range min(t.rows.len(), judgeRows) {
		l := t.rows.at(uint32(id))
		switch {
		case l.mappings == 0:
		case l.state == LocatorUp && l.probes.unanswered == 0:
			return l, doubtful, down
		case l.state == LocatorUp:
			doubtful = true
		case l.isFallen() && l.proven:
			down = true
		}
	}
	return nil, doubtful, down
}
