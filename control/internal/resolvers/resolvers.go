// SPDX-License-Identifier: Apache-2.0

package resolvers

// The ITR's Map-Resolvers (RFC 9301 s.8.1 lets it have several): one row for each, with
// how long its answers take and whether they come. It says which one is asked next. A
// table: it sends nothing, and a Map-Resolver that is silent is asked last, never left out.

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
)

const (
	// silentAfter Map-Requests in a row without an answer, a Map-Resolver is
	// asked after the others. More than two, because a Map-Reply may be missing for
	// the sake of the ETR that should have sent it. Where the Node has an EID of its own, that is
	// asked for then: its ETR lives, so that only a Map-Resolver which is silent leaves that unanswered.
	silentAfter = 3
	// checkWait is how long that answer may take.
	checkWait = time.Second
	// forgetAfter is how long silence counts: then it is asked among the others
	// again, which is how one that came back is found.
	forgetAfter = time.Minute
	// silentInterval is how far apart the Map-Requests to a silent one are that find out that it is back.
	silentInterval = 10 * time.Second
	// gain is the weight of a new sample in the average, as roundTripGain.
	gain = 8
)

// row is what is known of one Map-Resolver.
type row struct {
	address        netip.AddrPort
	sent, answered uint64
	average        timing.Instant // of the time to a Map-Reply; 0 before the first
	unanswered     int            // Map-Requests in a row
	sentAt         timing.Instant
	answeredAt     timing.Instant
	checkNonce     uint64 // of the last Map-Request for an EID of our own, or one in use, 0 for none
	checkDue       bool   // the next one is scheduled
	silent         bool
	hopeful        bool           // something else tells that a silent one is back; it is asked as others are until it leaves that unanswered
	hopedAt        timing.Instant // when that began
	changedAt      timing.Instant // of silent, or of the first answer
}

// Table has the configured Map-Resolvers in their order.
type Table struct {
	H       *system.System
	rows    []row
	current int              // the one preferred to others that are hardly better
	Checks  timing.Deadlines // when an EID of our own is asked for, or an answer about it is too late, by index of rows
	checkAt timing.Instant   // when one is asked for next at the earliest
	worthAt timing.Instant   // when one was last worth asking though all are silent
	// AllSilent is called when the last of them became silent, Returned when one is silent no more.
	AllSilent, Returned func()
}

// Configure keeps what is known of those that stay.
func (t *Table) Configure(addresses []netip.AddrPort) {
	rows := make([]row, len(addresses))
	for i, a := range addresses {
		rows[i] = row{address: a}
		if at := t.find(a); at >= 0 {
			rows[i] = t.rows[at]
		}
	}
	for i := range t.rows {
		t.Checks.Remove(uint32(i))
	}
	for i := range rows {
		rows[i].checkDue = false
	}
	wereSilent := t.Silent()
	t.rows, t.current = rows, 0
	for i := range rows {
		if rows[i].silent {
			t.WentSilent(i)
		}
	}
	if wereSilent && !t.Silent() && t.Returned != nil {
		t.Returned()
	}
}

// Size is how many are configured.
func (t *Table) Size() int { return len(t.rows) }

func (t *Table) find(a netip.AddrPort) int {
	return slices.IndexFunc(t.rows, func(r row) bool { return r.address == a })
}

// Next says which Map-Resolver the next try of a request goes to: one that was tried
// least by it, of those the best. A refresh, for which no packet waits, begins with the one that
// was asked longest ago, so that the time of each stays known.
func (t *Table) Next(asked []netip.AddrPort, refresh bool) netip.AddrPort {
	tried := func(i int) int {
		n := 0
		for _, a := range asked {
			if a == t.rows[i].address {
				n++
			}
		}
		return n
	}
	refresh = refresh && len(asked) == 0
	best := 0
	for i := 1; i < len(t.rows); i++ {
		a, b := tried(i), tried(best)
		switch {
		case a != b:
			if a < b {
				best = i
			}
		case refresh && t.rows[i].sentAt < t.rows[best].sentAt, !refresh && t.better(i, best):
			best = i
		}
	}
	return t.rows[best].address
}

// After is the Map-Resolver for what so many before it did not answer: the best one first, then the others in turn.
func (t *Table) After(unanswered int) netip.AddrPort {
	best := t.find(t.Next(nil, false))
	return t.rows[(best+unanswered)%len(t.rows)].address
}

// better orders by reachability, then by round-trip time, then as configured. The one in
// use stays until another is a quarter faster: two that are alike do not alternate.
func (t *Table) better(i, j int) bool {
	if a, b := t.rank(i), t.rank(j); a != b {
		return a < b
	}
	return t.weighted(i) < t.weighted(j)
}

// rank is 0 for those that answer, 1 for those that nothing is known of, 2 for the silent.
func (t *Table) rank(i int) int {
	switch r := &t.rows[i]; {
	case r.silent && t.H.Now-r.sentAt < timing.Instant(forgetAfter):
		return 2
	case r.average == 0, r.silent:
		return 1
	}
	return 0
}

func (t *Table) weighted(i int) timing.Instant {
	if i == t.current {
		return t.rows[i].average / 4 * 3
	}
	return t.rows[i].average
}

// Sent notes a Map-Request to a Map-Resolver. What it did not answer is noted by Unanswered.
func (t *Table) Sent(a netip.AddrPort) {
	if i := t.find(a); i >= 0 {
		t.rows[i].sent++
		t.rows[i].sentAt = t.H.Now
	}
}

// Unanswered notes that a Map-Request got no answer in its time, and reports whether there are so
// many in a row now that the Map-Resolver may be silent, and no check is under way yet.
func (t *Table) Unanswered(a netip.AddrPort) (i int, doubtful bool) {
	i = t.find(a)
	if i < 0 {
		return i, false
	}
	t.rows[i].unanswered++
	t.endHope(i)
	return i, t.rows[i].unanswered%silentAfter == 0 && !t.Checks.Has(uint32(i))
}

// Doubt schedules a request to a Map-Resolver for an EID of our own: that is asked for once a second.
func (t *Table) Doubt(i int) {
	at := max(t.H.Now, t.checkAt)
	t.checkAt = at + timing.Instant(settings.MapRequestInterval)
	t.rows[i].checkDue = true
	t.Checks.Set(uint32(i), at)
}

// MayCheck says which Map-Resolver is asked for an EID of our own, or one in use, and whether it is time: not where it did
// not answer that, and was asked since.
func (t *Table) MayCheck(i int) (a netip.AddrPort, ok bool) {
	r := &t.rows[i]
	if r.silent && (t.H.Now-r.sentAt < timing.Instant(silentInterval) || t.H.Now < t.checkAt) {
		return r.address, false
	}
	return r.address, r.checkDue
}

// Checked notes that a Map-Request for an EID of our own, or one in use, was sent.
func (t *Table) Checked(a netip.AddrPort, nonce uint64) {
	i := t.find(a)
	if i < 0 {
		return
	}
	r := &t.rows[i]
	r.sent++
	r.sentAt, r.checkNonce, r.checkDue = t.H.Now, nonce, false
	t.checkAt = max(t.checkAt, t.H.After(settings.MapRequestInterval))
	t.Checks.Set(uint32(i), t.H.After(checkWait))
}

// Takes reports whether a Map-Reply answers a Map-Request for an EID of our own, or one in use, and notes it.
func (t *Table) Takes(m *message.MapReply) bool {
	i := slices.IndexFunc(t.rows, func(r row) bool { return r.checkNonce != 0 && r.checkNonce == m.Nonce })
	if i < 0 {
		return false
	}
	r := &t.rows[i]
	r.checkNonce = 0
	t.Answered(r.address, t.H.Now-r.sentAt)
	t.H.CoreAnswered(r.address.Addr(), m.From.Addr(), r.sentAt)
	return true
}

// WentSilent notes that a Map-Resolver does not answer. It is asked again, and again.
func (t *Table) WentSilent(i int) {
	r := &t.rows[i]
	r.checkDue = true
	t.Checks.Set(uint32(i), max(t.H.After(settings.MapRequestInterval), r.sentAt+timing.Instant(silentInterval)))
	t.endHope(i)
	if r.silent {
		return
	}
	detail := "asked after the others now"
	if len(t.rows) == 1 {
		detail = "there is no other"
	}
	r.silent, r.changedAt = true, t.H.Now
	t.H.Count(counter.MapResolverWentSilent)
	t.H.Notice(effect.Notice{Kind: effect.NoticeMapResolverSilent, Remote: r.address, Detail: detail})
	if t.Silent() && t.AllSilent != nil {
		t.AllSilent()
	}
}

// LongestUnasked is the Map-Resolver that was asked longest ago.
func (t *Table) LongestUnasked() netip.AddrPort {
	first := 0
	for i := range t.rows {
		if t.rows[i].sentAt < t.rows[first].sentAt {
			first = i
		}
	}
	return t.rows[first].address
}

// HeardFrom notes an authenticated message from an address: a Map-Resolver there is worth asking for everything, where all are silent.
// It stays silent until it answers: the message may have come by a sibling.
func (t *Table) HeardFrom(a netip.Addr) {
	for i := range t.rows {
		if !t.OneByOne() {
			return
		}
		r := &t.rows[i]
		if !r.silent || r.hopeful || r.address.Addr() != a || r.hopedAt != 0 && t.H.Now-r.hopedAt < timing.Instant(silentInterval) {
			continue
		}
		r.hopeful, r.hopedAt = true, t.H.Now
		if t.Returned != nil {
			t.Returned()
		}
	}
}

// endHope is for a Map-Resolver that left a Map-Request unanswered.
func (t *Table) endHope(i int) {
	if r := &t.rows[i]; r.hopeful {
		r.hopeful = false
		if t.OneByOne() && t.AllSilent != nil {
			t.AllSilent()
		}
	}
}

// OneByOne reports whether Map-Requests are sent in turn: no Map-Resolver answers, and nothing else tells that one of them is back.
func (t *Table) OneByOne() bool {
	return t.Silent() && !slices.ContainsFunc(t.rows, func(r row) bool { return r.hopeful })
}

// returned notes that a Map-Resolver is silent no more.
func (t *Table) returned(r *row) {
	if !r.silent {
		return
	}
	wereAll := t.Silent()
	r.silent, r.hopeful, r.changedAt = false, false, t.H.Now
	t.H.Notice(effect.Notice{Kind: effect.NoticeMapResolverAnswers, Remote: r.address, Detail: "again"})
	if wereAll && t.Returned != nil {
		t.Returned()
	}
}

// Answered notes an answer and how long it took.
func (t *Table) Answered(a netip.AddrPort, took timing.Instant) {
	i := t.find(a)
	if i < 0 {
		return
	}
	r := &t.rows[i]
	if r.average == 0 {
		r.changedAt = t.H.Now
	}
	r.answered++
	r.unanswered, r.answeredAt, r.checkDue = 0, t.H.Now, false // any answer ends the doubt
	t.Checks.Remove(uint32(i))
	t.returned(r)
	took = max(took, 1)
	if r.average == 0 {
		r.average = took
	}
	r.average += (took - r.average) / gain
	for j := range t.rows {
		if t.better(j, t.current) {
			t.current = j
		}
	}
}

// LastAnswer is when one of them last answered, 0 for never.
func (t *Table) LastAnswer() (last timing.Instant) {
	for i := range t.rows {
		last = max(last, t.rows[i].answeredAt)
	}
	return last
}

// WorthAsking reports whether any of them is not silent; while all are, that one mapping a minute may wait for its turn.
func (t *Table) WorthAsking() bool {
	if t.Silent() {
		if t.H.Now-t.worthAt < timing.Instant(forgetAfter) {
			return false
		}
		t.worthAt = t.H.Now
	}
	return len(t.rows) > 0
}

// Silent reports whether none of them answers.
func (t *Table) Silent() bool {
	return len(t.rows) > 0 && !slices.ContainsFunc(t.rows, func(r row) bool { return !r.silent })
}

// Status yields the Map-Resolvers as configured.
func (t *Table) Status() iter.Seq[status.MapResolverStatus] {
	return func(yield func(status.MapResolverStatus) bool) {
		for i := range t.rows {
			if !yield(t.rowStatus(&t.rows[i])) {
				return
			}
		}
	}
}

func (t *Table) rowStatus(r *row) status.MapResolverStatus {
	s := status.MapResolverStatus{
		Address: r.address, State: status.MapResolverUnknown, Sent: r.sent, Answered: r.answered, RoundTrip: time.Duration(r.average),
	}
	switch {
	case r.silent:
		s.State = status.MapResolverSilent
	case r.average > 0:
		s.State = status.MapResolverAnswers
	}
	if r.changedAt != 0 {
		s.ChangedAt = t.H.Time(r.changedAt)
	}
	if r.answeredAt != 0 {
		s.LastReplyAt = t.H.Time(r.answeredAt)
	}
	return s
}
