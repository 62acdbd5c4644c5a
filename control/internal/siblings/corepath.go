// SPDX-License-Identifier: Apache-2.0

package siblings

// Whether this xTR has a path to the core, and forwarding by a
// sibling while it has none. The configuration says which own locators the host can use; beyond
// that the path is lost when every RLOC that answered once is unconfirmed or down, and a sibling's RLOC,
// asked through the core, does not answer either: one dead site is no lost path. Where the
// map-cache is empty, Map-Resolvers that are silent, all of them, say as much. That the path
// is back a sibling's RLOC tells, or the one that answered last before: the sibling may have
// lost its own path meanwhile. Nothing goes to a sibling that has no path itself.

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/system"
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
	lost       bool
	bySilence  bool // of the Map-Resolvers alone
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
func (c *corePath) takes(h *system.System, m *message.MapReply) bool {
	if c.nonce == 0 || m.Nonce != c.nonce {
		return false
	}
	c.nonce, c.unanswered, c.answeredAt = 0, 0, h.Now
	c.answers++
	h.Count(counter.SiblingAnswered)
	return true
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
	c.nonce, c.askedAt = h.Nonce(), h.Now
	c.unanswered++
	if c.unanswered > 1 {
		c.answers = 0
	}
	m := wire.MapRequest{Probe: true, LocalXTR: true, Nonce: c.nonce}
	m.Ask(lisp.EID{}, []lisp.RLOC{own}, to.prefix)
	payload, err := m.AppendTo(nil)
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return
	}
	h.Send(netip.AddrPortFrom(own.Addr(), 0), netip.AddrPortFrom(to.rloc.Addr(), h.ControlPort), payload)
	h.Count(counter.SiblingAsked)
}

// judge brings lost up to date and returns when to judge again. sibling is an RLOC of a sibling; silent says that no
// Map-Resolver answers.
func (c *corePath) judge(h *system.System, p *reach.Prober, sibling witness, silent bool) (again time.Duration) {
	retry := p.Config.RetriesInterval
	answers, doubtful, dead := p.Table.Liveness()
	down := dead || silent
	switch {
	case answers != nil:
		*c = corePath{witness: witness{answers.RLOC, answers.Prefix}}
		return min(retry, time.Second)
	case !c.lost && !down && !doubtful: // no RLOC has answered yet: nothing is known
		c.unanswered = 0
		return min(retry, time.Second)
	case c.lost && (c.answers >= returnAnswers || c.bySilence && !silent):
		*c = corePath{witness: c.witness}
		return min(retry, time.Second)
	}
	wait := c.wait(p.Config)
	if c.askedAt != 0 && h.Now-c.askedAt < timing.Instant(wait) {
		return time.Duration(c.askedAt + timing.Instant(wait) - h.Now)
	}
	if c.unanswered > p.Config.Retries && !doubtful {
		c.lost, c.bySilence = true, !dead
	}
	if !c.ask(h, sibling) { // only a sibling could tell otherwise
		c.unanswered, c.askedAt = p.Config.Retries+1, h.Now
	}
	return wait
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
