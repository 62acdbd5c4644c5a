// SPDX-License-Identifier: Apache-2.0

package control

// RLOC-probing (RFC 9301 s.7.1): Map-Requests with the P bit, straight to each RLOC
// of the map-cache, and what their answers say. A probe that stays unanswered is
// retried at short intervals, then the locator is unconfirmed; it goes on being probed, less
// and less often. A mapping in an answer is never believed: when it differs, the
// mapping system is asked, because nothing authenticates the answer.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// probeNonces is how many unanswered probes of a locator may still be answered.
	probeNonces = 4
	// probeBackoffMax bounds the doublings of the interval for locators that do not answer.
	probeBackoffMax = 2
	// probeJitterPart: intervals vary by up to this part of them, to both sides.
	probeJitterPart = 5
	// confirmInterval is how far apart the answers are that bring a locator back: ETRs
	// answer once in 3 seconds (RFC 9301 s.5.4), and one refused would begin it anew.
	confirmInterval = 3100 * time.Millisecond
	// reviewRows is how many locators one turn brings into line with another configuration.
	reviewRows = 2048
	// usualProbeOctets is enough for an RLOC-probe about an IPv6 EID-Prefix of any Instance-ID.
	usualProbeOctets = 80
	// prefixSearchSteps bounds one search for a mapping that has an RLOC.
	prefixSearchSteps = 4096
)

// probeState is the probes of one locator.
type probeState struct {
	nonces         [probeNonces]uint64 // 0 for none
	sentAts        [probeNonces]instant
	turn           int // where the next nonce goes
	unanswered     int // probes since the last answer
	sent, answered uint64
	sentAt         instant
	answeredAt     instant
	differing      lisp.LocatorSet // of an answer, asked about already
	cursor         uint32          // of the search for a mapping
	renewal        renewal
}

// prober probes the locators of the table.
type prober struct {
	h       *host
	config  ProbingConfig
	table   locatorTable
	byNonce map[uint64]uint32
	limit   bucket
	find    func(lisp.Prefix) (lisp.LocatorSet, bool) // in the map-cache
	renew   func(*locator, *cacheEntry)               // asks for a mapping whose locators do not answer

	families [2]bool // in which we have an RLOC: IPv4, IPv6
	reviewed uint32  // rows that the configuration has reached
	reviews  deadlines
}

// newProber makes a prober without locators.
func newProber(h *host) *prober {
	return &prober{h: h, table: newLocatorTable(h), byNonce: make(map[uint64]uint32)}
}

// configure takes over other intervals. What was off begins now.
func (p *prober) configure(c ProbingConfig) {
	_, v4 := p.h.rlocOf(true)
	_, v6 := p.h.rlocOf(false)
	families := [2]bool{v4, v6}
	if c == p.config && families == p.families {
		return
	}
	p.config, p.families, p.reviewed = c, families, 0
	p.review(0)
}

// review brings some locators into line with the configuration; the others follow in
// later turns, and are probed by the new one as soon as their time comes.
func (p *prober) review(uint32) {
	rows := uint32(p.table.rows.len())
	for end := min(p.reviewed+reviewRows, rows); p.reviewed < end; p.reviewed++ {
		p.reviewRow(p.reviewed)
	}
	p.reviews.remove(0)
	if p.reviewed < rows {
		p.reviews.set(0, p.h.now+1) // the next turn
	}
}

func (p *prober) reviewRow(id uint32) {
	l := p.table.rows.at(id)
	switch {
	case l.rloc.IsZero():
	case !p.probes(l.rloc) && (len(l.loweredBy) > 0 || l.hinted()):
		p.forgetNonces(l)
		p.table.timers.set(id, p.h.after(hintHold))
	case !p.probes(l.rloc):
		p.forgetNonces(l)
		p.table.timers.remove(id)
		p.table.reset(l)
	case p.table.timers.of(id) == never || l.reason == LocatorNotProbed:
		p.begin(id)
	}
}

// probes reports whether that RLOC is to be probed: we need one of its family.
func (p *prober) probes(r lisp.RLOC) bool {
	_, family := p.h.rlocOf(r.Is4())
	return !p.config.Off && family
}

// installed takes notice of a mapping that came into the map-cache.
func (p *prober) installed(m lisp.Mapping) { p.table.track(m, p.begin) }

// removed takes notice of one that left it.
func (p *prober) removed(m lisp.Mapping) { p.untrack(m, false) }

// replaced takes notice of one in whose place another came. sameSet says that the data
// plane has the same locator-set for both: it tells of Locator-Status-Bits again when it
// has another.
func (p *prober) replaced(m lisp.Mapping, sameSet bool) {
	p.untrack(m, sameSet)
	p.lookAgain(m.Locators)
}

func (p *prober) untrack(m lisp.Mapping, keepBits bool) {
	p.table.untrack(m, keepBits, p.raise, func(id uint32) { p.forgetNonces(p.table.rows.at(id)) })
}

// begin schedules the first probe of a locator within a retry interval: soon, but
// the locators of a big answer not all at once.
func (p *prober) begin(id uint32) {
	l := p.table.rows.at(id)
	if !p.probes(l.rloc) {
		return
	}
	l.probes.unanswered = 0 // those of an earlier time say nothing
	p.table.set(l, LocatorUnknown, LocatorAwaitsReply)
	p.table.timers.set(id, p.h.after(p.below(p.config.RetriesInterval)))
}

// peers yields the RLOCs of those that we recently sent packets to: of each locator in
// use, and of the others in a mapping that has it. An xTR whose own locator has priority
// 255 or is called unreachable sends packets all the same, and caches our mappings (RFC
// 9301 s.6.1 has all Locators in the Locator-Set told).
func (p *prober) peers(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool) {
	return p.table.active(cursor, func(l *locator) {
		yield(l.rloc)
		set, _ := p.find(l.prefix)
		for _, other := range set {
			if !other.Usable() {
				yield(other.RLOC)
			}
		}
	})
}

// below is a random duration up to d.
func (p *prober) below(d time.Duration) time.Duration { return p.h.below(d) }

// jittered is d more or less (RFC 9301 s.7.1: a jittered timer interval).
func (p *prober) jittered(d time.Duration) time.Duration {
	part := d / probeJitterPart
	return d - part + p.below(2*part)
}

// due sends the next probe of a locator, after judging those before. cached finds
// the mapping to name in it.
func (p *prober) due(id uint32, cached *mapCache) {
	l := p.table.rows.at(id)
	if p.handleHold(id); !p.probes(l.rloc) {
		return
	}
	if !p.limit.take(p.h.now, p.h.limits.RLOCProbes) {
		p.h.count(RefusedProbeLimit)
		p.table.timers.set(id, p.h.after(p.jittered(p.config.RetriesInterval)))
		return
	}
	entry, ok := p.mappingFor(l, cached)
	if !ok { // goes on searching
		p.table.timers.set(id, p.h.after(p.config.RetriesInterval))
		return
	}
	if p.h.cutOff { // a probe would not leave, and that nobody answers says nothing of them
		l.probes.unanswered = 0
		p.table.timers.set(id, p.h.after(p.jittered(p.config.RetriesInterval)))
		return
	}
	if l.probes.unanswered > 0 {
		l.answers = 0
	}
	if l.probes.unanswered > p.config.Retries {
		p.judge(l)
		p.renew(l, entry)
	}
	if l.state == LocatorUnconfirmed {
		p.table.tell(l) // it may be long since it was heard from
	}
	p.send(id)
	p.table.timers.set(id, p.h.after(p.wait(l)))
}

// wait is how long after a probe the next one follows if no answer comes.
func (p *prober) wait(l *locator) time.Duration {
	over := l.probes.unanswered - (p.config.Retries + 1)
	if over <= 0 {
		return p.config.RetriesInterval
	}
	return p.jittered(p.config.Interval << min(over-1, probeBackoffMax))
}

// judge says what a locator is whose probe and retries stay unanswered: unconfirmed. Its
// control plane may be dead, or behind a filter for probes, and its data plane forward. Old
// evidence that it is down counts no more than that: nobody sends there any more, so that
// nothing new can say so. A status bit holds until it returns.
func (p *prober) judge(l *locator) {
	old := l.reason == LocatorAdopted || l.hinted() && p.h.now-l.changedAt >= instant(hintHold)
	if l.state != LocatorDown || old {
		p.table.fall(l, LocatorUnconfirmed, LocatorUnanswered)
	}
}

// mappingFor finds a mapping of the map-cache that has the locator: mostly the one
// noted with it, else by a search that goes on at the next call.
func (p *prober) mappingFor(l *locator, cached *mapCache) (*cacheEntry, bool) {
	if e, ok := l.entryIn(cached); ok && holds(e, l.rloc) {
		return e, true
	}
	rows := uint32(cached.entries.len())
	for range min(rows, prefixSearchSteps) {
		at := l.probes.cursor % rows
		l.probes.cursor = at + 1
		if e := cached.entries.at(at); holds(e, l.rloc) {
			l.prefix = e.mapping.Prefix
			return e, true
		}
	}
	return nil, false
}

// entryIn is the entry of the locator's mapping. It mostly stands where it stood before.
func (l *locator) entryIn(cached *mapCache) (*cacheEntry, bool) {
	if int(l.entry) < cached.entries.len() {
		if e := cached.entries.at(l.entry); e.mapping.Prefix == l.prefix && !l.prefix.IsZero() {
			return e, true
		}
	}
	id, e, ok := cached.get(l.prefix)
	l.entry = id
	return e, ok
}

func holds(e *cacheEntry, r lisp.RLOC) bool {
	_, ok := e.mapping.Locators.Find(r)
	return ok
}

// send sends one probe, from our RLOC of the same family.
func (p *prober) send(id uint32) {
	l := p.table.rows.at(id)
	own, _ := p.h.rlocOf(l.rloc.Is4())
	m := wire.MapRequest{Probe: true, LocalXTR: true, Nonce: p.h.nonce()}
	m.Ask(lisp.EID{}, []lisp.RLOC{own}, l.prefix)
	s := &l.probes
	s.unanswered++
	s.sent++
	s.sentAt = p.h.now
	payload, err := m.AppendTo(p.h.room(usualProbeOctets))
	if err != nil {
		p.h.count(RefusedEncoding)
		return
	}
	if old := s.nonces[s.turn]; old != 0 {
		delete(p.byNonce, old)
	}
	s.nonces[s.turn], s.sentAts[s.turn] = m.Nonce, p.h.now
	s.turn = (s.turn + 1) % probeNonces
	p.byNonce[m.Nonce] = id
	to := netip.AddrPortFrom(l.rloc.Addr(), p.h.controlPort)
	p.h.send(netip.AddrPortFrom(own.Addr(), 0), to, p.h.used(payload))
	p.h.count(RLOCProbeSent)
	p.h.noticeProbe(func() Notice {
		return Notice{Kind: NoticeRLOCProbeSent, Prefix: l.prefix, Remote: to, Detail: fmt.Sprintf("%d unanswered before", s.unanswered-1)}
	})
}

func (p *prober) forgetNonces(l *locator) {
	for i, nonce := range l.probes.nonces {
		if nonce != 0 {
			delete(p.byNonce, nonce)
			l.probes.nonces[i] = 0
		}
	}
}

// handleReply takes the answer to a probe and returns the locator whose probe it
// was; ok is false for what answers none, or speaks for no site. The latter only says that the probed RLOC answers, where the operator
// accepts it. The state that changes is that of the
// locator with the p bit, which is another one when the site says so (RFC 9301
// s.5.4); it must be one of the mapping that the probe was about.
func (p *prober) handleReply(m *mapReply, cached *mapCache) (l *locator, ok bool) {
	id, ok := p.byNonce[m.nonce]
	if !ok {
		p.h.count(RefusedProbeReply)
		return nil, false
	}
	authoritative := !slices.ContainsFunc(m.mappings, func(m lisp.Mapping) bool { return !m.Authoritative })
	if !authoritative && !p.config.AcceptNonAuthoritative {
		p.h.count(RefusedProbeNotAuthoritative)
		return nil, false
	}
	l = p.table.rows.at(id)
	answering := id
	if named, found := probedRLOC(m.mappings); authoritative && found && named != l.rloc {
		other, _, known := p.table.get(named)
		if _, e, is := cached.get(l.prefix); !known || !is || !holds(e, named) {
			p.h.count(RefusedProbeLocator)
			return nil, false
		}
		answering = other
	}
	p.h.count(RLOCProbeAnswered)
	took := time.Duration(p.h.now - l.probes.sentAtOf(m.nonce))
	if answering == id {
		l.trips.add(took)
	}
	p.h.noticeProbe(func() Notice {
		return Notice{Kind: NoticeRLOCProbeAnswered, Prefix: l.prefix, Remote: m.from, Detail: took.String()}
	})
	p.forgetNonces(l)
	p.answered(answering)
	return l, authoritative
}

func (s *probeState) sentAtOf(nonce uint64) instant {
	return s.sentAts[max(slices.Index(s.nonces[:], nonce), 0)]
}

// probedRLOC is the first locator with the p bit.
func probedRLOC(mappings []lisp.Mapping) (lisp.RLOC, bool) {
	for _, m := range mappings {
		for _, l := range m.Locators {
			if l.Probed {
				return l.RLOC, true
			}
		}
	}
	return lisp.RLOC{}, false
}

// answered notes that a locator lives and when to look again: soon while it has to
// prove that it is back.
func (p *prober) answered(id uint32) {
	l := p.table.rows.at(id)
	l.probes.unanswered, l.probes.answeredAt = 0, p.h.now
	l.probes.answered++
	l.probes.renewal = renewal{}
	p.table.answered(l)
	wait := p.jittered(p.config.Interval)
	if l.isFallen() && len(l.loweredBy) == 0 && p.h.now+instant(p.config.Interval) >= l.heldUntil {
		wait = min(p.config.Interval, max(p.config.RetriesInterval, confirmInterval))
	}
	p.table.timers.set(id, p.h.after(wait))
}

// suspect probes a locator at once, because something hints that it is gone. What
// hints is not believed: everybody can forge an ICMP message.
func (p *prober) suspect(r lisp.RLOC) {
	id, l, known := p.table.get(r)
	if !known || !p.probes(r) {
		return
	}
	if l.probes.unanswered > 0 || p.h.now-l.probes.sentAt < instant(p.config.RetriesInterval) {
		return // it is being looked at
	}
	p.table.timers.set(id, p.h.now)
}
