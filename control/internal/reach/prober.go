// SPDX-License-Identifier: Apache-2.0

package reach

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

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// probeBackoffMax bounds the doublings of the interval for locators that do not answer.
	probeBackoffMax = 2
	// probeJitterPart: intervals vary by up to this part of them, to both sides.
	probeJitterPart = 5
	// confirmInterval is how far apart the answers are that bring a locator back: ETRs
	// answer once in 3 seconds (RFC 9301 s.5.4), and one refused would begin it anew.
	confirmInterval = 3100 * time.Millisecond
	// reviewRows is how many locators are brought into line with another configuration in one
	// event-loop iteration.
	reviewRows = 2048
	// usualProbeOctets is enough for an RLOC-probe about an IPv6 EID-Prefix of any Instance-ID.
	usualProbeOctets = 80
	// HintHold is how long a locator that a hint took out of use stays so where no answer
	// to an RLOC-probe takes the hint back.
	HintHold = 30 * time.Second
	// prefixSearchSteps bounds one search for a mapping that has an RLOC.
	prefixSearchSteps = 4096
)

// Prober probes the locators of the table.
type Prober struct {
	h       *system.System
	Config  settings.ProbingConfig
	Table   Table
	ByNonce map[uint64]uint32
	limit   timing.Bucket
	cache   *mapcache.Cache

	own      []lisp.RLOC // at the last review
	reviewed uint32      // rows that the configuration has reached
	Reviews  batch.Work

	Private PrivateRLOCs
	Probed  ProbedPeers
}

// New makes a prober without locators.
func New(h *system.System, cache *mapcache.Cache) *Prober {
	p := &Prober{h: h, cache: cache, Table: NewTable(h), ByNonce: make(map[uint64]uint32)}
	p.Private = PrivateRLOCs{
		h: h, table: &p.Table, config: &p.Config, limit: &p.limit, nonces: p.ByNonce, probes: p.probes, ask: p.ask,
		Changed: func(lisp.Prefix) {},
	}
	p.Probed.table = &p.Table
	p.Table.initialise()
	p.Table.begin = p.begin
	p.Table.end = func(id uint32) { p.Table.Rows.At(id).forgetNonces(p.ByNonce) }
	return p
}

// Configure takes over other intervals. What was off begins now.
func (p *Prober) Configure(c settings.ProbingConfig) {
	p.Table.Paths.JudgeAll() // by our RLOCs of now
	if c == p.Config && slices.Equal(p.own, p.h.RLOCs) {
		return
	}
	p.Config, p.own, p.reviewed = c, slices.Clone(p.h.RLOCs), 0
	p.Review()
}

// Review brings a batch of locators into line with the configuration; the others are probed by the new
// one as soon as their time comes.
func (p *Prober) Review() {
	rows := uint32(p.Table.Rows.Len())
	p.Reviews.Run(p.h.Now, reviewRows, func() (cost int, more bool) {
		if p.reviewed < rows {
			p.reviewRow(p.reviewed)
			p.reviewed++
		}
		return 1, p.reviewed < rows
	})
}

func (p *Prober) reviewRow(id uint32) {
	l := p.Table.Rows.At(id)
	switch {
	case l.RLOC.IsZero():
	case !p.probes(l.RLOC) && (len(l.loweredBy) > 0 || l.hinted()):
		l.forgetNonces(p.ByNonce)
		p.Private.reset(l)
		p.Table.Timers.Set(id, p.h.After(HintHold))
	case !p.probes(l.RLOC):
		l.forgetNonces(p.ByNonce)
		p.Private.reset(l)
		p.Table.Timers.Remove(id)
		p.Table.reset(l)
	case p.Table.Timers.Of(id) == timing.Never || l.reason == effect.LocatorNotProbed:
		p.begin(id)
	}
}

// probes reports whether that RLOC is to be probed: we need one of its family, and not itself.
func (p *Prober) probes(r lisp.RLOC) bool {
	_, family := p.h.RLOCOf(r.Is4())
	return !p.Config.Off && family && !p.Table.IsOwn(r)
}

// Installed takes notice of a mapping that came into the map-cache.
func (p *Prober) Installed(m lisp.Mapping, static bool) {
	p.Table.Track(p.Table.proxies.withProxyETRs(m, static, 1))
	if !static {
		p.Private.add(&m)
	}
}

// Removed takes notice of one that left it.
func (p *Prober) Removed(m lisp.Mapping, static bool) {
	if !static {
		p.Private.remove(&m)
	}
	p.untrack(p.Table.proxies.withProxyETRs(m, static, -1), false)
}

func (p *Prober) untrack(m lisp.Mapping, keepBits bool) {
	p.Table.untrack(m, keepBits, p.raise)
}

// begin schedules the first probe of a locator within a retry interval: soon, but
// the locators of a big answer not all at once.
func (p *Prober) begin(id uint32) {
	l := p.Table.Rows.At(id)
	if !p.probes(l.RLOC) {
		return
	}
	l.Probes.unanswered = 0 // those of an earlier time say nothing
	p.Table.Set(l, effect.LocatorUnknown, effect.LocatorAwaitsReply)
	p.Table.Timers.Set(id, p.h.After(p.Below(p.Config.RetriesInterval)))
}

// Peers yields the RLOCs of those that we recently sent packets to: of each locator in
// use, and of the others in a mapping that has it. An xTR whose own locator has priority
// 255 or is called unreachable sends packets all the same, and caches our mappings (RFC
// 9301 s.6.1 has all Locators in the Locator-Set told). Of a path it is the last hop, the xTR, and the hops that we watch: they may
// relay in the other direction as well.
func (p *Prober) Peers(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool) {
	return p.Table.active(cursor, func(r lisp.RLOC, prefix lisp.Prefix) {
		yield(r)
		set := p.locatorsOf(prefix)
		for _, other := range set {
			if !other.Usable() {
				yield(other.Path().Last())
			}
		}
	})
}

// locatorsOf are the locators of a cached mapping.
func (p *Prober) locatorsOf(prefix lisp.Prefix) lisp.LocatorSet {
	if _, e, ok := p.cache.Get(prefix); ok {
		return p.Table.proxies.watchedOf(e)
	}
	return nil
}

// Below is a random duration up to d.
func (p *Prober) Below(d time.Duration) time.Duration { return p.h.Below(d) }

// jittered is d more or less (RFC 9301 s.7.1: a jittered timer interval).
func (p *Prober) jittered(d time.Duration) time.Duration {
	part := d / probeJitterPart
	return d - part + p.Below(2*part)
}

// Due judges the probes of a locator that were sent, and reports whether it is to be probed again:
// by Send. unanswered is the mapping to be probed for where its locator does not answer, else nil.
func (p *Prober) Due(id uint32) (l *Locator, unanswered *mapcache.Entry, probed bool) {
	l = p.Table.Rows.At(id)
	if p.handleHold(id); !p.probes(l.RLOC) {
		return l, nil, false
	}
	if !p.limit.Take(p.h.Now, p.h.Limits.RLOCProbes) {
		p.h.Count(counter.RefusedProbeLimit)
		p.Table.Timers.Set(id, p.h.After(p.jittered(p.Config.RetriesInterval)))
		return l, nil, false
	}
	entry, ok := p.mappingFor(l)
	if !ok && !l.isPeerOnly() { // goes on searching
		p.Table.Timers.Set(id, p.h.After(p.Config.RetriesInterval))
		return l, nil, false
	}
	if p.h.CutOff { // a probe would not leave, so that a missing answer says nothing
		l.Probes.unanswered = 0
		p.Table.Timers.Set(id, p.h.After(p.jittered(p.Config.RetriesInterval)))
		return l, nil, false
	}
	if l.Probes.unanswered > 0 {
		l.answers = 0
	}
	if l.Probes.unanswered > p.Config.Retries {
		p.judge(l)
		unanswered = entry
	}
	return l, unanswered, true
}

// Send sends the next probe of a locator.
func (p *Prober) Send(id uint32) {
	l := p.Table.Rows.At(id)
	if l.State == effect.LocatorUnconfirmed {
		p.Table.tell(l) // it may be long since it was heard from
	}
	p.send(id)
	p.Table.Timers.Set(id, p.h.After(p.wait(l)))
}

// wait is how long after a probe the next one follows if no answer comes.
func (p *Prober) wait(l *Locator) time.Duration {
	over := l.Probes.unanswered - (p.Config.Retries + 1)
	if len(l.private) > 0 && !l.awaitsRetry(p.Config.Retries) {
		over = max(over, 1)
	}
	if over <= 0 {
		return p.Config.RetriesInterval
	}
	return p.jittered(p.Config.Interval << min(over-1, probeBackoffMax))
}

// judge says what a locator is whose probe and retries stay unanswered: unconfirmed. Its
// control plane may be dead, or behind a filter for probes, and its data plane forward. Old
// evidence that it is down counts no more than that: no packet is sent there any more, so that
// nothing new can say so. A status bit holds until it returns.
func (p *Prober) judge(l *Locator) {
	old := l.reason == effect.LocatorAdopted || l.hinted() && p.h.Now-l.changedAt >= timing.Instant(HintHold)
	if l.State != effect.LocatorDown || old {
		p.Table.Fall(l, effect.LocatorUnconfirmed, effect.LocatorUnanswered)
	}
}

// mappingFor finds a mapping of the map-cache that has the locator: mostly the one
// noted with it, else by a search that goes on at the next call.
func (p *Prober) mappingFor(l *Locator) (*mapcache.Entry, bool) {
	if l.isPeerOnly() {
		return nil, false
	}
	if e, ok := l.EntryIn(p.cache); ok && p.Table.proxies.holds(e, l.RLOC) {
		return e, true
	}
	rows := uint32(p.cache.Entries.Len())
	for range min(rows, prefixSearchSteps) {
		at := l.Probes.cursor % rows
		l.Probes.cursor = at + 1
		if e := p.cache.Entries.At(at); p.Table.proxies.holds(e, l.RLOC) {
			l.Prefix = e.Mapping.Prefix
			return e, true
		}
	}
	return nil, false
}

// holds reports whether an RLOC is a locator of a mapping, or a hop of one.
func (x *proxyETRs) holds(e *mapcache.Entry, r lisp.RLOC) bool {
	set := x.watchedOf(e)
	for i := range set {
		if l := &set[i]; l.RLOC == r || l.Behind != "" && hasHop(l.Path(), r) {
			return true
		}
	}
	return false
}

func hasHop(p lisp.Path, r lisp.RLOC) bool {
	i := p.Index(r)
	return i >= 0 && p.Hop(i) == r
}

// send sends one probe, or one about each EID-Prefix of a private RLOC.
func (p *Prober) send(id uint32) {
	l := p.Table.Rows.At(id)
	if len(l.private) > 0 {
		p.Private.probe(id)
		return
	}
	l.Probes.unanswered++
	p.ask(id, l.Prefix, &l.Probes.askedProbes)
}

// ask sends one probe about an EID-Prefix, without one to a peer, from our RLOC of the same family.
func (p *Prober) ask(id uint32, about lisp.Prefix, asked *askedProbes) {
	l := p.Table.Rows.At(id)
	own, _ := p.h.RLOCOf(l.RLOC.Is4())
	m := wire.MapRequest{Probe: true, LocalXTR: true, Nonce: p.h.Nonce()}
	m.Ask(lisp.EID{}, []lisp.RLOC{own}, about)
	s := &l.Probes
	s.sent++
	s.sentAt = p.h.Now
	payload, err := m.AppendTo(p.h.Buffer(usualProbeOctets))
	if err != nil {
		p.h.Count(counter.RefusedEncoding)
		return
	}
	if old := asked.nonces[asked.next]; old != 0 {
		delete(p.ByNonce, old)
	}
	asked.nonces[asked.next], asked.sentAts[asked.next] = m.Nonce, p.h.Now
	asked.next = (asked.next + 1) % ProbeNonces
	p.ByNonce[m.Nonce] = id
	to := netip.AddrPortFrom(l.RLOC.Addr(), p.h.ControlPort)
	p.h.Send(netip.AddrPortFrom(own.Addr(), 0), to, p.h.Used(payload))
	p.h.Count(counter.RLOCProbeSent)
	if about.IsZero() {
		p.h.Count(counter.RLOCProbeToPeer)
	}
	p.h.NoticeProbe(func() effect.Notice {
		return effect.Notice{Kind: effect.NoticeRLOCProbeSent, Prefix: about, Remote: to, Detail: fmt.Sprintf("%d unanswered before", s.unanswered-1)}
	})
}

// HandleReply takes the answer to a probe and returns the locator whose probe it
// was; ok is false for what answers none, or speaks for no site. The latter only says that the probed RLOC answers, where the operator
// accepts it; any answer of a proxy ETR or a peer says that. The state that changes is that of the
// locator with the p bit, which is another one when the site says so (RFC 9301
// s.5.4); it must be one of the mapping that the probe was about.
func (p *Prober) HandleReply(m *message.MapReply) (l *Locator, ok bool) {
	id, ok := p.ByNonce[m.Nonce]
	if !ok {
		p.h.Count(counter.RefusedProbeReply)
		return nil, false
	}
	l = p.Table.Rows.At(id)
	authoritative := !slices.ContainsFunc(m.Mappings, func(m lisp.Mapping) bool { return !m.Authoritative })
	anyhow := p.Table.proxies.has(l.RLOC) || l.isPeerOnly()
	if m.Refused != nil && !anyhow {
		p.h.Count(m.Refused.Reason)
		return nil, false
	}
	if !authoritative && !p.Config.AcceptNonAuthoritative && !anyhow {
		p.h.Count(counter.RefusedProbeNotAuthoritative)
		return nil, false
	}
	use, asked := l.useAsked(m.Nonce), &l.Probes.askedProbes
	if use != nil && !speaksFor(m.Mappings, use.prefix) {
		p.h.Count(counter.RefusedProbeReply)
		return nil, false
	}
	if use != nil {
		l.Prefix, asked = use.prefix, &use.asked
	}
	answering := id
	if named, found := probedRLOC(m.Mappings, l.RLOC); authoritative && !anyhow && found && named != l.RLOC {
		other, _, known := p.Table.Get(named)
		if _, e, is := p.cache.Get(l.Prefix); !known || !is || !p.Table.proxies.holds(e, named) {
			p.h.Count(counter.RefusedProbeLocator)
			return nil, false
		}
		answering = other
	}
	p.h.Count(counter.RLOCProbeAnswered)
	sentAt := asked.sentAtOf(m.Nonce)
	p.h.CoreAnswered(l.RLOC.Addr(), m.From.Addr(), sentAt)
	took := time.Duration(p.h.Now - sentAt)
	if answering == id {
		l.trips.Add(took)
	}
	p.h.NoticeProbe(func() effect.Notice {
		return effect.Notice{Kind: effect.NoticeRLOCProbeAnswered, Prefix: l.Prefix, Remote: m.From, Took: took}
	})
	asked.forget(p.ByNonce)
	if use != nil {
		p.Private.answered(use)
	}
	p.answered(answering)
	return l, authoritative && !l.isPeerOnly()
}

// probedRLOC is the first locator with the p bit; of a path the probed hop, or the last one.
func probedRLOC(mappings []lisp.Mapping, probed lisp.RLOC) (lisp.RLOC, bool) {
	for _, m := range mappings {
		for _, l := range m.Locators {
			switch {
			case l.Probed && hasHop(l.Path(), probed):
				return probed, true
			case l.Probed:
				return l.Path().Last(), true
			}
		}
	}
	return lisp.RLOC{}, false
}

// answered notes that a locator lives and when to look again: soon while it has to
// prove that it is back.
func (p *Prober) answered(id uint32) {
	l := p.Table.Rows.At(id)
	l.Probes.unanswered, l.Probes.answeredAt = 0, p.h.Now
	l.Probes.answered++
	l.Probes.Renewal = Renewal{}
	p.Table.answered(l)
	wait := p.jittered(p.Config.Interval)
	if l.isFallen() && len(l.loweredBy) == 0 && p.h.Now+timing.Instant(p.Config.Interval) >= l.heldUntil {
		wait = min(p.Config.Interval, max(p.Config.RetriesInterval, confirmInterval))
	}
	p.Table.Timers.Set(id, p.h.After(p.Private.wait(l, wait)))
}

// suspect probes a locator at once, because something hints that it is gone. What
// hints is not believed: ICMP messages can be forged.
func (p *Prober) suspect(r lisp.RLOC) {
	id, l, known := p.Table.Get(r)
	if !known || !p.probes(r) {
		return
	}
	if l.Probes.unanswered > 0 || p.h.Now-l.Probes.sentAt < timing.Instant(p.Config.RetriesInterval) {
		return // it is being looked at
	}
	p.Table.Timers.Set(id, p.h.Now)
}

// raise lets a locator be used again that no status bit holds down any more: before others
// unless it flapped or its probes stay unanswered.
func (p *Prober) raise(id uint32) {
	l := p.Table.Rows.At(id)
	switch {
	case len(l.loweredBy) > 0 || l.reason != effect.LocatorStatusBit:
	case p.probes(l.RLOC) && l.Probes.unanswered > p.Config.Retries:
		p.Table.Set(l, effect.LocatorUnconfirmed, effect.LocatorUnanswered)
	case p.h.Now < l.heldUntil:
		p.Table.Set(l, effect.LocatorUnconfirmed, effect.LocatorReturning)
		if !p.probes(l.RLOC) {
			p.Table.Timers.Set(id, l.heldUntil)
		}
	case !p.probes(l.RLOC):
		p.Table.Set(l, effect.LocatorUnknown, effect.LocatorNotProbed)
	default:
		p.Table.Set(l, effect.LocatorUnknown, effect.LocatorAwaitsReply)
		p.Table.Timers.Set(id, p.h.Now)
	}
}

// handleHold ends what status bits held down, and hints where no probe can take them back.
func (p *Prober) handleHold(id uint32) {
	l := p.Table.Rows.At(id)
	switch {
	case l.reason == effect.LocatorStatusBit:
		p.raise(id)
	case p.probes(l.RLOC) || !l.hinted() && l.reason != effect.LocatorReturning:
	case p.h.Now >= l.heldUntil:
		p.Table.Set(l, effect.LocatorUnknown, effect.LocatorNotProbed)
	default:
		p.Table.Timers.Set(id, l.heldUntil)
	}
}
