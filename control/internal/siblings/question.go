// SPDX-License-Identifier: Apache-2.0

package siblings

// Does the core answer you? An xTR whose RLOC-probes stay unanswered asks its siblings over the site's link. The question is an
// RLOC-probe about an EID-Prefix of another site with a mapping of it (M): the locator that the sibling is to probe from its own
// RLOC, or none: then it asks its Map-Resolver. The answer is a Map-Reply with one locator, whose R bit says whether an answer came,
// and whose weight is how many seconds ago the last data packet came to the sibling. To other routers it is an RLOC-probe
// about an EID-Prefix that is not theirs.

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// soonQuestions follow each other quickly, the others at questionPause.
	soonQuestions = 3
	questionPause = 2 * time.Second
	// longAgo is what an answer says of data packets that came never, or no more.
	longAgo = 255
)

// question is what a sibling was asked last about the core, and what it says.
type question struct {
	nonce      uint64 // 0 for none
	about      witness
	askedAt    timing.Instant
	asked      int // since the doubt began
	answeredAt timing.Instant
	yes        bool           // the last answer
	yesAt      timing.Instant // since when it says yes in this doubt, 0 where its last answer is no
	dataAt     timing.Instant // when data packets last came to it, 0 for never
}

// askAboutCore asks all siblings while there is a doubt and the packets are still ours. last is what a Map-Resolver was
// asked for last.
func (s *Siblings) askAboutCore(p *reach.Prober, last lisp.Prefix) {
	if s.path.doubtSince == 0 || s.hand.to >= 0 {
		return
	}
	for i := range s.Rows {
		q := &s.Rows[i].core
		if q.askedAt < max(s.path.doubtSince, s.hand.since) {
			*q = question{dataAt: q.dataAt}
		}
		if q.askedAt == 0 || s.h.Now-q.askedAt >= timing.Instant(q.pause(p.Config.RetriesInterval)) {
			s.askRow(&s.Rows[i], p, last)
		}
	}
}

func (q *question) pause(retry time.Duration) time.Duration {
	if q.asked < soonQuestions {
		return retry + retry/2 // an answer comes within one
	}
	return max(questionPause, 2*retry)
}

func (s *Siblings) askRow(row *sibling, p *reach.Prober, last lisp.Prefix) {
	q := &row.core
	about := s.path.witness
	if l, at := p.Table.Proven(s.path.named, nil); l != nil {
		s.path.named, about = at, witness{l.RLOC, l.Prefix}
	} else if q.answeredAt != 0 && !q.yes && !q.about.rloc.IsZero() && !last.IsZero() {
		about = witness{} // the witness may be gone: the sibling asks its Map-Resolver
	}
	if about.rloc.IsZero() {
		about.prefix = last
	}
	if about.prefix.IsZero() {
		return
	}
	q.nonce, q.about, q.askedAt = s.h.Nonce(), about, s.h.Now
	q.asked++
	named := wire.RecordOf(lisp.Mapping{Prefix: about.prefix, Locators: about.locators()})
	m := wire.MapRequest{Probe: true, MapDataPresent: true, LocalXTR: true, Nonce: q.nonce, MapReplyRecord: &named}
	m.Ask(lisp.EID{}, []lisp.RLOC{lisp.RLOCFromAddr(row.config.Local)}, about.prefix)
	s.send(row, &m, counter.SiblingAsked)
}

func (w witness) locators() lisp.LocatorSet {
	if w.rloc.IsZero() {
		return nil
	}
	l := lisp.NewLocator(w.rloc)
	l.Reachable = false
	return lisp.LocatorSet{l}
}

// takesAnswer reports whether a Map-Reply answers the last question to a sibling, and takes it.
func (s *Siblings) takesAnswer(i int, m *message.MapReply) bool {
	q := &s.Rows[i].core
	if q.nonce == 0 || q.nonce != m.Nonce {
		return false
	}
	s.h.Count(counter.SiblingAnswered)
	if len(m.Mappings) != 1 || m.Mappings[0].Prefix != q.about.prefix || len(m.Mappings[0].Locators) != 1 {
		return true
	}
	l := m.Mappings[0].Locators[0]
	if named := q.about.rloc; named.IsZero() && !l.Local || !named.IsZero() && l.RLOC != named {
		return true
	}
	q.answeredAt, q.yes = s.h.Now, l.Reachable
	switch {
	case !q.yes: // what it said before is over
		q.yesAt = 0
	case q.yesAt == 0:
		q.yesAt = s.h.Now
	}
	if l.Weight != longAgo {
		q.dataAt = max(q.dataAt, s.h.Now-timing.Instant(l.Weight)*timing.Instant(time.Second))
	}
	return true
}

// coreStatus is what a sibling says of the core.
func (s *Siblings) coreStatus(row *sibling, told *status.SiblingStatus) {
	if q := &row.core; q.answeredAt != 0 {
		told.CoreAskedAt, told.CoreAnswers = s.h.Time(q.answeredAt), q.yes
		if q.dataAt > 0 {
			told.DataAt = s.h.Time(q.dataAt)
		}
	}
}

// probe sends an RLOC-probe through the core, and reports whether it could be sent.
func probe(h *system.System, own lisp.RLOC, to witness, nonce uint64) bool {
	m := wire.MapRequest{Probe: true, LocalXTR: true, Nonce: nonce}
	m.Ask(lisp.EID{}, []lisp.RLOC{own}, to.prefix)
	payload, err := m.AppendTo(nil)
	if err != nil {
		h.Count(counter.RefusedEncoding)
		return false
	}
	h.Send(netip.AddrPortFrom(own.Addr(), 0), netip.AddrPortFrom(to.rloc.Addr(), h.ControlPort), payload)
	return true
}
