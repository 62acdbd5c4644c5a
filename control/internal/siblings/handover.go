// SPDX-License-Identifier: Apache-2.0

package siblings

// Who gets the site's packets. Where the host can use none of our RLOCs it is a sibling that has one. Where the core does not answer us it
// is a sibling that the core answers, as it said since our doubt began: control messages may be lost on all paths while data packets
// pass. Where the core answers none of us, data packets decide. Then the handover stands until the core answers us, or the sibling has no
// link, is silent, or gave its packets away: that it goes deaf later as well says nothing about its path. What was given because none
// of our RLOCs could be used comes back when the core has answered us from them (comeback.go).

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/reach"
	"loci/control/internal/status"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// dataSilence is for how long no data packets come to an xTR before it gives its packets to a sibling to which they come.
	dataSilence = 10 * time.Second
	// dataLead is how much later they came to the sibling: the data plane may tell of them so late.
	dataLead = 5 * time.Second
)

// handover is who gets the site's packets.
type handover struct {
	to    int            // index of the sibling, -1 for none
	since timing.Instant // since when, or since when not
	why   status.SiblingPathReason
	actAt timing.Instant // not before, so that two siblings do not act at the same moment; 0 for nothing to be done
	next  int            // the sibling that is about to get them
}

// good reports whether a sibling answers and has a locator which it calls reachable.
func (row *sibling) good() bool {
	if row.heardAt == 0 || row.unanswered > siblingTries {
		return false
	}
	for _, up := range row.reachable {
		if up {
			return true
		}
	}
	return false
}

// stands reports whether the sibling that gets the packets may keep them.
func (s *Siblings) stands() bool { return s.hand.to >= 0 && s.Rows[s.hand.to].good() }

// withLink is the first sibling that has a path by its own word, -1 for none.
func (s *Siblings) withLink() int {
	return slices.IndexFunc(s.Rows, func(r sibling) bool { return r.good() })
}

// asked reports whether what a sibling said counts: it was asked since our doubt began, and since we last took our packets back.
func (s *Siblings) asked(row *sibling) bool {
	q := &row.core
	return row.good() && q.answeredAt != 0 && s.path.doubtSince != 0 && q.askedAt >= s.path.doubtSince && q.askedAt >= s.hand.since
}

// hearing is the sibling that said first that the core answers it, and did not say otherwise since, -1 for none.
func (s *Siblings) hearing() int {
	best := -1
	for i := range s.Rows {
		if row := &s.Rows[i]; s.asked(row) && row.core.yesAt != 0 && (best < 0 || row.core.yesAt < s.Rows[best].core.yesAt) {
			best = i
		}
	}
	return best
}

// receiving is the sibling that data packets still come to while they no more come to us, -1 for none. They have to have come until
// the core fell silent: to who gets none in good times their lack says nothing.
func (s *Siblings) receiving() int {
	until := s.path.heardAt
	if until == 0 {
		until = s.path.doubtSince
	}
	if s.Inquiries.dataAt == 0 || s.Inquiries.dataAt+timing.Instant(dataSilence) < until || s.h.Now-s.Inquiries.dataAt < timing.Instant(dataSilence) {
		return -1
	}
	best := -1
	for i := range s.Rows {
		row := &s.Rows[i]
		came := row.core.dataAt
		isFresh := came >= s.Inquiries.dataAt+timing.Instant(dataLead) && s.h.Now-came < timing.Instant(dataSilence)
		if s.asked(row) && isFresh && (best < 0 || came > s.Rows[best].core.dataAt) {
			best = i
		}
	}
	return best
}

// decide says who has to get the site's packets, and why.
func (s *Siblings) decide() (to int, why status.SiblingPathReason) {
	switch {
	case len(s.Rows) == 0:
		return -1, status.SiblingPathNone
	case s.ownDown():
		if s.stands() {
			return s.hand.to, status.SiblingPathRLOCsDown
		}
		return s.withLink(), status.SiblingPathRLOCsDown
	case s.waits():
		return s.hand.to, status.SiblingPathUnproven
	case !s.path.lost:
		return -1, status.SiblingPathNone
	case s.stands() && s.hand.why == status.SiblingPathNoData:
		return s.hand.to, s.hand.why
	case s.stands():
		return s.hand.to, status.SiblingPathNoCore
	}
	if to = s.hearing(); to >= 0 {
		return to, status.SiblingPathNoCore
	}
	return s.receiving(), status.SiblingPathNoData
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
	switch {
	case to < 0:
		s.hand.actAt = 0
		s.Giver.End()
		if s.hand.to < 0 {
			return false
		}
		s.takeBack()
		return true
	case to == s.hand.to:
		s.hand.why = why
		return false
	case s.hand.actAt == 0 || s.hand.next != to:
		s.hand.actAt, s.hand.next = s.h.Now, to
		if why != status.SiblingPathRLOCsDown { // both siblings may find out at the same moment
			s.hand.actAt = s.h.After(below(actJitter))
		}
		s.Giver.Begin(s.Rows[to].link())
	}
	if s.h.Now < s.hand.actAt {
		s.Timers.Set(CoreTimer, s.hand.actAt)
		return false
	}
	// Packets of a host whose link is down would be lost meanwhile; others wait until the mappings are there.
	if why != status.SiblingPathRLOCsDown && s.Giver.Busy() {
		return false
	}
	if why == status.SiblingPathNoData && s.Giver.Failed {
		s.hand.actAt = 0 // the sibling could not ask anybody for them
		return false
	}
	s.handTo(to, why)
	return true
}

func (s *Siblings) handTo(to int, why status.SiblingPathReason) {
	s.hand, s.back.since = handover{to: to, since: s.h.Now, why: why}, 0
	s.h.Count(counter.SiblingPathTaken)
	s.h.Emit(effect.SiblingPath{To: s.Rows[to].config.Address})
	s.h.Notice(effect.Notice{Kind: effect.NoticeSiblingPath, Remote: s.remote(&s.Rows[to]), Reason: string(why)})
}

func (s *Siblings) takeBack() {
	s.Giver.End()
	s.hand, s.back.since = handover{to: -1, since: s.h.Now}, 0
	s.h.Emit(effect.SiblingPath{})
	s.h.Notice(effect.Notice{Kind: effect.NoticeSiblingPathEnded})
}

// SiblingPath says who gets the site's packets.
func (s *Siblings) SiblingPath() status.SiblingPathStatus {
	status := status.SiblingPathStatus{Why: s.hand.why}
	if s.hand.to >= 0 {
		status.To = s.Rows[s.hand.to].config.Address
	}
	if s.hand.since != 0 {
		status.Since = s.h.Time(s.hand.since)
	}
	if s.path.lost {
		status.UnansweredSince = s.h.Time(s.path.heardAt)
	}
	return status
}

// Resolution is how things stand with the Map-Resolvers.
type Resolution struct {
	Silent bool        // none of them answers
	Last   lisp.Prefix // what they were asked for last
	Others bool        // Map-Servers acknowledge Map-Registers
}

// Judge finds out whether the core answers us, and asks the siblings where it may not. It
// reports whether silent Map-Resolvers are all that speaks against it.
func (s *Siblings) Judge(p *reach.Prober, r Resolution) (bySilence bool) {
	s.Inquiries.retry = p.Config.RetriesInterval
	about := s.throughCore(true)
	if about.rloc.IsZero() {
		about = s.throughCore(false)
	}
	again := s.h.After(s.path.judge(s.h, p, about, r.Silent))
	if s.path.lost { // the rule for that decides
		s.back.since = 0
	}
	if s.back.others = s.back.others || r.Others; s.waits() {
		again = min(again, s.back.ask(p))
	}
	s.Timers.Set(CoreTimer, again)
	s.askAboutCore(p, r.Last)
	return s.path.lost && s.path.bySilence
}

// throughCore is an RLOC of a sibling, of a family, that can be asked through the core; zero for none.
func (s *Siblings) throughCore(isV4 bool) witness {
	for _, l := range s.database.RLOCs {
		if _, family := s.h.RLOCOf(isV4); family && l.RLOC.Is4() == isV4 && s.isSiblings(l.RLOC) {
			return witness{l.RLOC, l.Prefix}
		}
	}
	return witness{}
}

// remote is where a sibling's control messages go.
func (s *Siblings) remote(row *sibling) netip.AddrPort {
	return netip.AddrPortFrom(row.config.Address, s.h.ControlPort)
}
