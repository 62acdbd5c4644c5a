// SPDX-License-Identifier: Apache-2.0

package subflow

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/report"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/lisp"
)

// site is a Binder with a data plane that only remembers, in virtual time.
type site struct {
	*testing.T
	*Binder
	h     *system.System
	now   time.Time
	paths []Candidate
	bound map[lisp.Flow]lisp.Path
}

var begin = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// newSite has three usable paths of priorities 2, 1 and 1, in the order of RFC 9301: the second one is the best.
func newSite(t *testing.T) *site {
	s := &site{T: t, now: begin, bound: map[lisp.Flow]lisp.Path{}}
	s.h = system.New(begin, func([]byte) {})
	s.h.Quiet = true
	s.Binder = New(s.h)
	s.Candidates = func(*lisp.Flow) []Candidate { return s.paths }
	s.paths = []Candidate{{path(1), 2, true, false}, {path(2), 1, true, false}, {path(3), 1, true, false}}
	s.Configure(true, false)
	s.run(0)
	return s
}

// path is one of two hops.
func path(n int) lisp.Path {
	p, err := lisp.NewPath(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})),
		lisp.RLOCFromAddr(netip.MustParseAddr("198.51.100.1")))
	if err != nil {
		panic(err)
	}
	return p
}

// flow is one from a host of the site to one behind the core, IPv6 where v6 says so.
func flow(v6 bool, from, to, port int) lisp.Flow {
	source, destination := netip.AddrFrom4([4]byte{10, 1, byte(from >> 8), byte(from)}),
		netip.AddrFrom4([4]byte{10, 2, byte(to >> 8), byte(to)})
	if v6 {
		source, destination = netip.MustParseAddr(fmt.Sprintf("2001:db8:1::%x", from)),
			netip.MustParseAddr(fmt.Sprintf("2001:db8:2::%x", to))
	}
	return lisp.Flow{
		Source: lisp.EIDFromAddr(source), Destination: lisp.EIDFromAddr(destination), Protocol: 6,
		SourcePort: uint16(port), DestinationPort: 443,
	}
}

// run lets time pass, with what is due in it.
func (s *site) run(d time.Duration) {
	for end := s.now.Add(d); ; {
		s.h.Advance(s.now)
		for id, ok := s.Timers.Due(s.h.Now); ok; id, ok = s.Timers.Due(s.h.Now) {
			s.HandleTimeout(id)
		}
		if s.Work.Next() <= s.h.Now {
			s.Work.End()
			s.HandleWork()
		}
		s.drain()
		next := min(s.Timers.Next(), s.Work.Next())
		if next > s.h.Instant(end) {
			s.now = end
			s.h.Advance(end)
			return
		}
		s.now = s.h.Time(next)
	}
}

func (s *site) drain() {
	for e, ok := s.h.Poll(); ok; e, ok = s.h.Poll() {
		switch e := e.(type) {
		case effect.BindFlow:
			s.bound[e.Flow] = e.Path
		case effect.UnbindFlow:
			delete(s.bound, e.Flow)
		}
	}
}

// segment reports one of a flow towards the core, or where fromCore is set of its other direction.
func (s *site) segment(f lisp.Flow, fromCore bool, flags byte, sequence, acknowledged uint32, options string) {
	if fromCore {
		f = f.Reverse()
	}
	b := header(flags, options)
	binary.BigEndian.PutUint32(b[4:], sequence)
	binary.BigEndian.PutUint32(b[8:], acknowledged)
	s.h.Advance(s.now)
	s.Handle(report.Subflow{Flow: f, FromCore: fromCore, TCP: b})
	s.drain()
}

const capable = "1e04 0101"

func key(n int) [8]byte { return [8]byte{7: byte(n), 6: byte(n >> 8), 0: 0x5a} }

func withKey(n int) string {
	k := key(n)
	return "1e0c 0101 " + hex.EncodeToString(k[:])
}

func join(token uint32) string { return fmt.Sprintf("1e0c 1001 %08x 11223344", token) }

const joined = "1e10 1001 0102030405060708 11223344"

// connect opens a session from the site; the responder's key is of that number.
func (s *site) connect(f lisp.Flow, n int) {
	s.segment(f, false, flagSYN, 100, 0, capable)
	s.segment(f, true, flagSYN|flagACK, 900, 101, withKey(n))
}

// join adds a subflow from the site, and the peer answers.
func (s *site) join(f lisp.Flow, n int) {
	s.segment(f, false, flagSYN, 200, 0, join(TokenOf(key(n))))
	s.segment(f, true, flagSYN|flagACK, 900, 201, joined)
}

// accept opens a session from the core: the host in the site answers with the key of that number.
func (s *site) accept(f lisp.Flow, n int) {
	s.segment(f, true, flagSYN, 100, 0, capable)
	s.segment(f, false, flagSYN|flagACK, 300, 101, withKey(n))
}

// used reports a packet of a flow.
func (s *site) used(flows ...lisp.Flow) { s.usedAt(s.now, flows...) }

// usedAt reports that a packet of a flow came then.
func (s *site) usedAt(at time.Time, flows ...lisp.Flow) {
	s.h.Advance(s.now)
	for _, f := range flows {
		s.HandleUsage([]report.BoundFlow{{Flow: f, Path: s.bound[f], LastUsedAt: at}})
	}
	s.drain()
}

func (s *site) want(f lisp.Flow, n int) {
	s.Helper()
	if got, ok := s.bound[f]; !ok || got != path(n) {
		s.Errorf("%s is bound to %s, %t, want path %d", f, got, ok, n)
	}
}

func (s *site) wantUnbound(flows ...lisp.Flow) {
	s.Helper()
	for _, f := range flows {
		if got, ok := s.bound[f]; ok {
			s.Errorf("%s is bound to %s", f, got)
		}
	}
}

func (s *site) wantCount(c counter.Counter, want uint64) {
	s.Helper()
	if got := s.h.Counters[c]; got != want {
		s.Errorf("%s is %d, want %d", c, got, want)
	}
}

// wantEmpty asserts that nothing is left of anything.
func (s *site) wantEmpty() {
	s.Helper()
	t := &s.flows
	if n := len(t.byFlow) + len(t.byToken) + len(t.pairs) + len(t.sources) + t.destinations.Size + t.halfOpen + t.unbound + s.Timers.Size(); n != 0 || len(s.bound) != 0 {
		s.Errorf("left: %+v, %d deadlines, bound %v", t, s.Timers.Size(), s.bound)
	}
}

func families(t *testing.T, f func(t *testing.T, v6 bool)) {
	for _, v6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "IPv4", true: "IPv6"}[v6], func(t *testing.T) { f(t, v6) })
	}
}

// TestSessionFromTheSite: the first subflow gets the best path, each join that with the fewest of its session, and of
// those with as many the lowest priority, then the order of RFC 9301. Shows RFC 8684 s.3.2.
func TestSessionFromTheSite(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		s := newSite(t)
		s.connect(flow(v6, 1, 1, 1000), 1)
		for i, want := range []int{3, 1, 2, 3, 1} {
			f := flow(v6, 1, 1, 1001+i)
			s.join(f, 1)
			s.want(f, want)
		}
		s.want(flow(v6, 1, 1, 1000), 2)
		s.wantCount(counter.SubflowUnknownSession, 0)
		s.wantCount(counter.SubflowBound, 6)
	})
}

// TestOtherSessionsCountLess: of two paths that a session has as often, the one with fewer subflows of the two EIDs.
func TestOtherSessionsCountLess(t *testing.T) {
	s := newSite(t)
	s.connect(flow(false, 1, 1, 1000), 1)
	s.join(flow(false, 1, 1, 1001), 1) // path 3
	s.connect(flow(false, 1, 1, 2000), 2)
	s.join(flow(false, 1, 1, 2001), 2)
	s.want(flow(false, 1, 1, 2000), 2)
	s.want(flow(false, 1, 1, 2001), 1)
	s.connect(flow(false, 1, 9, 3000), 3) // to another EID
	s.join(flow(false, 1, 9, 3001), 3)
	s.want(flow(false, 1, 9, 3001), 3)
}

// TestSessionFromTheCore: the host in the site has the key, and its answers are bound; SYNs from the core bind nothing.
func TestSessionFromTheCore(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		s := newSite(t)
		first, second, third := flow(v6, 1, 1, 443), flow(v6, 1, 1, 8443), flow(v6, 1, 1, 9443)
		s.segment(first, true, flagSYN, 100, 0, capable)
		s.wantUnbound(first)
		s.segment(first, false, flagSYN|flagACK, 300, 101, withKey(1))
		s.want(first, 2)
		s.segment(second, true, flagSYN, 500, 0, join(TokenOf(key(1))))
		s.wantUnbound(second)
		s.segment(second, false, flagSYN|flagACK, 300, 501, joined)
		s.want(second, 3)
		s.wantCount(counter.SubflowUnknownSession, 0)
		s.segment(third, false, flagSYN|flagACK, 300, 501, joined) // the SYN of it came by another router
		s.want(third, 1)
		s.wantCount(counter.SubflowUnknownSession, 1)
	})
}

// TestJoinsFromTheCoreThatAreNotAnswered leave nothing, and another answer than theirs does not get their session.
func TestJoinsFromTheCoreThatAreNotAnswered(t *testing.T) {
	s := newSite(t)
	s.accept(flow(false, 1, 1, 443), 1)
	for port := range 100 {
		s.segment(flow(false, 1, 1, 2000+port), true, flagSYN, 500, 0, join(uint32(port)))
	}
	if s.Size() != 1 {
		t.Errorf("%d flows after joins with forged tokens", s.Size())
	}
	f := flow(false, 1, 1, 3000)
	s.segment(f, true, flagSYN, 500, 0, join(TokenOf(key(1))))
	s.segment(f, false, flagSYN|flagACK, 300, 777, joined) // acknowledges another SYN
	s.wantCount(counter.SubflowUnknownSession, 1)
	for port := range 3 {
		s.segment(flow(false, 1, 1, 4000+port), true, flagSYN, 500, 0, join(TokenOf(key(1))))
	}
	s.run(time.Millisecond)
	s.used(flow(false, 1, 1, 443))
	s.run(HalfOpen + time.Second)
	if s.Size() != 1 {
		t.Errorf("%d flows", s.Size())
	}
	s.want(flow(false, 1, 1, 443), 2)
}

// TestForgedTokens: a host that sends the token of a session between other EIDs is bound by its own, and does not count
// there.
func TestForgedTokens(t *testing.T) {
	s := newSite(t)
	s.connect(flow(false, 1, 1, 1000), 1)
	forged := flow(false, 66, 66, 1000)
	s.join(forged, 1)
	s.want(forged, 2)
	s.wantCount(counter.SubflowUnknownSession, 1)
	s.join(flow(false, 1, 1, 1001), 1)
	s.want(flow(false, 1, 1, 1001), 3)
	elsewhere := flow(false, 1, 1, 1002)
	elsewhere.Instance = 7
	s.join(elsewhere, 1)
	s.want(elsewhere, 2)
	s.wantCount(counter.SubflowUnknownSession, 2)
	unknown := flow(false, 1, 1, 1003)
	s.segment(unknown, false, flagSYN, 200, 0, join(0xdeadbeef))
	s.want(unknown, 1) // the two EIDs have a subflow on each of the others
	s.wantCount(counter.SubflowUnknownSession, 3)
}

// TestForgedAnswers: a key is taken only from a SYN/ACK that acknowledges the SYN.
func TestForgedAnswers(t *testing.T) {
	s := newSite(t)
	f := flow(false, 1, 1, 1000)
	s.segment(f, false, flagSYN, 100, 0, capable)
	s.segment(f, true, flagSYN|flagACK, 900, 555, withKey(66))
	s.segment(flow(false, 1, 1, 9999), true, flagSYN|flagACK, 900, 555, withKey(66))
	s.wantCount(counter.RefusedSubflowAnswer, 2)
	s.segment(f, true, flagSYN|flagACK, 900, 101, withKey(1))
	s.segment(f, true, flagSYN|flagACK, 900, 101, withKey(67)) // the first one counts
	s.join(flow(false, 1, 1, 1001), 66)
	s.wantCount(counter.SubflowUnknownSession, 1)
	s.join(flow(false, 1, 1, 1002), 1)
	s.wantCount(counter.SubflowUnknownSession, 1)
	s.join(flow(false, 1, 1, 1003), 67)
	s.wantCount(counter.SubflowUnknownSession, 2)
	if s.Size() != 4 {
		t.Errorf("%d flows", s.Size())
	}
}

// TestSameKeyTwice: two sessions whose keys have one token. Neither takes the other's place.
func TestSameKeyTwice(t *testing.T) {
	s := newSite(t)
	s.connect(flow(false, 1, 1, 1000), 1)
	s.connect(flow(false, 2, 1, 1000), 1)
	s.join(flow(false, 1, 1, 1001), 1)
	s.want(flow(false, 1, 1, 1001), 3)
	first, _ := s.Of(flow(false, 1, 1, 1000))
	if joined, _ := s.Of(flow(false, 1, 1, 1001)); joined.Session != first.Session {
		t.Errorf("joined session %d, want %d", joined.Session, first.Session)
	}
	s.segment(flow(false, 2, 1, 1000), false, flagRST, 101, 0, "")
	s.run(Closing)
	s.join(flow(false, 1, 1, 1002), 1)
	s.want(flow(false, 1, 1, 1002), 1)
	s.wantCount(counter.SubflowUnknownSession, 0)
}

// TestSameAddressesAndPortsAgain: a SYN that is sent again changes nothing, a new connection is one of its own.
func TestSameAddressesAndPortsAgain(t *testing.T) {
	s := newSite(t)
	f := flow(false, 1, 1, 1000)
	s.connect(f, 1)
	s.join(flow(false, 1, 1, 1001), 1)
	s.segment(f, false, flagSYN, 100, 0, capable)
	s.wantCount(counter.SubflowBound, 2)
	s.segment(f, true, flagSYN, 100, 0, capable) // from the core: nothing that binds
	s.segment(f, true, flagSYN, 100, 0, join(TokenOf(key(1))))
	s.wantCount(counter.SubflowBound, 2)
	s.segment(flow(false, 1, 1, 1001), false, flagSYN, 5555, 0, capable)
	s.want(flow(false, 1, 1, 1001), 2) // the first of a session
	s.wantCount(counter.SubflowEnded, 1)
	s.segment(f, false, flagSYN, 7777, 0, capable)
	s.join(flow(false, 1, 1, 1002), 1) // the session of that key is gone
	s.wantCount(counter.SubflowUnknownSession, 1)
	s.run(2 * Silence)
	s.wantEmpty()
}

// TestUseBeforeTheSubflow: the data plane keeps the last use of a connection that had the same addresses and ports,
// where it never saw the end of its binding. That is none of the new one.
func TestUseBeforeTheSubflow(t *testing.T) {
	s := newSite(t)
	f := flow(false, 1, 1, 1000)
	s.connect(f, 1)
	s.run(time.Second)
	s.used(f)
	old := s.now
	s.run(time.Second)
	s.segment(f, false, flagSYN, 7777, 0, capable)
	s.usedAt(old, f)
	if got, _ := s.Of(f); got.State != status.SubflowOpened || !got.LastHeardAt.IsZero() {
		t.Errorf("after a use of the connection before: %+v", got)
	}
	s.run(HalfOpen)
	s.wantEmpty()
}

// TestSYNsThatAreSentAgain are no use of a subflow: it stays half-open, and ends as if there was one SYN.
func TestSYNsThatAreSentAgain(t *testing.T) {
	s := newSite(t)
	own, core := flow(false, 1, 1, 1000), flow(false, 1, 1, 443)
	s.segment(own, false, flagSYN, 100, 0, capable)
	s.accept(core, 1)
	s.run(time.Second)
	s.segment(own, false, flagSYN, 100, 0, capable)
	s.accept(core, 1)
	s.used(own, core) // as a data plane that notes a use for each packet
	for _, f := range []lisp.Flow{own, core} {
		if got, _ := s.Of(f); got.State != status.SubflowOpened {
			t.Errorf("%s: %+v", f, got)
		}
	}
	s.run(HalfOpen - time.Second)
	s.wantEmpty()
}

// TestJoinsFromTheCoreThatAreSentAgain wait no longer for the answer than the first of them.
func TestJoinsFromTheCoreThatAreSentAgain(t *testing.T) {
	s := newSite(t)
	s.accept(flow(false, 1, 1, 443), 1)
	s.run(time.Millisecond)
	s.used(flow(false, 1, 1, 443))
	f := flow(false, 1, 1, 3000)
	for range 3 {
		s.segment(f, true, flagSYN, 500, 0, join(TokenOf(key(1))))
		s.run(HalfOpen / 4)
	}
	s.run(HalfOpen / 4)
	if s.Size() != 1 {
		t.Errorf("%d flows", s.Size())
	}
}

// TestEnds: FIN both ways, RST, FASTCLOSE and silence end a binding, with a while for the last packets.
func TestEnds(t *testing.T) {
	s := newSite(t)
	a, b, c, d := flow(false, 1, 1, 1000), flow(false, 1, 1, 1001), flow(false, 1, 1, 1002), flow(false, 1, 2, 1003)
	s.connect(a, 1)
	s.join(b, 1)
	s.join(c, 1)
	s.connect(d, 2)
	s.segment(a, true, flagFIN|flagACK, 901, 101, "")
	s.run(20 * time.Second)
	s.want(a, 2) // the other direction goes on
	s.segment(a, false, flagFIN|flagACK, 101, 902, "")
	s.segment(b, true, flagRST, 901, 0, "")
	s.run(Closing - time.Millisecond)
	s.want(a, 2)
	s.want(b, 3)
	s.run(time.Millisecond)
	s.wantUnbound(a, b)
	s.used(c)
	s.run(Silence - time.Millisecond)
	s.want(c, 1)
	s.wantUnbound(d)
	s.run(time.Millisecond)
	s.wantUnbound(c)
	s.wantCount(counter.SubflowEnded, 4)
	s.wantEmpty()
}

// TestForgedEnds: a binding whose packets go on is not ended by who forges a RST or both FINs.
func TestForgedEnds(t *testing.T) {
	s := newSite(t)
	f := flow(false, 1, 1, 1000)
	s.connect(f, 1)
	for range 20 {
		s.segment(f, true, flagRST, 901, 0, "")
		for range 5 {
			s.run(time.Second)
			s.used(f)
		}
	}
	s.want(f, 2)
	s.run(10 * time.Second)
	s.segment(f, true, flagRST, 901, 0, "") // nothing follows this one
	s.run(Closing)
	s.wantEmpty()
}

// TestReportsFarApart: each use is reported six seconds late at most. That ends no subflow whose packets go on.
func TestReportsFarApart(t *testing.T) {
	s := newSite(t)
	opened, closed := flow(false, 1, 1, 1000), flow(false, 1, 1, 1001)
	s.segment(opened, false, flagSYN, 100, 0, capable)
	s.connect(closed, 1)
	s.segment(closed, true, flagRST, 901, 0, "") // forged
	s.run(time.Second)
	answered := s.now
	s.run(closingUse)
	goesOn := s.now
	s.run(6*time.Second - closingUse)
	s.usedAt(answered, opened)
	s.run(closingUse)
	s.usedAt(goesOn, closed)
	s.run(Closing)
	s.want(opened, 2)
	s.want(closed, 2)
}

// TestFastClose ends a session where it has the responder's key, and one subflow with any other.
func TestFastClose(t *testing.T) {
	s := newSite(t)
	for port := range 4 {
		s.connect(flow(false, 1, 2+port, 1000), 2+port)
		s.join(flow(false, 1, 2+port, 1001), 2+port)
	}
	right, wrong := key(2), key(77)
	s.segment(flow(false, 1, 2, 1001), false, flagRST|flagACK, 1, 1, "1e0c 7000"+hex.EncodeToString(right[:]))
	s.segment(flow(false, 1, 3, 1001), true, flagRST|flagACK, 1, 1, "1e0c 7000"+hex.EncodeToString(wrong[:]))
	s.run(Closing)
	s.wantUnbound(flow(false, 1, 2, 1000), flow(false, 1, 2, 1001), flow(false, 1, 3, 1001))
	s.want(flow(false, 1, 3, 1000), 2)
}

// TestHalfOpen: eight seconds where nothing followed the SYN, a minute where packets did without an answer that came by
// here.
func TestHalfOpen(t *testing.T) {
	s := newSite(t)
	silent, answered := flow(false, 1, 1, 1000), flow(false, 1, 1, 1001)
	s.segment(silent, false, flagSYN, 100, 0, capable)
	s.segment(answered, false, flagSYN, 100, 0, capable)
	s.run(time.Second)
	s.used(answered)
	s.run(HalfOpen - time.Second)
	s.wantUnbound(silent)
	s.want(answered, 2)
	s.run(Silence)
	s.wantEmpty()
}

// TestFlood: SYNs without end evict no bound subflow, neither of many hosts nor of one, and leave nothing.
func TestFlood(t *testing.T) {
	s := newSite(t)
	established := flow(false, 9, 9, 1000)
	s.connect(established, 1)
	for i := range 3 * MaxOfSource { // one host, 20,000 a second
		s.segment(flow(false, 1, 1+i/60000, i%60000), false, flagSYN, uint32(i), 0, capable)
		if i%20 == 0 {
			s.run(time.Millisecond)
		}
		if i%1000 == 0 { // that sends an earlier one again
			again := flow(false, 1, 1, i%60000/2)
			s.segment(again, false, flagSYN, uint32(i%60000/2), 0, capable)
			s.used(again)
		}
	}
	if got := s.Size(); got > MaxOfSource+1 || s.h.Counters[counter.RefusedSubflowTable] == 0 {
		t.Errorf("%d flows known of one host, %d refused", got, s.h.Counters[counter.RefusedSubflowTable])
	}
	for i := range MaxFlows { // many hosts
		s.segment(flow(false, 100+i/1000, 1, i%1000), false, flagSYN, uint32(i), 0, capable)
	}
	if got := s.Size(); got > maxHalfOpen+1 {
		t.Errorf("%d flows known", got)
	}
	s.want(established, 2)
	s.join(flow(false, 9, 9, 1001), 1) // refused: half of the table is half-open
	s.used(established)
	s.run(HalfOpen)
	if s.Size() != 1 {
		t.Errorf("%d flows are left", s.Size())
	}
	s.join(flow(false, 9, 9, 1002), 1)
	s.want(flow(false, 9, 9, 1002), 3)
}

// TestFullTable: what is established fills all of it, and one more is refused. Joins of one session have a bound, too.
func TestFullTable(t *testing.T) {
	s := newSite(t)
	for i := range MaxFlows + 100 {
		f := flow(false, 1+i/MaxOfSource, 1, i%MaxOfSource)
		s.join(f, 1)
	}
	if s.Size() != MaxFlows || len(s.bound) != MaxFlows {
		t.Errorf("%d flows, %d bound", s.Size(), len(s.bound))
	}
	s.wantCount(counter.RefusedSubflowTable, 100)
	s.run(Silence)
	s.wantEmpty()
	s.connect(flow(false, 1, 1, 1), 1)
	for i := range maxOfSession {
		s.join(flow(false, 1, 1, 2+i), 1)
	}
	s.wantCount(counter.SubflowUnknownSession, MaxFlows+1)
}

// TestMappingChanges: a binding whose path is gone is made anew; one whose path is down, or only worse now, stays.
func TestMappingChanges(t *testing.T) {
	s := newSite(t)
	a, b := flow(false, 1, 1, 1000), flow(false, 1, 1, 1001)
	s.connect(a, 1)
	s.join(b, 1)
	keep := func(d time.Duration) {
		for ; d > 0; d -= time.Second {
			s.run(time.Second)
			for f := range s.bound {
				s.used(f)
			}
		}
	}
	changed := func(paths ...Candidate) {
		s.paths = paths
		s.MappingChanged(lisp.MustParsePrefix("10.2.0.0/16"))
		keep(2 * time.Second)
	}
	changed(Candidate{path(1), 2, true, false}, Candidate{path(2), 9, false, false},
		Candidate{path(3), 1, true, false})
	s.want(a, 2)
	s.want(b, 3)
	changed(Candidate{path(1), 2, true, false}, Candidate{path(3), 1, true, false})
	s.want(a, 3)
	s.want(b, 3)
	changed(Candidate{path(1), 2, true, false}, Candidate{path(2), 1, true, false})
	s.want(a, 2)
	s.want(b, 1)
	s.wantCount(counter.SubflowMoved, 3)
	changed(Candidate{path(4), 1, true, false}) // one path is no choice
	s.wantUnbound(a, b)
	changed(Candidate{path(4), 1, true, false}, Candidate{path(5), 2, true, false})
	s.want(a, 4)
	s.want(b, 5)
	s.paths = nil // the mapping is gone
	s.MappingChanged(lisp.MustParsePrefix("10.2.0.0/16"))
	keep(10 * time.Second)
	s.want(a, 4)
	s.paths = []Candidate{{path(6), 1, true, false}, {path(7), 1, true, false}}
	s.MappingChanged(lisp.MustParsePrefix("10.99.0.0/16")) // of others
	keep(10 * time.Second)
	s.want(a, 4)
}

// TestPathsThatReturn: a subflow that found no two usable paths is bound when they are there.
func TestPathsThatReturn(t *testing.T) {
	s := newSite(t)
	s.paths = []Candidate{{path(1), 1, true, false}, {path(2), 1, false, false}}
	f := flow(false, 1, 1, 1000)
	s.connect(f, 1)
	s.wantUnbound(f)
	s.wantCount(counter.SubflowUnbound, 1)
	s.run(10 * time.Second)
	s.paths[1].Usable = true
	s.run(seekInterval)
	s.want(f, 1)
	s.run(2 * Silence)
	s.wantEmpty()
}

// TestPathsThatDoNotAnswer: subflows leave a path that is unconfirmed while another one answers, and return to it.
func TestPathsThatDoNotAnswer(t *testing.T) {
	s := newSite(t)
	a, b := flow(false, 1, 1, 1000), flow(false, 1, 1, 1001)
	s.connect(a, 1)
	s.join(b, 1)
	states := func(paths ...Candidate) {
		s.paths = paths
		s.StatesChanged()
		s.run(passInterval + time.Second)
		s.used(a, b)
	}
	states(Candidate{path(1), 2, true, false}, Candidate{path(2), 1, false, true},
		Candidate{path(3), 1, true, false})
	s.want(a, 3)
	s.want(b, 3)
	states(Candidate{path(1), 2, true, false}, Candidate{path(2), 1, false, true},
		Candidate{path(3), 1, false, true})
	s.want(a, 1)
	s.want(b, 1)
	states(Candidate{path(1), 2, true, false}, Candidate{path(2), 1, true, false},
		Candidate{path(3), 1, false, true})
	s.want(a, 2)
	s.want(b, 1)
	states(Candidate{path(1), 2, true, false}, Candidate{path(2), 1, true, false},
		Candidate{path(3), 1, true, false})
	s.want(b, 3)
	states(Candidate{path(1), 2, false, true}, Candidate{path(2), 1, true, false},
		Candidate{path(3), 1, false, true})
	s.want(b, 2)
	// its own path is gone, and that for a while
	states(Candidate{path(1), 2, true, false}, Candidate{path(4), 1, true, false})
	s.want(a, 4)
	s.want(b, 1)
	states(Candidate{path(1), 2, true, false}, Candidate{path(3), 1, true, false},
		Candidate{path(4), 1, true, false})
	s.want(b, 1)
}

// TestRestart: the data plane's bindings are adopted, their sessions are not known, and their joins are counted.
func TestRestart(t *testing.T) {
	s := newSite(t)
	a, b, old := flow(true, 1, 1, 1000), flow(true, 1, 1, 1001), flow(true, 1, 1, 1002)
	s.bound = map[lisp.Flow]lisp.Path{a: path(2), old: path(1)}
	s.Adopt([]report.BoundFlow{
		{Flow: a, Path: path(2), CreatedAt: begin.Add(-time.Hour), LastUsedAt: begin.Add(-time.Second)},
		{Flow: old, Path: path(1), CreatedAt: begin.Add(-time.Hour), LastUsedAt: begin.Add(-2 * Silence)},
	})
	s.run(0)
	s.wantUnbound(old)
	s.join(b, 1)
	s.want(b, 3) // the two EIDs have one subflow on path 2
	s.wantCount(counter.SubflowUnknownSession, 1)
	if got, ok := s.Of(a); !ok || got.Why != status.SubflowAdopted || !got.OpenedAt.Equal(begin.Add(-time.Hour)) {
		t.Errorf("adopted: %+v, %t", got, ok)
	}
	s.used(a)
	s.run(30 * time.Second)
	s.want(a, 2)
	s.segment(a, false, flagRST, 1, 0, "")
	s.run(Closing)
	s.wantUnbound(a)
}

// TestUnknownBindings of the data plane end: their end was lost.
func TestUnknownBindings(t *testing.T) {
	s := newSite(t)
	f := flow(false, 1, 1, 1000)
	s.bound[f] = path(1)
	s.used(f)
	s.wantUnbound(f)
}

// TestOff: nothing is bound, what was bound ends, what was kept by the data plane too, and switching on again begins
// anew.
func TestOff(t *testing.T) {
	s := newSite(t)
	for port := range 3000 {
		s.connect(flow(false, 1, 1, port), port)
	}
	s.Configure(false, false)
	s.connect(flow(false, 1, 1, 4000), 4000)
	s.run(time.Second)
	s.wantEmpty()
	s.wantCount(counter.RefusedRole, 2)
	kept := flow(false, 1, 1, 5000)
	s.bound[kept] = path(1)
	s.Adopt([]report.BoundFlow{{Flow: kept, Path: path(1)}})
	s.drain()
	s.wantUnbound(kept)
	s.Configure(true, false)
	s.connect(flow(false, 1, 1, 1), 1)
	s.want(flow(false, 1, 1, 1), 2)
	s.Configure(false, false)
	s.Configure(true, false)
	s.run(time.Second)
	s.want(flow(false, 1, 1, 1), 2)
}

// TestRefusals: what cannot be read is counted, and binds nothing.
func TestRefusals(t *testing.T) {
	s := newSite(t)
	f := flow(false, 1, 1, 1000)
	s.segment(f, false, flagSYN, 100, 0, "1e0c 0001 0102030405060708")
	s.wantCount(counter.RefusedSubflowVersion, 1)
	s.segment(f, false, flagSYN, 100, 0, "1e02 0101")
	s.segment(f, false, flagSYN|flagFIN, 100, 0, capable)
	s.Handle(report.Subflow{Flow: f, TCP: header(flagSYN, capable)[:22]})
	s.wantCount(counter.RefusedSubflowOption, 3)
	udp, mixed := f, f
	udp.Protocol = 17
	mixed.Destination = flow(true, 1, 1, 1).Destination
	s.segment(udp, false, flagSYN, 100, 0, capable)
	s.segment(mixed, false, flagSYN, 100, 0, capable)
	s.wantCount(counter.RefusedEID, 2)
	s.segment(f, false, flagSYN, 100, 0, usual)
	s.segment(f, false, flagRST, 100, 0, "")
	s.segment(f, true, flagFIN, 100, 0, "")
	s.wantEmpty()
}

// TestPages lists each subflow once, and says by what its path was chosen.
func TestPages(t *testing.T) {
	s := newSite(t)
	for port := range 2500 {
		s.join(flow(false, 1, 1, port), 1)
	}
	s.connect(flow(false, 2, 1, 1), 1)
	s.join(flow(false, 2, 1, 2), 1)
	seen := map[lisp.Flow]status.SubflowReason{}
	for from, more := uint32(0), true; more; {
		var page []status.Subflow
		page, from, more = s.Page(from, 100)
		if len(page) > 100 {
			t.Fatalf("a page of %d", len(page))
		}
		for _, f := range page {
			if seen[f.Flow] != "" || f.Path != s.bound[f.Flow] || f.State != status.SubflowEstablished {
				t.Fatalf("%+v, bound to %s", f, s.bound[f.Flow])
			}
			seen[f.Flow] = f.Why
		}
	}
	for port, want := range map[lisp.Flow]status.SubflowReason{
		flow(false, 1, 1, 7): status.SubflowEIDs, flow(false, 2, 1, 1): status.SubflowFirst,
		flow(false, 2, 1, 2): status.SubflowSession,
	} {
		if seen[port] != want {
			t.Errorf("%s: %q, want %q", port, seen[port], want)
		}
	}
	if len(seen) != 2502 {
		t.Errorf("%d subflows", len(seen))
	}
}

// FuzzHandle: any octets of any flow leave a table that agrees with the data plane's, and that empties.
func FuzzHandle(f *testing.F) {
	f.Add(append(header(flagSYN, capable), 0), []byte{0, 1, 2})
	f.Add(header(flagSYN|flagACK, withKey(1)), []byte{0x80, 0x81, 3})
	f.Fuzz(func(t *testing.T, tcp, steps []byte) {
		s := newSite(t)
		for _, step := range steps {
			s.h.Advance(s.now)
			fl := flow(step&1 != 0, int(step>>1&1), int(step>>2&1), int(step>>3&3))
			if step&0x80 != 0 {
				fl = fl.Reverse()
			}
			s.Handle(report.Subflow{Flow: fl, FromCore: step&0x80 != 0, TCP: tcp})
			s.drain()
			s.run(time.Duration(step&0x60) * 100 * time.Millisecond)
			for known := range s.bound {
				if _, ok := s.Of(known); !ok {
					t.Fatalf("%s is bound and not known", known)
				}
			}
		}
		s.run(2 * Silence)
		s.wantEmpty()
	})
}
