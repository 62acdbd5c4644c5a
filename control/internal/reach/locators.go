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
	"maps"
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
	Paths  Paths

	proxies proxyETRs

	begin func(id uint32) // is called for a row that is new, for its first probe
	end   func(id uint32) // and for one that is about to go

	Changed func() // is called when the data plane is told another state
}

// NewTable makes an empty table.
func NewTable(h *system.System) Table {
	nothing := func(uint32) {}
	return Table{h: h, ByRLOC: make(map[lisp.RLOC]uint32), begin: nothing, end: nothing, Changed: func() {}}
}

// Get returns the row of an RLOC.
func (t *Table) Get(r lisp.RLOC) (uint32, *Locator, bool) {
	id, ok := t.ByRLOC[r]
	if !ok {
		return 0, nil, false
	}
	return id, t.Rows.At(id), true
}

// Track notes another mapping with these locators. Those that nothing is sent to have no row; our own RLOCs have one, for they may
// be another's tomorrow, and get no RLOC-probes.
func (t *Table) Track(m lisp.Mapping) {
	alone := aloneIn(m)
	for i := range m.Locators {
		l := &m.Locators[i]
		switch {
		case !isWatched(l):
		case l.Behind != "":
			t.Paths.track(&m, l, alone)
		default:
			t.trackRLOC(&m, l.RLOC, alone)
		}
	}
}

func (t *Table) trackRLOC(m *lisp.Mapping, r lisp.RLOC, alone int) {
	id, known := t.ByRLOC[r]
	if !known && t.isFull() {
		t.h.Count(counter.RefusedLocatorTable)
		return
	}
	if !known {
		id = t.add(r, m.Prefix)
	}
	row := t.Rows.At(id)
	row.mappings++
	row.alone += alone
	row.Prefix, row.usedAt = m.Prefix, t.h.Now
	row.serves(m.Prefix)
	switch {
	case !known:
		t.begin(id)
	case row.mappings == 1: // it was a hop of paths alone, or a peer
		t.tell(row)
	}
}

// IsOwn reports whether an RLOC is ours, whatever its port.
func (t *Table) IsOwn(r lisp.RLOC) bool {
	return slices.ContainsFunc(t.h.RLOCs, func(own lisp.RLOC) bool { return own.Addr() == r.Addr() })
}

// isFull reports whether there is room for no other RLOC or path.
func (t *Table) isFull() bool { return t.Size() >= t.h.Limits.Locators }

// Size is how many RLOCs and paths there are.
func (t *Table) Size() int { return len(t.ByRLOC) + len(t.Paths.ByPath) }

// add makes a row.
func (t *Table) add(r lisp.RLOC, prefix lisp.Prefix) uint32 {
	id := t.Rows.Add(Locator{
		RLOC: r, Prefix: prefix, usedAt: t.h.Now,
		State: effect.LocatorUnknown, reason: effect.LocatorNotProbed, changedAt: t.h.Now, Told: effect.LocatorUp,
	})
	t.ByRLOC[r] = id
	return id
}

// removeUnused removes a row that neither a mapping nor a path needs any more, and that is no peer's.
func (t *Table) removeUnused(id uint32) {
	row := t.Rows.At(id)
	if row.mappings <= 0 && row.Told != effect.LocatorUp {
		row.Told, row.certain = effect.LocatorUp, false
		t.forget(lisp.PathTo(row.RLOC))
	}
	if row.isNeeded() {
		row.forgetMappings()
		return
	}
	t.end(id)
	t.Timers.Remove(id)
	delete(t.ByRLOC, row.RLOC)
	t.Rows.Release(id)
}

// SiteAt is an EID-Prefix of the site behind an RLOC, of the Instance-ID and family of another one; zero for none.
func (t *Table) SiteAt(r lisp.RLOC, like lisp.Prefix) lisp.Prefix {
	isLike := func(p lisp.Prefix) bool { return p.Kind() == like.Kind() && p.Instance() == like.Instance() }
	if _, l, known := t.Get(r); known && isLike(l.sites[siteIndex(like)]) {
		return l.sites[siteIndex(like)]
	}
	for _, id := range t.Paths.ByHop[r] {
		if row := t.Paths.Rows.At(id); row.Path.Last() == r && isLike(row.sites[siteIndex(like)]) {
			return row.sites[siteIndex(like)]
		}
	}
	return lisp.Prefix{}
}

// untrack takes a mapping's locators out; the ids of rows whose status bits went with it are yielded to raise; with
// keepBits they stay. A locator beyond the table's limit when it came, but within it now,
// may be counted out once too often: then it is only probed no more.
func (t *Table) untrack(m lisp.Mapping, keepBits bool, raise func(id uint32)) {
	alone := aloneIn(m)
	for i := range m.Locators {
		l := &m.Locators[i]
		if l.Behind != "" {
			t.Paths.untrack(&m, l, alone, keepBits)
			continue
		}
		id, row, known := t.Get(l.RLOC)
		if !known {
			continue
		}
		if at := slices.Index(row.loweredBy, m.Prefix); at >= 0 && !keepBits { // those bits were of another locator-set
			row.loweredBy = slices.Delete(row.loweredBy, at, at+1)
			raise(id)
		}
		if isWatched(l) {
			row.alone = max(row.alone-alone, 0)
			row.mappings = max(row.mappings-1, 0)
			t.removeUnused(id)
		}
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
		best = min(best, t.preference(m.Prefix, l))
	}
	for _, l := range m.Locators {
		next := l.RLOC
		if id, is := t.Paths.ByPath[l.Path()]; is {
			next = t.Paths.Rows.At(id).usedFor(m.Prefix, at)
		}
		if _, row, known := t.Get(next); known {
			row.usedAt, row.Prefix = max(row.usedAt, at), m.Prefix
			if l.Behind == "" {
				row.serves(m.Prefix)
			}
			if best != notUsed && t.preference(m.Prefix, l) == best {
				row.SentAt = max(row.SentAt, at)
			}
		}
	}
}

// notUsed is the preference of a locator that packets are not sent to.
const notUsed = math.MaxInt

// preference orders the locators of a set as the data plane does: by state, then by priority. The lowest are used.
func (t *Table) preference(p lisp.Prefix, l lisp.Locator) int {
	state, known := t.stateFor(l.Path())
	if !known || !l.Usable() || t.isWithheld(p, l.RLOC) {
		return notUsed
	}
	switch state {
	case effect.LocatorUp:
		return int(l.Priority)
	case effect.LocatorHeard:
		return lisp.PriorityUnused + int(l.Priority)
	case effect.LocatorUnconfirmed:
		return 2*lisp.PriorityUnused + int(l.Priority)
	}
	return notUsed
}

// isWithheld reports whether an RLOC is a private one that does not answer about an EID-Prefix.
func (t *Table) isWithheld(p lisp.Prefix, r lisp.RLOC) bool {
	_, row, known := t.Get(r)
	if !known {
		return false
	}
	u := row.privateUse(p)
	return u != nil && !u.answers
}

// stateFor is the state of a locator as the data plane is told it.
func (t *Table) stateFor(p lisp.Path) (effect.LocatorState, bool) {
	if id, is := t.Paths.ByPath[p]; is {
		row := t.Paths.Rows.At(id)
		return t.Paths.forPlane(row), !row.choice.Reason.IsRule()
	}
	_, row, known := t.Get(p.RLOC)
	if !known || !p.IsPlain() {
		return "", false
	}
	return t.forPlane(row), true
}

// active yields the locators from a row on that were of use lately, of a batch of rows: an RLOC, or the last hop of a path, with one
// of its mappings. Behind the rows of RLOCs come those of paths.
func (t *Table) active(cursor uint32, yield func(lisp.RLOC, lisp.Prefix)) (next uint32, more bool) {
	for range peerBatch {
		switch {
		case cursor < uint32(t.Rows.Len()):
			if l := t.Rows.At(cursor); l.isNamed() && t.isActive(l.usedAt) {
				yield(l.RLOC, l.Prefix)
			}
			cursor++
		case cursor < pathPages:
			cursor = pathPages
		case cursor-pathPages < uint32(t.Paths.Rows.Len()):
			if row := t.Paths.Rows.At(cursor - pathPages); row.mappings > 0 && t.isActive(row.usedAt) {
				yield(row.Path.Last(), row.Prefix)
			}
			cursor++
		default:
			return cursor, false
		}
	}
	return cursor, true
}

func (t *Table) isActive(usedAt timing.Instant) bool {
	return t.h.Now-usedAt <= timing.Instant(peerActive)
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
		t.noteChange(was, state, effect.Notice{Prefix: l.Prefix, RLOC: l.RLOC.String(), Reason: string(reason), Detail: t.hopText(l)})
	}
	t.tell(l)
}

// noteChange counts a change of state and tells it, with what the notice says.
func (t *Table) noteChange(was, is effect.LocatorState, told effect.Notice) {
	told.Kind = effect.NoticeLocatorDown
	switch {
	case is == effect.LocatorDown:
		t.h.Count(counter.LocatorWentDown)
	case is == effect.LocatorUnconfirmed:
		told.Kind = effect.NoticeLocatorUnconfirmed
		t.h.Count(counter.LocatorWentUnconfirmed)
	case was == effect.LocatorDown || was == effect.LocatorUnconfirmed:
		told.Kind = effect.NoticeLocatorUp
		t.h.Count(counter.LocatorCameUp)
	default:
		return // unknown and up are the same to packets
	}
	t.h.Notice(told)
}

// tell keeps the data plane's view in step. It takes every RLOC for up that it was not
// told about; but an earlier run may have told it, so the first verdict is always said. Of a hop of paths alone
// it is told what becomes of the paths.
func (t *Table) tell(l *Locator) {
	t.noteHop(l)
	state := t.forPlane(l)
	if l.mappings == 0 || l.Told == state && (l.certain || l.reason == effect.LocatorAwaitsReply) {
		return
	}
	l.Told, l.certain = state, true
	t.h.Emit(effect.SetLocatorState{RLOC: l.RLOC, State: state})
	t.Changed()
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
	t.Paths.table = t
	for _, k := range kept {
		if k.Behind != "" {
			t.Paths.adopt(k)
			continue
		}
		_, l, known := t.Get(k.RLOC)
		if !known || l.mappings == 0 {
			t.forget(k.Path())
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
		t.noteHop(l)
	}
}

// forget makes the data plane use a locator again that nothing is known about.
func (t *Table) forget(p lisp.Path) {
	t.h.Emit(effect.SetLocatorState{RLOC: p.RLOC, Behind: p.Behind, State: effect.LocatorUp})
}

// Status yields the RLOCs, hops of paths among them, and the paths, in their order.
func (t *Table) Status() iter.Seq[status.LocatorStatus] {
	return func(yield func(status.LocatorStatus) bool) {
		all := make([]lisp.Path, 0, t.Size())
		for r := range t.ByRLOC {
			all = append(all, lisp.PathTo(r))
		}
		all = slices.AppendSeq(all, maps.Keys(t.Paths.ByPath))
		slices.SortFunc(all, lisp.Path.Compare)
		for _, p := range all {
			if !yield(*t.PathStatus(p)) {
				return
			}
		}
	}
}

// Page is a part of what status yields, in no order.
func (t *Table) Page(from uint32, most int) (page []status.LocatorStatus, next uint32, more bool) {
	next = from
	for range PageRows {
		switch {
		case len(page) == most:
			return page, next, true
		case next < uint32(t.Rows.Len()):
			if !t.Rows.At(next).RLOC.IsZero() {
				page = append(page, t.RowStatus(next))
			}
			next++
		case next < pathPages:
			next = pathPages
		case next-pathPages < uint32(t.Paths.Rows.Len()):
			if !t.Paths.Rows.At(next - pathPages).Path.IsZero() {
				page = append(page, t.Paths.status(next-pathPages))
			}
			next++
		default:
			return page, next, false
		}
	}
	return page, next, true
}

// RowStatus tells how things stand with a locator.
func (t *Table) RowStatus(id uint32) status.LocatorStatus {
	l := t.Rows.At(id)
	s := status.LocatorStatus{
		RLOC: l.RLOC, State: l.State, Told: l.Told, Reason: l.reason, ChangedAt: t.h.Time(l.changedAt), Mappings: l.mappings, Prefix: l.Prefix,
		ProxyETR: t.proxies.has(l.RLOC), Peer: l.peer, ProbesSent: l.Probes.sent,
		ProbesAnswered: l.Probes.answered, RoundTrip: l.trips.Status(),
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

// lowered is the EID-Prefixes whose status bits hold a locator down.
func (t *Table) lowered(l *Locator, known bool) []lisp.Prefix {
	if !known {
		return nil
	}
	return l.loweredBy
}
