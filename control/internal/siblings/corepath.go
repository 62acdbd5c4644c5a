// SPDX-License-Identifier: Apache-2.0

package siblings

// Whether the core answers this xTR. It does not when every RLOC that answered once is unconfirmed
// or down, and a sibling's RLOC, asked through the core, does not answer either: one dead site is no
// lost path. Where the map-cache is empty, Map-Resolvers that are silent, all of them, say as much.
// That the core answers again a sibling's RLOC tells, or the one that answered last before: the
// sibling may have lost its own path meanwhile. From the first RLOC-probe on that stays unanswered
// there is a doubt. What follows from either, handover.go decides: a core that does not answer may
// still forward data packets.

import (
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
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
	askedAt    timing.Instant
	asked      lisp.RLOC // and whom
	unanswered int
	answers    int            // in a row
	answeredAt timing.Instant // 0 for never
	witness    witness
	other      bool           // the witness is asked
	doubtSince timing.Instant // the core left an RLOC-probe unanswered, and has not answered since; 0 for no doubt
	heardAt    timing.Instant // when the core was last known to answer, 0 for never
	named      uint32         // row of the locator that siblings were asked about last
}

// witness is an RLOC of another site that answered, with an EID-Prefix of it; zero for none.
type witness struct {
	rloc   lisp.RLOC
	prefix lisp.Prefix
}

// takes reports whether a Map-Reply answers the question through the core.
func (c *corePath) takes(h *system.System, m *message.MapReply) bool {
	if c.nonce == 0 || m.Nonce != c.nonce {
		return false
	}
	c.nonce = 0
	h.CoreAnswered(c.asked.Addr(), m.From.Addr(), c.askedAt)
	c.heard(h)
	h.Count(counter.SiblingAnswered)
	return true
}

// heard notes that the core answers us, be it for a sibling: what siblings said before counts no more, and to doubt anew needs another
// RLOC-probe that stays unanswered.
func (c *corePath) heard(h *system.System) {
	c.unanswered, c.answeredAt = 0, h.Now
	c.answers++
	c.doubtSince, c.heardAt = 0, h.Now
}

// doubt notes that the core leaves our RLOC-probes unanswered. An answer to the question through the core ended a doubt: it needs an
// unanswered one of those to begin anew.
func (c *corePath) doubt(h *system.System, live reach.Liveness, silent bool) {
	unanswered := live.Unanswered || silent && !live.Doubtful
	if c.doubtSince == 0 && unanswered && (c.answeredAt == 0 || c.unanswered > 1) {
		c.doubtSince = h.Now
	}
}

// asksNow reports whether an RLOC is asked again and again: its last RLOC-probe is not answered, and the next one not due.
func (c *corePath) asksNow(h *system.System, r lisp.RLOC, retry time.Duration) bool {
	return c.unanswered > 0 && c.nonce != 0 && c.asked == r && h.Now-c.askedAt < timing.Instant(retry)
}

// ask sends an RLOC-probe to a sibling's RLOC, from an RLOC of ours; while the path is lost to the witness, too, alternating
// until one of them answers.
func (c *corePath) ask(h *system.System, sibling witness) (asked bool) {
	if c.unanswered > 0 {
		c.other = c.lost && !c.other
	}
	if own, family := h.RLOCOf(c.witness.rloc.Is4()); c.other && family && !c.witness.rloc.IsZero() {
		c.sendProbe(h, own, c.witness)
		return true
	}
	own, family := h.RLOCOf(sibling.rloc.Is4())
	if !family || sibling.rloc.IsZero() {
		return false
	}
	c.sendProbe(h, own, sibling)
	return true
}

func (c *corePath) sendProbe(h *system.System, own lisp.RLOC, to witness) {
	c.nonce, c.askedAt, c.asked = h.Nonce(), h.Now, to.rloc
	c.unanswered++
	if c.unanswered > 1 {
		c.answers = 0
	}
	if probe(h, own, to, c.nonce) {
		h.Count(counter.SiblingAsked)
	}
}

// judge brings lost up to date and returns when to judge again. sibling is an RLOC of a sibling; silent says that no
// Map-Resolver answers.
func (c *corePath) judge(h *system.System, p *reach.Prober, sibling witness, silent bool) (again time.Duration) {
	often := min(p.Config.RetriesInterval, time.Second)
	live := p.Table.Liveness()
	switch {
	case live.Answers != nil:
		*c = corePath{witness: witness{live.Answers.RLOC, live.Answers.Prefix}, heardAt: h.Now}
		return often
	case !c.lost && !live.Down && !silent && !live.Doubtful: // no RLOC has answered yet: nothing is known
		c.unanswered, c.doubtSince = 0, 0
		return often
	case c.lost && (c.answers >= returnAnswers || c.bySilence && !silent):
		*c = corePath{witness: c.witness, heardAt: h.Now}
		return often
	}
	if c.doubtSince != 0 && live.AnsweredAt > c.doubtSince { // one answer does not bring a locator back, but ends the doubt
		c.heard(h)
	}
	c.doubt(h, live, silent)
	wait := c.wait(p.Config)
	if c.askedAt != 0 && h.Now-c.askedAt < timing.Instant(wait) {
		return min(often, time.Duration(c.askedAt+timing.Instant(wait)-h.Now))
	}
	if c.unanswered > p.Config.Retries && !live.Doubtful {
		c.lost, c.bySilence = true, !live.Down
	}
	if !c.ask(h, sibling) { // only a sibling could tell otherwise
		c.unanswered, c.askedAt = p.Config.Retries+1, h.Now
	}
	return min(often, wait)
}

// wait is how long after a question the next one follows.
func (c *corePath) wait(p settings.ProbingConfig) time.Duration {
	switch {
	case c.lost && c.answers > 0: // it has to prove that it is back
		return min(p.Interval, max(p.RetriesInterval, time.Second))
	case c.lost || c.unanswered == 0:
		return p.Interval
	}
	return p.RetriesInterval
}
