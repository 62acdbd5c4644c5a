// SPDX-License-Identifier: Apache-2.0

package siblings

// The sibling that is asked whether the core answers it: it probes the locator that is named from its own RLOC, and says what came of it.

import (
	"net/netip"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// inquiryPause is the least time between two questions of a sibling that are answered.
	inquiryPause = 50 * time.Millisecond
	// resolverWait is how long a Map-Resolver may take to answer for a sibling.
	resolverWait = 2 * time.Second
)

// inquiry is what a sibling asked us about the core.
type inquiry struct {
	from   settings.SiblingConfig
	nonce  uint64 // of the question, 0 for none
	about  witness
	probe  uint64 // nonce of our RLOC-probe, 0 where a Map-Resolver is asked
	at     timing.Instant
	denied bool // no answer came in time
}

// inquiries are the last ones of each sibling.
type inquiries struct {
	h             *system.System
	list          [settings.MaxSiblings]inquiry // by index of rows
	Timers        timing.Deadlines
	retry         time.Duration  // of RLOC-probes
	dataAt        timing.Instant // when data packets last came to an RLOC of ours, 0 for never
	isWithoutPath func() bool
	resolve       func(lisp.Prefix) // asks a Map-Resolver
}

// forget forgets all: the rows are others.
func (q *inquiries) forget() {
	for i := range q.list {
		q.list[i] = inquiry{}
		q.Timers.Remove(uint32(i))
	}
}

// take reports whether an RLOC-probe is a sibling's question about the core, and answers it, at once or when an answer came.
func (q *inquiries) take(i int, from settings.SiblingConfig, m *message.MapRequest) bool {
	if m.MapReplyRecord == nil {
		return false
	}
	mapping, err := m.MapReplyRecord.Mapping()
	if err != nil || mapping.Prefix != m.Prefixes[0] {
		return false
	}
	in := &q.list[i]
	if in.at != 0 && q.h.Now-in.at < timing.Instant(inquiryPause) {
		q.h.Count(counter.RefusedSiblingQuestion)
		return true
	}
	*in = inquiry{from: from, nonce: m.Nonce, at: q.h.Now, about: witness{prefix: mapping.Prefix}}
	if len(mapping.Locators) > 0 {
		in.about.rloc = mapping.Locators[0].RLOC
	}
	q.inquire(i)
	return true
}

// inquire asks the core for a sibling. Who has no path, or gave its packets away, says so at once.
func (q *inquiries) inquire(i int) {
	in := &q.list[i]
	wait := q.retry
	own, family := q.h.RLOCOf(in.about.rloc.Is4())
	switch {
	case q.isWithoutPath():
		q.answer(i, false)
		return
	case in.about.rloc.IsZero():
		wait = resolverWait
		q.resolve(in.about.prefix)
	case !family || in.about.rloc.Addr().IsMulticast() || in.about.rloc.Valid() != nil:
		q.answer(i, false)
		return
	default:
		in.probe = q.h.Nonce()
		probe(q.h, own, in.about, in.probe)
	}
	q.Timers.Set(uint32(i), q.h.After(wait))
}

// answered reports whether a Map-Reply answers an RLOC-probe for a sibling, and tells that.
func (q *inquiries) answered(m *message.MapReply) bool {
	for i := range q.list {
		if in := &q.list[i]; in.nonce != 0 && in.probe != 0 && in.probe == m.Nonce {
			q.h.CoreAnswered(in.about.rloc.Addr(), m.From.Addr(), in.at)
			q.answer(i, true)
			return true
		}
	}
	return false
}

// lastAsked is when an RLOC was last asked for a sibling, 0 for never.
func (q *inquiries) lastAsked(r lisp.RLOC) (at timing.Instant) {
	for i := range q.list {
		if in := &q.list[i]; in.probe != 0 && in.about.rloc == r {
			at = max(at, in.at)
		}
	}
	return at
}

// ResolverAnswered answers siblings whose question a Map-Resolver was asked for, if that answered since.
func (q *inquiries) ResolverAnswered(at timing.Instant) {
	for i := range q.list {
		if in := &q.list[i]; in.nonce != 0 && in.about.rloc.IsZero() && at > in.at {
			q.answer(i, true)
		}
	}
}

// HandleTimeout says that no answer came; one that comes later is told all the same.
func (q *inquiries) HandleTimeout(i uint32) {
	if in := &q.list[i]; in.nonce != 0 && !in.denied {
		q.answer(int(i), false)
	}
}

// answer tells a sibling whether the core answers us, and when data packets came to us.
func (q *inquiries) answer(i int, yes bool) {
	in := &q.list[i]
	l := lisp.NewLocator(in.about.rloc)
	l.Weight, l.Reachable = q.dataAge(), yes
	if l.RLOC.IsZero() {
		l.RLOC, l.Local = lisp.RLOCFromAddr(in.from.Local), true
	}
	head := wire.MapReply{Probe: true, Nonce: in.nonce}
	payload, err := wire.AppendMapReply(nil, &head, []lisp.Mapping{{Prefix: in.about.prefix, Locators: lisp.LocatorSet{l}}})
	if in.denied = true; yes {
		in.nonce = 0
	}
	if err != nil {
		q.h.Count(counter.RefusedEncoding)
		return
	}
	q.h.Send(netip.AddrPortFrom(in.from.Local, q.h.ControlPort), netip.AddrPortFrom(in.from.Address, q.h.ControlPort), payload)
	q.h.Count(counter.SiblingQuestionAnswered)
}

// dataAge is how many seconds ago data packets last came to us.
func (q *inquiries) dataAge() uint8 {
	if q.dataAt == 0 {
		return longAgo
	}
	return uint8(min(longAgo, (q.h.Now-q.dataAt)/timing.Instant(time.Second)))
}

// HandleData notes when data packets last came to an RLOC of ours.
func (q *inquiries) HandleData(at timing.Instant) { q.dataAt = max(q.dataAt, min(at, q.h.Now)) }
