// SPDX-License-Identifier: Apache-2.0

package control

// Whether this xTR has a path to the core, and the detour of the site's packets by a
// sibling while it has none. The configuration says which own locators the host can use; beyond
// that the path is lost when every RLOC that answered once is unconfirmed or down, and a sibling's RLOC,
// asked through the core, does not answer either: one dead site is no lost path. Where the
// map-cache is empty, Map-Resolvers that are silent, all of them, say as much. That the path
// is back a sibling's RLOC tells, or the one that answered last before: the sibling may have
// lost its own path meanwhile. Nothing goes to a sibling that has no path itself.

import (
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// actJitter: siblings that lose the core at the same moment act at different ones.
	actJitter = 200 * time.Millisecond
	// returnAnswers in a row bring the path back.
	returnAnswers = 3
)

// corePath is the probing of a sibling's RLOC through the core, and of a witness.
type corePath struct {
	lost       bool
	bySilence  bool // of the Map-Resolvers alone
	nonce      uint64
	askedAt    instant
	unanswered int
	answers    int     // in a row
	answeredAt instant // 0 for never
	witness    witness
	other      bool // the witness is asked
}

// witness is an RLOC of another site that answered, with an EID-Prefix of it; zero for none.
type witness struct {
	rloc   lisp.RLOC
	prefix lisp.Prefix
}

// takes reports whether a Map-Reply answers the question through the core.
func (c *corePath) takes(s *siblings, m *mapReply) bool {
	if c.nonce == 0 || m.nonce != c.nonce {
		return false
	}
	c.nonce, c.unanswered, c.answeredAt = 0, 0, s.h.now
	c.answers++
	s.h.count(SiblingAnswered)
	s.timers.set(coreTimer, s.h.now)
	return true
}

// ask sends an RLOC-probe to a sibling's RLOC, from an RLOC of ours; while the path is lost to the witness, too, in turn
// until one of them answers.
func (c *corePath) ask(s *siblings) (asked bool) {
	if c.unanswered > 0 {
		c.other = c.lost && !c.other
	}
	if own, family := s.h.rlocOf(c.witness.rloc.Is4()); c.other && family && !c.witness.rloc.IsZero() {
		c.send(s, own, c.witness.rloc, c.witness.prefix)
		return true
	}
	for _, l := range s.database.rlocs {
		if own, family := s.h.rlocOf(l.rloc.Is4()); family && s.isSiblings(l.rloc) {
			c.send(s, own, l.rloc, l.prefix)
			return true
		}
	}
	return false
}

func (c *corePath) send(s *siblings, own, to lisp.RLOC, p lisp.Prefix) {
	c.nonce, c.askedAt = s.h.nonce(), s.h.now
	c.unanswered++
	if c.unanswered > 1 {
		c.answers = 0
	}
	m := wire.MapRequest{Probe: true, LocalXTR: true, Nonce: c.nonce}
	m.Ask(lisp.EID{}, []lisp.RLOC{own}, p)
	payload, err := m.AppendTo(nil)
	if err != nil {
		s.h.count(RefusedEncoding)
		return
	}
	s.h.send(netip.AddrPortFrom(own.Addr(), 0), netip.AddrPortFrom(to.Addr(), s.h.controlPort), payload)
	s.h.count(SiblingAsked)
}

// judge brings lost up to date and returns when to judge again. silent says that no Map-Resolver answers.
func (c *corePath) judge(s *siblings, p *prober, silent bool) (again time.Duration) {
	retry := p.config.RetriesInterval
	answers, doubtful, dead := p.table.liveness()
	down := dead || silent
	switch {
	case answers != nil:
		*c = corePath{witness: witness{answers.rloc, answers.prefix}}
		return min(retry, time.Second)
	case !c.lost && !down && !doubtful: // nobody has answered yet: nothing is known
		c.unanswered = 0
		return min(retry, time.Second)
	case c.lost && (c.answers >= returnAnswers || c.bySilence && !silent):
		*c = corePath{witness: c.witness}
		return min(retry, time.Second)
	}
	wait := c.wait(p.config)
	if c.askedAt != 0 && s.h.now-c.askedAt < instant(wait) {
		return time.Duration(c.askedAt + instant(wait) - s.h.now)
	}
	if c.unanswered > p.config.Retries && !doubtful {
		c.lost, c.bySilence = true, !dead
	}
	if !c.ask(s) { // only a sibling could tell otherwise
		c.unanswered, c.askedAt = p.config.Retries+1, s.h.now
	}
	return wait
}

// wait is how long after a question the next one follows.
func (c *corePath) wait(p ProbingConfig) time.Duration {
	switch {
	case c.lost && c.answers > 0: // it has to prove that it is back
		return min(p.Interval, max(p.RetriesInterval, time.Second))
	case c.lost || c.unanswered == 0:
		return p.Interval
	}
	return p.RetriesInterval
}

// decide says who has to get the site's packets, and why.
func (s *siblings) decide() (to int, why DetourReason) {
	switch {
	case len(s.rows) == 0:
		return -1, DetourNone
	case s.ownDown():
		return s.good(), DetourRLOCsDown
	case s.path.lost:
		return s.good(), DetourNoPath
	}
	return -1, DetourNone
}

// ownDown reports that the host can use none of the locators that are ours.
func (s *siblings) ownDown() bool {
	found := false
	for _, l := range s.database.rlocs {
		if !slices.Contains(s.h.rlocs, l.rloc) {
			continue
		}
		if l.reachable {
			return false
		}
		found = true
	}
	return found
}

// act carries out a decision; changed reports that our R bits are others now.
func (s *siblings) act(below func(time.Duration) time.Duration) (changed bool) {
	to, why := s.decide()
	if to < 0 {
		s.actAt = 0
		if s.detourBy < 0 {
			return false
		}
		s.endDetour()
		return true
	}
	if to == s.detourBy {
		s.detourWhy = why
		return false
	}
	if s.actAt == 0 {
		s.actAt = s.h.now
		if why == DetourNoPath { // both siblings may find out at the same moment
			s.actAt = s.h.after(below(actJitter))
		}
	}
	if s.h.now < s.actAt {
		s.timers.set(coreTimer, s.actAt)
		return false
	}
	s.actAt, s.detourBy, s.detourAt, s.detourWhy = 0, to, s.h.now, why
	s.h.count(Detoured)
	s.h.emit(Detour{To: s.rows[to].config.Address})
	s.h.notice(Notice{Kind: NoticeDetour, Remote: s.remote(&s.rows[to]), Detail: string(why)})
	return true
}

func (s *siblings) endDetour() {
	s.detourBy, s.detourAt, s.detourWhy = -1, s.h.now, DetourNone
	s.h.emit(Detour{})
	s.h.notice(Notice{Kind: NoticeDetourEnded})
}

// detour says who gets the site's packets.
func (s *siblings) detour() DetourStatus {
	status := DetourStatus{Why: s.detourWhy}
	if s.detourBy >= 0 {
		status.To = s.rows[s.detourBy].config.Address
	}
	if s.detourAt != 0 {
		status.Since = s.h.time(s.detourAt)
	}
	return status
}
