// SPDX-License-Identifier: Apache-2.0

package subflow

// The table of subflows and sessions. It is bounded, and takes memory as it is used. It decides nothing about paths.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/status"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// MaxFlows is how many subflows are known, as many as a data plane binds.
	MaxFlows = 65536
	// MaxOfSource is how many of them one source EID may have.
	MaxOfSource = MaxFlows / 4
	// maxHalfOpen is how many of them may be half-open: a flood of SYNs leaves the other half of the table.
	maxHalfOpen = MaxFlows / 2
	// maxOfSession is how many a session has. Further joins are bound by their two EIDs.
	maxOfSession = 256
	// Silence is how long a subflow may be silent.
	Silence = time.Minute
	// reportedAfter is how long after a use the data plane's report of it comes at most (HandleFlows of the Node).
	reportedAfter = 6 * time.Second
	// closingUse is how long after a FIN or RST packets are those of its end. Where later ones come, it was forged.
	closingUse = 2 * time.Second
	// useMargin is how long packets have to come that show that a subflow goes on, or was answered.
	useMargin = 2 * time.Second
	// HalfOpen is how long it is known where nothing follows its SYN.
	HalfOpen = useMargin + reportedAfter
	// Closing is how long it is known after its end: its last packets keep its path.
	Closing = closingUse + useMargin + reportedAfter
)

// state is how far a subflow got.
type state uint8

const (
	expected state = iota // a join from the core, which the host in the site has not answered yet
	opened                // a host in the site sent SYN, or SYN/ACK, and nothing followed
	followed              // something did
	closing               // FIN both ways, or RST
)

// The directions of which a FIN came.
const (
	finOwn = 1 << iota
	finCore
	finBoth = finOwn | finCore
)

// row is one subflow, in the direction towards the core.
type row struct {
	flow      lisp.Flow
	path      lisp.Path  // zero where it is not bound
	home      lisp.Path  // its path, while that is avoided and it has another one; zero otherwise
	session   uint32     // number plus one; 0 where it is not known
	question  uint32     // number plus one of that for its path; 0 for none
	peer      netip.Addr // who chose its path, or asked for it
	sequence  uint32     // of the SYN or SYN/ACK that opened it; while it is expected, of the SYN from the core
	isFirst   bool       // of its session
	isAdopted bool       // sequence is not known
	why       status.SubflowReason
	state     state
	fins      uint8
	ended     string         // by what, while it is closing
	openedAt  timing.Instant // when it became known
	askedAt   timing.Instant // when its SYN or SYN/ACK came last, before something followed: until then nothing did
	heardAt   timing.Instant // when something followed last, as far as it is known
	closingAt timing.Instant
}

// isHalfOpen reports whether nothing followed yet.
func (r *row) isHalfOpen() bool { return r.state == expected || r.state == opened }

// isRevived reports whether packets came for long after the end of a subflow.
func (r *row) isRevived() bool {
	return r.state == closing && r.heardAt > r.closingAt+timing.Instant(closingUse)
}

// deadline is when the subflow ends if nothing more comes.
func (r *row) deadline() timing.Instant {
	switch {
	case r.isHalfOpen():
		return r.openedAt + timing.Instant(HalfOpen)
	case r.state == closing && !r.isRevived():
		return r.closingAt + timing.Instant(Closing)
	}
	return r.heardAt + timing.Instant(Silence)
}

// session is what belongs together.
type session struct {
	instance lisp.InstanceID
	token    uint32 // of the responder's key
	hasToken bool
	flows    []uint32
	load     load
}

// tokenKey finds a session.
type tokenKey struct {
	instance lisp.InstanceID
	token    uint32
}

// host is an EID in its Instance-ID.
type host struct {
	instance lisp.InstanceID
	eid      lisp.EID
}

// pair is the two EIDs of a subflow.
type pair struct{ source, destination host }

func pairOf(f *lisp.Flow) pair {
	return pair{host{f.Instance, f.Source}, host{f.Instance, f.Destination}}
}

// flows is the table.
type flows struct {
	rows         table.Slab[row]
	byFlow       map[lisp.Flow]uint32
	sessions     table.Slab[session]
	byToken      map[tokenKey]uint32
	pairs        map[pair]load
	sources      map[host]int
	destinations table.Prefixes[int] // how many subflows each has
	halfOpen     int
	unbound      int // that have no path, expected ones left out
}

func (t *flows) initialise() {
	t.byFlow, t.byToken = map[lisp.Flow]uint32{}, map[tokenKey]uint32{}
	t.pairs, t.sources = map[pair]load{}, map[host]int{}
}

// get finds a subflow.
func (t *flows) get(f lisp.Flow) (id uint32, r *row, known bool) {
	if id, known = t.byFlow[f]; !known {
		return 0, nil, false
	}
	return id, t.rows.At(id), true
}

// hasRoom reports whether one more subflow may be known. Nothing is evicted for it.
func (t *flows) hasRoom(f *lisp.Flow) bool {
	return len(t.byFlow) < MaxFlows && t.halfOpen < maxHalfOpen &&
		t.sources[host{f.Instance, f.Source}] < MaxOfSource
}

// add makes a row, which has no path yet.
func (t *flows) add(r row) uint32 {
	id := t.rows.Add(r)
	t.byFlow[r.flow] = id
	t.sources[host{r.flow.Instance, r.flow.Source}]++
	destination := lisp.HostPrefix(r.flow.Instance, r.flow.Destination)
	n, _ := t.destinations.Get(destination)
	t.destinations.Insert(destination, n+1)
	if r.session != 0 {
		s := t.session(&r)
		s.flows = append(s.flows, id)
	}
	t.count(&r, 1)
	return id
}

// remove forgets a row, and a session with its last one.
func (t *flows) remove(id uint32) {
	r := *t.rows.At(id)
	t.setPath(id, lisp.Path{})
	t.count(t.rows.At(id), -1)
	t.rows.Release(id)
	delete(t.byFlow, r.flow)
	source := host{r.flow.Instance, r.flow.Source}
	if t.sources[source]--; t.sources[source] == 0 {
		delete(t.sources, source)
	}
	t.leaveDestination(&r.flow)
	if r.session != 0 {
		t.leaveSession(id, &r)
	}
	if len(t.byFlow) == 0 { // maps do not shrink
		*t = flows{}
		t.initialise()
	}
}

func (t *flows) leaveDestination(f *lisp.Flow) {
	p := lisp.HostPrefix(f.Instance, f.Destination)
	if n, _ := t.destinations.Get(p); n > 1 {
		t.destinations.Insert(p, n-1)
		return
	}
	t.destinations.Remove(p)
}

func (t *flows) leaveSession(id uint32, r *row) {
	s := t.session(r)
	if i := slices.Index(s.flows, id); i >= 0 {
		s.flows = slices.Delete(s.flows, i, i+1)
	}
	if len(s.flows) > 0 {
		return
	}
	if s.hasToken {
		delete(t.byToken, tokenKey{s.instance, s.token})
	}
	t.sessions.Release(r.session - 1)
}

// count counts a row among those that are half-open or not bound, or no more.
func (t *flows) count(r *row, by int) {
	if r.isHalfOpen() {
		t.halfOpen += by
	}
	if r.state != expected && r.path.IsZero() {
		t.unbound += by
	}
}

// setState changes how far a subflow got.
func (t *flows) setState(r *row, to state) {
	t.count(r, -1)
	r.state = to
	t.count(r, 1)
}

// setPath binds a row to a path, or with the zero path to none.
func (t *flows) setPath(id uint32, p lisp.Path) {
	r := t.rows.At(id)
	t.count(r, -1)
	defer func() { t.count(t.rows.At(id), 1) }()
	between := t.pairs[pairOf(&r.flow)]
	if !r.path.IsZero() {
		between.remove(r.path)
		if r.session != 0 {
			t.session(r).load.remove(r.path)
		}
	}
	if r.path = p; !p.IsZero() {
		between.add(p)
		if r.session != 0 {
			t.session(r).load.add(p)
		}
	}
	if len(between) == 0 {
		delete(t.pairs, pairOf(&r.flow))
		return
	}
	t.pairs[pairOf(&r.flow)] = between
}

// session is that of a row that has one.
func (t *flows) session(r *row) *session { return t.sessions.At(r.session - 1) }

// newSession makes a session without a token, and returns its number plus one.
func (t *flows) newSession(instance lisp.InstanceID) uint32 {
	return t.sessions.Add(session{instance: instance}) + 1
}

// learn gives a session the token of its responder. One of two sessions with the same token is not found by it.
func (t *flows) learn(number, token uint32) {
	s := t.sessions.At(number - 1)
	key := tokenKey{s.instance, token}
	if _, taken := t.byToken[key]; taken || s.hasToken {
		return
	}
	s.token, s.hasToken = token, true
	t.byToken[key] = number
}

// find is the session with a token that a subflow may join: it has one of its EIDs, and is not full. 0 is none.
func (t *flows) find(f *lisp.Flow, token uint32) (number uint32) {
	number, known := t.byToken[tokenKey{f.Instance, token}]
	if !known || len(t.sessions.At(number-1).flows) >= maxOfSession {
		return 0
	}
	shares := func(id uint32) bool {
		o := &t.rows.At(id).flow
		return o.Source == f.Source || o.Destination == f.Destination
	}
	if !slices.ContainsFunc(t.sessions.At(number-1).flows, shares) {
		return 0
	}
	return number
}
