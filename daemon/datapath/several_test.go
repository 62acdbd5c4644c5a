// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"maps"
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/forward"
	"loci/lisp"
)

// several is a site whose mapping has locators that share its packets.
type several struct {
	t       *testing.T
	watch   *Watch
	now     time.Time
	mapping lisp.Mapping
	rate    int
	packets uint64
	down    map[lisp.RLOC]bool // RLOC-probes are not answered
	lost    map[lisp.RLOC]int  // packets from so many octets on are lost
}

func newSeveral(t *testing.T, prefix string, rlocs ...string) *several {
	s := &several{
		t: t, watch: NewWatch(), now: start, rate: 50,
		down: map[lisp.RLOC]bool{}, lost: map[lisp.RLOC]int{},
	}
	s.watch.SetSources(own4, own6)
	s.mapping.Prefix = lisp.MustParsePrefix(prefix)
	for _, r := range rlocs {
		s.mapping.Locators = append(s.mapping.Locators, lisp.Locator{
			RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(r)), Priority: 1, Weight: 50, Reachable: true,
		})
	}
	return s
}

func (s *several) explain(netip.Addr) (e control.Explanation) {
	e.Entry, e.Told = &control.MapCacheStatus{}, s.mapping
	e.Entry.Mapping = s.mapping
	for _, l := range s.mapping.Locators {
		status := &control.LocatorStatus{RLOC: l.RLOC, State: control.LocatorUp, LastReplyAt: s.now}
		if s.down[l.RLOC] {
			status.State = control.LocatorDown
		}
		e.Locators = append(e.Locators, control.ExplainedLocator{Locator: l, State: status})
	}
	return e
}

// answer is what the site's router does with a check.
func (s *several) answer(c Check) {
	isUp := func(l *lisp.Locator) (int, bool) { return 0, !s.down[l.RLOC] }
	buckets := forward.Buckets(s.mapping.Locators, isUp)
	source := own6
	if c.To.Is4() {
		source = own4
	}
	taken, ok := forward.SelectLocator(s.mapping.Locators, &buckets, flowHash(source, c.To))
	from, isLost := s.lost[taken.RLOC]
	if ok && c.TTLs[0] <= 3 && (!isLost || c.Octets < from) {
		s.watch.Answer(s.now, Answer{Check: c, TTL: 3, From: taken.RLOC.Addr()})
	}
}

func (s *several) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(tick) {
		if s.now.Sub(start)%time.Second == 0 {
			s.packets += uint64(s.rate)
			s.watch.Use(s.now, &s.mapping, s.packets)
		}
		for _, q := range s.watch.Wanted(s.now) {
			f := FactsOf(q, s.explain)
			f.Octets = 1444
			s.watch.Learn(q, f)
		}
		s.watch.Expire(s.now)
		for _, c := range s.watch.Next(s.now) {
			s.answer(c)
		}
	}
}

// outcomes are those of the locators.
func (s *several) outcomes() map[string]Outcome {
	all := map[string]Outcome{}
	for _, state := range s.watch.States(s.now) {
		all[state.Peer()] = state.Outcome
	}
	return all
}

// cut loses packets from so many octets on to some of the locators, by the bits of which, and says what is to be known.
func (s *several) cut(which, octets int, lost Outcome) (want map[string]Outcome) {
	want = map[string]Outcome{}
	for i, l := range s.mapping.Locators {
		want[l.RLOC.String()] = Passes
		if which&(1<<i) != 0 {
			s.lost[l.RLOC], want[l.RLOC.String()] = octets, lost
		}
	}
	return want
}

// TestAnswersByEachLocatorAreRemembered where packets of a mapping take several of them: a cut that begins while the
// mapping is not used is found.
func TestAnswersByEachLocatorAreRemembered(t *testing.T) {
	downBefore := map[string][]int{"not used": nil, "both were down": {0, 1}, "one was down": {0}}
	for _, prefix := range []string{"10.2.0.0/24", "fd00:2::/64"} {
		for name, down := range downBefore {
			t.Run(prefix+" "+name, func(t *testing.T) {
				for octets, lost := range map[int]Outcome{0: Lost, 1400: LargeLost} {
					for which := 1; which <= 3; which++ {
						s := newSeveral(t, prefix, "192.0.2.1", "2001:db8::2")
						s.run(time.Minute)
						for _, i := range down {
							s.down[s.mapping.Locators[i].RLOC] = true
						}
						s.run(time.Minute)
						s.rate = 0
						s.run(15 * time.Minute)
						if all := s.outcomes(); len(all) > 0 {
							t.Fatalf("%v: the test proves nothing", all)
						}
						clear(s.down)
						want := s.cut(which, octets, lost)
						s.rate = 50
						s.run(40 * time.Second)
						if all := s.outcomes(); !maps.Equal(all, want) {
							t.Errorf("%v, want %v", all, want)
						}
					}
				}
			})
		}
	}
}
