// SPDX-License-Identifier: Apache-2.0

package siblings

// Our RLOCs are up again, and a sibling has the site's packets because they were down. A link has its carrier before
// the host has next hops: IPv6 addresses are tentative, no neighbor is known. So the packets stay with the sibling
// until the core has answered us, in each family that we have RLOCs of. RLOC-probes ask for that: of a locator that
// answered before, and of the sibling's RLOC, alternating. Answers to other RLOC-probes, to Map-Registers and to
// Map-Requests count as well, if what they answer was sent since. Where only the sibling's RLOC can be asked, its
// silence says as much of the sibling's path as of ours: then the packets come back after a while.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/database"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// comebackFirst is how long after the first RLOC-probe the next one follows. Each further time is double,
	// comebackMost at most.
	comebackFirst     = 100 * time.Millisecond
	comebackMost      = 5 * time.Second
	comebackDoublings = 6
	// elsewherePause is for how long an RLOC is left to what else asked it.
	elsewherePause = time.Second
	// familyPatience is how much longer than the first family the second one may take: its RLOCs may stay down,
	// or its core silent.
	familyPatience = 5 * time.Second
	// siblingPatience is how long the packets stay with a sibling that is all that can be asked, and is silent.
	siblingPatience = 30 * time.Second
)

// comeback is what was done since our RLOCs are up again.
type comeback struct {
	h           *system.System
	hasOwn      func(family int, up bool) bool // the Database has a locator of ours of a family, or one that is up
	throughCore func(isV4 bool) witness        // an RLOC of a sibling
	path        *corePath                      // it asks, too
	inquiries   *inquiries                     // so do these

	since    timing.Instant // when they came up; 0 where nothing is awaited
	asked    bool           // there was something to ask
	others   bool           // and not only RLOCs of siblings
	families [system.Families]familyProof
}

// familyProof is the question of one family.
type familyProof struct {
	nonce   uint64 // of the last RLOC-probe, 0 for none
	rloc    lisp.RLOC
	askedAt timing.Instant
	tries   int
	named   uint32 // row of the locator that was asked last
}

// begin begins anew. A link may flap: the pauses go on from where they were.
func (b *comeback) begin(now timing.Instant) {
	b.since, b.asked, b.others = now, false, false
	b.h.AwaitCore()
	for family := range b.families {
		q := &b.families[family]
		if q.nonce = 0; now-q.askedAt >= timing.Instant(comebackMost) {
			q.tries = 0
		}
	}
}

// waits reports whether the sibling that has our packets because our RLOCs were down keeps them.
func (s *Siblings) waits() bool {
	return s.back.since != 0 && !s.path.lost && s.stands() && !s.back.isOver()
}

// hasOwn reports whether the Database has a locator of ours of a family, or one that is up.
func (s *Siblings) hasOwn(family int, up bool) bool {
	return slices.ContainsFunc(s.database.RLOCs, func(l database.RLOC) bool {
		return system.Family(l.RLOC.Addr()) == family && (l.Reachable || !up) && slices.Contains(s.h.RLOCs, l.RLOC)
	})
}

// isOver reports whether the core has answered us in all our families, or in one, and the other took its time. Where
// nothing can be asked, it is enough that our RLOCs have been up for that time.
func (b *comeback) isOver() bool {
	all, from := true, timing.Instant(0)
	for family, at := range b.h.Core.At {
		switch {
		case !b.hasOwn(family, false):
		case at == 0:
			all = false
		case from == 0 || at < from:
			from = at
		}
	}
	switch {
	case from != 0:
	case !b.asked:
		from = b.since
	case !b.others:
		return b.h.Now-b.since >= timing.Instant(siblingPatience)
	}
	return all || from != 0 && b.h.Now-from >= timing.Instant(familyPatience)
}

// ask sends the RLOC-probes that are due while the sibling keeps our packets, and returns when to look again.
func (b *comeback) ask(p *reach.Prober) (again timing.Instant) {
	again = timing.Never
	for family := range b.families {
		if b.h.Core.At[family] == 0 && b.hasOwn(family, true) {
			again = min(again, b.askFamily(p, family))
		}
	}
	return again
}

func (b *comeback) askFamily(p *reach.Prober, family int) (next timing.Instant) {
	q := &b.families[family]
	if next = q.next(); b.h.Now < next {
		return next
	}
	about, isLeft := b.choose(p, family)
	b.asked = b.asked || isLeft || !about.rloc.IsZero()
	if isLeft && about.rloc.IsZero() {
		return b.h.Now + timing.Instant(comebackFirst)
	}
	q.tries++
	q.nonce, q.askedAt = 0, b.h.Now
	if !about.rloc.IsZero() {
		q.nonce, q.rloc = b.h.Nonce(), about.rloc
		own, _ := b.h.RLOCOf(about.rloc.Is4())
		if probe(b.h, own, about, q.nonce) {
			b.h.Count(counter.RLOCProbeSent)
		}
	}
	return q.next()
}

// choose finds whom to ask, zero for no RLOC; isLeft says that there is one, but something else asked it just now.
func (b *comeback) choose(p *reach.Prober, family int) (about witness, isLeft bool) {
	q := &b.families[family]
	isV4 := family == system.Family(netip.IPv4Unspecified())
	isFree := func(r lisp.RLOC) bool {
		free := !b.askedElsewhere(p, r)
		isLeft = isLeft || !free
		return free
	}
	isOther := func(l *reach.Locator) bool {
		b.others = b.others || l.RLOC.Is4() == isV4
		return l.RLOC.Is4() == isV4 && isFree(l.RLOC)
	}
	l, at := p.Table.Proven(q.named, isOther)
	sibling := b.throughCore(isV4)
	if !sibling.rloc.IsZero() && !isFree(sibling.rloc) {
		sibling = witness{}
	}
	if l == nil || q.tries%2 == 1 && !sibling.rloc.IsZero() {
		return sibling, isLeft
	}
	q.named = at
	return witness{l.RLOC, l.Prefix}, isLeft
}

// askedElsewhere reports whether something else has asked an RLOC lately, since our RLOCs are up: that answer counts.
// A doubt about the core asks it again and again.
func (b *comeback) askedElsewhere(p *reach.Prober, r lisp.RLOC) bool {
	at := b.inquiries.lastAsked(r)
	if b.path.asked == r {
		at = max(at, b.path.askedAt)
	}
	if _, l, known := p.Table.Get(r); known {
		at = max(at, l.Probes.AskedAt())
	}
	isLately := at >= b.since && b.h.Now-at < timing.Instant(elsewherePause)
	return isLately || b.path.asksNow(b.h, r, p.Config.RetriesInterval)
}

// next is when the next RLOC-probe may be sent.
func (q *familyProof) next() timing.Instant {
	if q.tries == 0 {
		return 0
	}
	return q.askedAt + timing.Instant(min(comebackFirst<<min(q.tries-1, comebackDoublings), comebackMost))
}

// takes reports whether a Map-Reply answers the last RLOC-probe of a family. Where one of the other family does, the
// pauses go on growing: that family is not known to pass.
func (b *comeback) takes(m *message.MapReply) bool {
	for family := range b.families {
		if q := &b.families[family]; q.nonce != 0 && q.nonce == m.Nonce {
			q.nonce = 0
			if system.Family(m.From.Addr()) == family {
				q.tries = 1
			}
			b.h.CoreAnswered(q.rloc.Addr(), m.From.Addr(), q.askedAt)
			b.h.Count(counter.RLOCProbeAnswered)
			return true
		}
	}
	return false
}
