// SPDX-License-Identifier: Apache-2.0

package siblings

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

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/timing"
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
	Lost       bool
	BySilence  bool // of the Map-Resolvers alone
	nonce      uint64
	askedAt    timing.Instant
	unanswered int
	answers    int            // in a row
	answeredAt timing.Instant // 0 for never
	witness    witness
	other      bool // the witness is asked
}

// witness is an RLOC of another site that answered, with an EID-Prefix of it; zero for none.
type witness struct {
	rloc   lisp.RLOC
	prefix lisp.Prefix
}

// takes reports whether a Map-Reply answers the question through the core.
func (c *corePath) takes(s *Siblings, m *message.MapReply) bool {
	if c.nonce == 0 || m.Nonce != c.nonce {
		return false
	}
	c.nonce, c.unanswered, c.answeredAt = 0, 0, s.h.Now
	c.answers++
	s.h.Count(counter.SiblingAnswered)
	s.Timers.Set(CoreTimer, s.h.Now)
	return true
}

// ask sends an RLOC-probe to a sibling's RLOC, from an RLOC of ours; while the path is lost to the witness, too, in turn
// until one of them answers.
func (c *corePath) ask(s *Siblings) (asked bool) {
	if c.unanswered > 0 {
		c.other = c.Lost && !c.other
	}
	if own, family := s.h.RLOCOf(c.witness.rloc.Is4()); c.other && family && !c.witness.rloc.IsZero() {
		c.send(s, own, c.witness.rloc, c.witness.prefix)
		return true
	}
	for _, l := range s.database.RLOCs {
		if own, family := s.h.RLOCOf(l.RLOC.Is4()); family && s.isSiblings(l.RLOC) {
			c.send(s, own, l.RLOC, l.Prefix)
			return true
		}
	}
	return false
}

func (c *corePath) send(s *Siblings, own, to lisp.RLOC, p lisp.Prefix) {
	c.nonce, c.askedAt = s.h.Nonce(), s.h.Now
	c.unanswered++
	if c.unanswered > 1 {
		c.answers = 0
	}
	m := wire.MapRequest{Probe: true, LocalXTR: true, Nonce: c.nonce}
	m.Ask(lisp.EID{}, []lisp.RLOC{own}, p)
	payload, err := m.AppendTo(nil)
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	s.h.Send(netip.AddrPortFrom(own.Addr(), 0), netip.AddrPortFrom(to.Addr(), s.h.ControlPort), payload)
	s.h.Count(counter.SiblingAsked)
}

// Judge brings lost up to date and returns when to judge again. silent says that no Map-Resolver answers.
func (c *corePath) Judge(s *Siblings, p *reach.Prober, silent bool) (again time.Duration) {
	retry := p.Config.RetriesInterval
	answers, doubtful, dead := p.Table.Liveness()
	down := dead || silent
	switch {
	case answers != nil:
		*c = corePath{witness: witness{answers.RLOC, answers.Prefix}}
		return min(retry, time.Second)
	case !c.Lost && !down && !doubtful: // nobody has answered yet: nothing is known
		c.unanswered = 0
		return min(retry, time.Second)
	case c.Lost && (c.answers >= returnAnswers || c.BySilence && !silent):
		*c = corePath{witness: c.witness}
		return min(retry, time.Second)
	}
	wait := c.wait(p.Config)
	if c.askedAt != 0 && s.h.Now-c.askedAt < timing.Instant(wait) {
		return time.Duration(c.askedAt + timing.Instant(wait) - s.h.Now)
	}
	if c.unanswered > p.Config.Retries && !doubtful {
		c.Lost, c.BySilence = true, !dead
	}
	if !c.ask(s) { // only a sibling could tell otherwise
		c.unanswered, c.askedAt = p.Config.Retries+1, s.h.Now
	}
	return wait
}

// wait is how long after a question the next one follows.
func (c *corePath) wait(p settings.ProbingConfig) time.Duration {
	switch {
	case c.Lost && c.answers > 0: // it has to prove that it is back
		return min(p.Interval, max(p.RetriesInterval, time.Second))
	case c.Lost || c.unanswered == 0:
		return p.Interval
	}
	return p.RetriesInterval
}

// decide says who has to get the site's packets, and why.
func (s *Siblings) decide() (to int, why status.DetourReason) {
	switch {
	case len(s.Rows) == 0:
		return -1, status.DetourNone
	case s.ownDown():
		return s.good(), status.DetourRLOCsDown
	case s.Path.Lost:
		return s.good(), status.DetourNoPath
	}
	return -1, status.DetourNone
}

// ownDown reports that the host can use none of the locators that are ours.
func (s *Siblings) ownDown() bool {
	found := false
	for _, l := range s.database.RLOCs {
		if !slices.Contains(s.h.RLOCs, l.RLOC) {
			continue
		}
		if l.Reachable {
			return false
		}
		found = true
	}
	return found
}

// Act carries out a decision; changed reports that our R bits are others now.
func (s *Siblings) Act(below func(time.Duration) time.Duration) (changed bool) {
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
		s.actAt = s.h.Now
		if why == status.DetourNoPath { // both siblings may find out at the same moment
			s.actAt = s.h.After(below(actJitter))
		}
	}
	if s.h.Now < s.actAt {
		s.Timers.Set(CoreTimer, s.actAt)
		return false
	}
	s.actAt, s.detourBy, s.detourAt, s.detourWhy = 0, to, s.h.Now, why
	s.h.Count(counter.Detoured)
	s.h.Emit(effect.Detour{To: s.Rows[to].config.Address})
	s.h.Notice(effect.Notice{Kind: effect.NoticeDetour, Remote: s.remote(&s.Rows[to]), Detail: string(why)})
	return true
}

func (s *Siblings) endDetour() {
	s.detourBy, s.detourAt, s.detourWhy = -1, s.h.Now, status.DetourNone
	s.h.Emit(effect.Detour{})
	s.h.Notice(effect.Notice{Kind: effect.NoticeDetourEnded})
}

// Detour says who gets the site's packets.
func (s *Siblings) Detour() status.DetourStatus {
	status := status.DetourStatus{Why: s.detourWhy}
	if s.detourBy >= 0 {
		status.To = s.Rows[s.detourBy].config.Address
	}
	if s.detourAt != 0 {
		status.Since = s.h.Time(s.detourAt)
	}
	return status
}
