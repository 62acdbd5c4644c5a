// SPDX-License-Identifier: Apache-2.0

package subflow

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/system"
	"loci/lisp"
)

// answererSite is an Answerer in virtual time, with the paths of a site.
type answererSite struct {
	*testing.T
	*Answerer
	h     *system.System
	now   time.Time
	paths []Candidate
}

func newAnswererSite(t *testing.T) *answererSite {
	s := &answererSite{T: t, now: begin, h: system.New(begin, func([]byte) {})}
	s.Answerer = NewAnswerer(s.h)
	s.paths = []Candidate{{path(1), 2, true, false}, {path(2), 1, true, false}, {path(3), 1, true, false}}
	return s
}

var asker = netip.MustParseAddr("192.0.2.99")

// want wants that a flow gets a path.
func (s *answererSite) want(f lisp.Flow, n int) {
	s.Helper()
	if p, ok := s.Choose(f, asker, s.paths); !ok || p != path(n) {
		s.Errorf("%s gets %s, %t, want %s", f, p, ok, path(n))
	}
}

func (s *answererSite) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(time.Second)
		s.h.Advance(s.now)
		for id, ok := s.Timers.Due(s.h.Now); ok; id, ok = s.Timers.Due(s.h.Now) {
			s.HandleTimeout(id)
		}
	}
}

// TestETRChooses by the flows of the two EIDs, then by priority and order. A flow that is known keeps its path.
func TestETRChooses(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		s := newAnswererSite(t)
		for i, want := range []int{2, 3, 1, 2, 3, 1} {
			s.want(flow(v6, 1, 1, 1000+i), want)
		}
		for i, want := range []int{2, 3, 1, 2, 3, 1} {
			s.want(flow(v6, 1, 1, 1000+i), want)
		}
		s.want(flow(v6, 1, 2, 1000), 2) // other EIDs begin anew
		s.want(flow(v6, 2, 1, 1000), 2)
		if s.Size() != 8 {
			t.Errorf("%d flows are known", s.Size())
		}
	})
}

// TestETRWithoutAPath chooses none that no packet can take, and another one when a flow's own is gone.
func TestETRWithoutAPath(t *testing.T) {
	s := newAnswererSite(t)
	s.want(flow(false, 1, 1, 1000), 2)
	s.paths[1].Usable = false
	s.want(flow(false, 1, 1, 1000), 2) // it may come back: the same answer
	s.want(flow(false, 1, 1, 1001), 3)
	s.paths = s.paths[:1]
	s.want(flow(false, 1, 1, 1000), 1)
	s.paths[0].Usable = false
	if p, ok := s.Choose(flow(false, 1, 1, 1002), asker, s.paths); ok {
		t.Errorf("%s is chosen", p)
	}
	if s.Size() != 2 || s.h.Counters[counter.SubflowUnbound] != 1 {
		t.Errorf("%d flows are known", s.Size())
	}
}

// TestFullTableOfAnETR: one source EID has a quarter of it, nothing is evicted, and all of it ends.
func TestFullTableOfAnETR(t *testing.T) {
	s := newAnswererSite(t)
	for source := range 5 {
		for i := range MaxOfSource {
			f := flow(false, source, 1, 1+i)
			if _, ok := s.Choose(f, asker, s.paths); ok != (source < 4) {
				t.Fatalf("flow %d of source %d: answered %t", i, source, ok)
			}
		}
		if f := flow(false, source, 2, 1); source < 4 {
			if _, ok := s.Choose(f, asker, s.paths); ok {
				t.Errorf("source %d has more than a quarter", source)
			}
		}
	}
	if s.Size() != MaxFlows || s.h.Counters[counter.RefusedSubflowTable] != MaxOfSource+4 {
		t.Errorf("%d flows, %d refused", s.Size(), s.h.Counters[counter.RefusedSubflowTable])
	}
	s.run(time.Minute)
	last := flow(false, 1, 1, 1)
	want, _ := s.PathOf(last)
	if p, ok := s.Choose(last, asker, s.paths); !ok || p != want {
		t.Errorf("a known flow gets %s, want %s", p, want)
	}
	s.run(remembered - 30*time.Second)
	if _, known := s.PathOf(last); s.Size() != 1 || !known {
		t.Errorf("%d flows are left, %t that was asked for again", s.Size(), known)
	}
	s.run(time.Minute)
	if s.Size() != 0 || len(s.flows.pairs) != 0 || len(s.flows.sources) != 0 || s.flows.rows.Len() != 0 {
		t.Errorf("%d flows are left", s.Size())
	}
}

// TestQuestionsAreBounded: of a flow the last three nonces count, and none of one that ended. A flood of SYNs asks no
// faster than the rate.
func TestQuestionsAreBounded(t *testing.T) {
	s := newSite(t)
	sent := uint64(0)
	s.Asker.Send = func(*lisp.Flow, int) (uint64, int) {
		sent++
		return sent, 2
	}
	s.Configure(true, true)
	f := flow(false, 1, 1, 1000)
	s.connect(f, 1)
	s.runAsking(20 * time.Second)
	if nonces := len(s.Asker.byNonce); nonces != rememberedNonces {
		t.Errorf("%d nonces count", nonces)
	}
	s.HandleAnswer(Answer{Nonce: 1, Flow: lisp.Flow{Destination: f.Destination, Protocol: 6, SourcePort: 1000, DestinationPort: 443}, Path: path(1), Lifetime: time.Minute})
	s.wantCount(counter.RefusedNonce, 1)
	s.runAsking(3 * time.Minute)
	if s.Asker.Timers.Size() != 0 || len(s.Asker.byNonce) != 0 || s.Size() != 0 {
		t.Errorf("%d questions, %d nonces, %d subflows are left", s.Asker.Timers.Size(), len(s.Asker.byNonce), s.Size())
	}
	sent = 0
	for i := range 12000 {
		s.segment(flow(false, i, 1, 1000), false, flagSYN, 100, 0, capable)
	}
	if limit := uint64(questionRate().Burst); sent > limit {
		t.Errorf("%d Map-Requests at once, want at most %d", sent, limit)
	}
	s.runAsking(time.Minute)
	if len(s.Asker.byNonce) != 0 {
		t.Errorf("%d nonces are left", len(s.Asker.byNonce))
	}
}

// runAsking is run with the questions that are due.
func (s *site) runAsking(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.run(100 * time.Millisecond)
		for id, ok := s.Asker.Timers.Due(s.h.Now); ok; id, ok = s.Asker.Timers.Due(s.h.Now) {
			s.Asker.HandleTimeout(id)
		}
	}
}

// TestAnsweredPathThatDoesNotAnswer: its subflow goes by its hash until it does.
func TestAnsweredPathThatDoesNotAnswer(t *testing.T) {
	s := newSite(t)
	nonce := uint64(0)
	s.Asker.Send = func(*lisp.Flow, int) (uint64, int) {
		nonce++
		return nonce, 1
	}
	s.Configure(true, true)
	f := flow(false, 1, 1, 1000)
	s.connect(f, 1)
	s.HandleAnswer(Answer{
		Nonce: 1, From: asker, Path: path(3), Lifetime: time.Hour,
		Flow: lisp.Flow{Destination: f.Destination, Protocol: 6, SourcePort: 1000, DestinationPort: 443},
	})
	s.drain()
	s.want(f, 3)
	s.paths[2].Usable, s.paths[2].Avoided = false, true
	s.StatesChanged()
	s.run(2 * time.Second)
	s.wantUnbound(f)
	s.paths[2].Usable, s.paths[2].Avoided = true, false
	s.StatesChanged()
	s.run(2 * time.Second)
	s.want(f, 3)
	s.paths[2].Usable = false // down: the data plane leaves it
	s.StatesChanged()
	s.run(2 * time.Second)
	s.want(f, 3)
}
