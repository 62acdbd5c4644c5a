// SPDX-License-Identifier: Apache-2.0

package nat

// The RTR (s.5.3): it relays the Map-Registers of nodes behind NATs, and where a Map-Server acknowledges one it knows
// from which address and port the node sends, and forwards the node's packets there. A nonce moves a binding once:
// what was seen from one address moves nothing when it comes from another (see nonces.go for how far that goes).

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/indata"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// bindingLasts is how long a binding lasts without Map-Registers, as registrations do (RFC 9301 s.8.2).
	bindingLasts = settings.DefaultRegistrationTimeout
	// claimLasts is how long after a node's last sign of life another one may not have its EID-Prefix: two
	// keepalives and a bit.
	claimLasts = time.Minute
	// maxRelays is how often one Map-Register is relayed.
	maxRelays = 8
	// sweepRows is one batch of what a reload ends.
	sweepRows = 128
)

// question tells the Map-Registers of nodes apart: the clocks of two nodes may give one nonce.
type question struct {
	nonce uint64
	node  nodeID
}

// nodeID tells nodes apart.
type nodeID struct {
	xtr  [16]byte
	site uint64
}

// pending is a Map-Register that was relayed and not acknowledged.
type pending struct {
	nonce     uint64
	from      netip.AddrPort // of the node, as the NAT translates it
	local     netip.Addr     // ours, that it sent to
	private   netip.Addr     // of the node behind its NAT
	mapServer netip.Addr
	inner     netip.Addr // of the Map-Server, as the node knows it
	node      nodeID
	records   []record
	relays    int
	renews    bool // comes from where a binding of the node goes to
}

type record struct {
	prefix   lisp.Prefix
	lifetime time.Duration // 0: withdrawn
	locals   []policy      // of the node's RLOCs behind NATs
}

// binding is where the packets of an EID-Prefix go.
type binding struct {
	prefix     lisp.Prefix
	pending    // the last Map-Register; of its records nothing is kept
	rlocs      []natRLOC
	since      timing.Instant
	verifiedAt timing.Instant
	aliveAt    timing.Instant
	moves      uint64
	changes    timing.Changes
	seen       nonces
	key        settings.Key // of the last Map-Notify
	generation uint64       // of the RTR
}

// RTR is the side of an RTR.
type RTR struct {
	h      *system.System
	config *settings.NATRelay

	pendings table.Slab[pending]
	asked    map[question]uint32
	byNonce  map[uint64]uint32      // for Map-Notifies without xTR-ID
	sources  map[netip.Addr]int     // pendings of an address, or of a /64, that do not renew
	renewing map[netip.AddrPort]int // pendings that do
	renewals int                    // all of these
	Waits    timing.Deadlines       // of pendings

	bindings table.Slab[binding]
	byPrefix map[lisp.Prefix]uint32
	sites    map[nodeID]int // bindings of a site, or of a node of no site
	often    often
	Expiry   timing.Deadlines
	ended    ended

	Sweep      batch.Work // ends bindings that another configuration does not have
	sweepAt    uint32
	generation uint64 // another one when this was no RTR in between

	Forward func(lisp.Mapping) // packets of a verified EID-Prefix
	Stop    func(lisp.Prefix)
	Ask     func(lisp.Prefix) // the mapping of a binding may be another one
}

// NewRTR makes one that knows no node.
func NewRTR(h *system.System) *RTR {
	return &RTR{
		h: h, asked: map[question]uint32{}, byNonce: map[uint64]uint32{}, sources: map[netip.Addr]int{},
		renewing: map[netip.AddrPort]int{},
		byPrefix: map[lisp.Prefix]uint32{}, sites: map[nodeID]int{}, often: often{},
		ended: ended{byClaim: map[claim]endedBinding{}},
	}
}

// Configure takes over other Map-Servers and EID-Prefixes. Bindings of others end, and those that a key made that is
// no more, a batch at a time; all of them where this is no RTR any more.
func (r *RTR) Configure(c *settings.NATRelay) {
	if r.config = c; c == nil {
		r.generation++
	}
	if r.sweepAt = 0; r.bindings.Len() > 0 {
		r.Sweep.At(r.h.Now)
	}
}

// HandleSweep passes over a batch.
func (r *RTR) HandleSweep() {
	r.Sweep.Run(r.h.Now, sweepRows, func() (cost int, more bool) {
		if r.sweepAt >= uint32(r.bindings.Len()) {
			return 0, false
		}
		if b := r.bindings.At(r.sweepAt); !b.prefix.IsZero() && !r.keeps(b) {
			r.drop(r.sweepAt, removedConfigured)
		}
		r.sweepAt++
		return 1, true
	})
}

// keeps reports whether a binding could be made by the configuration.
func (r *RTR) keeps(b *binding) bool {
	c := r.config
	return c != nil && b.generation == r.generation && c.Takes(b.prefix) && c.Believes(b.mapServer, b.key)
}

// find is the binding of an EID-Prefix, unless the sweep has it before it.
func (r *RTR) find(p lisp.Prefix) (id uint32, known bool) {
	id, known = r.byPrefix[p]
	if known && r.Sweep.Waits() && !r.keeps(r.bindings.At(id)) {
		r.drop(id, removedConfigured)
		return 0, false
	}
	return id, known
}

// HandleMapRegister remembers a Map-Register, unverified, and relays it.
func (r *RTR) HandleMapRegister(m *message.NATRegister) {
	node := nodeID{m.XTRID, m.SiteID}
	if why, refused := r.refuses(m, node); refused {
		r.h.Count(why)
		return
	}
	id, known := r.asked[question{m.Nonce, node}]
	if !known {
		id = r.add(m, node)
	}
	p := r.pendings.At(id)
	if p.relays++; p.relays > maxRelays {
		r.h.Count(counter.RefusedNATPending)
		return
	}
	if m.Others > 0 {
		r.h.Count(counter.RefusedNATPrefix)
	}
	if p.relays == 1 && !p.renews {
		r.noticeRelayed(m)
	}
	r.relay(m)
}

// refuses says what stands against a Map-Register.
func (r *RTR) refuses(m *message.NATRegister, node nodeID) (why counter.Counter, refused bool) {
	if m.Inner.TTL <= 1 {
		return counter.RefusedHopLimit, true
	}
	if id, known := r.asked[question{m.Nonce, node}]; known {
		return counter.RefusedNATReplay, r.pendings.At(id).from != m.From
	}
	for i := range m.Mappings {
		c := claim{m.Mappings[i].Prefix, node}
		if id, known := r.find(c.prefix); known {
			b := r.bindings.At(id)
			if b.node != node && r.h.Now-b.aliveAt < timing.Instant(claimLasts) {
				return counter.RefusedNATClaim, true
			}
		}
		if seen := r.seenOf(c); seen.isReplay(m.Nonce, m.From) {
			return counter.RefusedNATReplay, true
		}
	}
	if r.renews(m, node) {
		return counter.RefusedNATPending, r.renewals >= settings.NATRenewals || r.renewing[m.From] >= settings.NATRenewalsPerRouter
	}
	return counter.RefusedNATPending, len(r.asked)-r.renewals >= settings.NATPending || r.sources[sourceOf(m.From)] >= settings.NATPendingPerSource
}

// renews reports whether a Map-Register comes from where a binding of its node goes to.
func (r *RTR) renews(m *message.NATRegister, node nodeID) bool {
	return slices.ContainsFunc(m.Mappings, func(l lisp.Mapping) bool {
		id, known := r.find(l.Prefix)
		return known && r.bindings.At(id).node == node && r.bindings.At(id).rlocFrom(m.From) != nil
	})
}

// sourceOf is what pendings are limited by: a host of IPv6 has a /64 to send from.
func sourceOf(from netip.AddrPort) netip.Addr {
	if a := from.Addr().Unmap(); a.Is4() {
		return a
	}
	p, err := from.Addr().Prefix(64)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr()
}

// seenOf are the nonces that a node used for an EID-Prefix, as far as they are known.
func (r *RTR) seenOf(c claim) nonces {
	if id, known := r.find(c.prefix); known && r.bindings.At(id).node == c.node {
		return r.bindings.At(id).seen
	}
	return r.ended.of(c, r.h.Now)
}

func (r *RTR) add(m *message.NATRegister, node nodeID) uint32 {
	p := pending{
		nonce: m.Nonce, from: m.From, local: m.Local.Addr(), node: node,
		private: m.Inner.Source.Addr(), mapServer: m.MapServer.Addr(), inner: m.Inner.Destination.Addr(), renews: r.renews(m, node),
	}
	for i := range m.Mappings {
		rec := record{prefix: m.Mappings[i].Prefix, locals: policiesOf(m.Mappings[i].Locators)}
		if ttl := m.Mappings[i].TTLMinutes; ttl != 0 {
			rec.lifetime = bindingLasts
			if m.UseTTL {
				rec.lifetime = lisp.Lifetime(ttl, bindingLasts)
			}
		}
		p.records = append(p.records, rec)
	}
	id := r.pendings.Add(p)
	r.asked[question{m.Nonce, node}], r.byNonce[m.Nonce] = id, id
	if p.renews {
		r.renewing[m.From]++
		r.renewals++
	} else {
		r.sources[sourceOf(m.From)]++
	}
	r.Waits.Set(id, r.h.After(settings.NATPendingLast))
	return id
}

// relay sends a Map-Register on, not a bit of it changed: it is under the site's MAC.
func (r *RTR) relay(m *message.NATRegister) {
	ecm := wire.EncapsulatedControlMessage{RelayedByRTR: true, Inner: m.Inner}
	ecm.Inner.TTL--
	payload, err := ecm.AppendTo(r.h.Buffer(system.UsualECMOctets + len(m.Inner.Message)))
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return
	}
	from := r.h.FromControlPort()
	if m.Local.Addr().Is4() == m.MapServer.Addr().Is4() {
		from = r.h.AnswerFrom(m.Local)
	}
	r.h.Send(from, m.MapServer, r.h.Used(payload))
	r.h.Count(counter.NATRegisterRelayed)
}

// forget ends the wait for a Map-Notify.
func (r *RTR) forget(id uint32) {
	p := r.pendings.At(id)
	delete(r.asked, question{p.nonce, p.node})
	if r.byNonce[p.nonce] == id {
		delete(r.byNonce, p.nonce)
	}
	if p.renews {
		r.renewals--
		leave(r.renewing, p.from)
	} else {
		leave(r.sources, sourceOf(p.from))
	}
	r.Waits.Remove(id)
	*p = pending{}
	r.pendings.Release(id)
}

// leave counts one less.
func leave[K comparable](counts map[K]int, of K) {
	if counts[of]--; counts[of] <= 0 {
		delete(counts, of)
	}
}

// HandleWait ends the wait of a Map-Register that was not acknowledged.
func (r *RTR) HandleWait(id uint32) { r.forget(id) }

// HandleMapNotify verifies what a Map-Server acknowledges, and tells the node.
func (r *RTR) HandleMapNotify(m *message.NATNotify) {
	id, known := r.asked[question{m.Nonce, nodeID{m.XTRID, m.SiteID}}]
	if !m.XTRIDPresent && !m.XTRIDUnflagged {
		id, known = r.byNonce[m.Nonce]
	}
	if !known || r.pendings.At(id).mapServer != m.From.Addr() {
		if !r.handleUnsolicited(m) {
			r.h.Count(counter.RefusedNATNonce)
		}
		return
	}
	p := *r.pendings.At(id)
	r.forget(id)
	for _, rec := range p.records {
		if acknowledges(m.MapNotify, rec.prefix) {
			r.verify(&p, rec, m.Key)
		}
	}
	r.notify(&p, m)
}

// acknowledges reports whether a Map-Notify names an EID-Prefix; one without records names all.
func acknowledges(m *wire.MapNotify, p lisp.Prefix) bool {
	return len(m.Records) == 0 || slices.ContainsFunc(m.Records, func(rec wire.Record) bool {
		named, err := rec.Prefix()
		return err == nil && named == p
	})
}

// verify makes a binding, renews it, moves it, or ends it.
func (r *RTR) verify(p *pending, rec record, key settings.Key) {
	id, known := r.find(rec.prefix)
	seen := r.seenOf(claim{rec.prefix, p.node})
	if seen.isReplay(p.nonce, p.from) { // another one came first
		r.h.Count(counter.RefusedNATReplay)
		return
	}
	seen.saw(p.nonce, p.from)
	if known && (rec.lifetime == 0 || r.bindings.At(id).node != p.node) { // withdrawn, or its node is gone
		why := removedReplaced
		if r.bindings.At(id).node == p.node {
			r.bindings.At(id).seen, why = seen, removedWithdrawn
		}
		r.drop(id, why)
		known = false
	}
	if rec.lifetime == 0 || r.config == nil || !r.config.Takes(rec.prefix) { // a reload came between
		return
	}
	if !rec.hasRoomFor(p) {
		r.h.Count(counter.RefusedNATTable)
		return
	}
	if !known {
		if len(r.byPrefix) >= settings.NATBindings || r.sites[siteOf(p.node)] >= settings.NATBindingsPerSite {
			r.h.Count(counter.RefusedNATTable)
			return
		}
		id = r.bindings.Add(binding{prefix: rec.prefix, since: r.h.Now})
		r.byPrefix[rec.prefix] = id
		r.sites[siteOf(p.node)]++
		r.h.Count(counter.NATBindingAdded)
	}
	b := r.bindings.At(id)
	was := b.rlocs
	moved, before := b.merge(p, &rec, r.h.Now)
	if moved {
		b.moves++
		r.h.Count(counter.NATBindingMoved)
		if rlocOf(was, p.private) != nil {
			r.noteChange(b)
		} else { // its NAT is another one, or keeps a binding of its own for that address
			b.changes = timing.Changes{}
		}
	}
	b.seen, b.key, b.generation = seen, key, r.generation
	b.pending, b.verifiedAt, b.aliveAt = *p, r.h.Now, r.h.Now
	b.records = nil
	r.Expiry.Set(id, b.expiresAt())
	if !known || moved {
		r.noticeBinding(b, moved, before)
	}
	r.noticeRLOCs(b, was, moved, before)
	if !sameRLOCs(was, b.rlocs) {
		r.Forward(b.mapping(r.h.ControlPort))
	}
}

// siteOf is what bindings are limited by: the Site-ID, or the node where there is none.
func siteOf(n nodeID) nodeID {
	if n.site != 0 {
		n.xtr = [16]byte{}
	}
	return n
}

// mapping is how packets reach the node: from the control port, as it sent to that.
func (b *binding) mapping(controlPort uint16) lisp.Mapping {
	var all []lisp.Locator
	for _, w := range b.rlocs {
		to := lisp.RLOCFromAddr(w.from.Addr())
		if w.from.Port() != wire.DataPort {
			to = to.WithPort(w.from.Port())
		}
		l := lisp.NewLocator(to)
		l.SourcePort = controlPort
		l.Priority, l.Weight = w.priority, w.weight
		if !slices.ContainsFunc(all, func(o lisp.Locator) bool { return o.RLOC == l.RLOC }) {
			all = append(all, l)
		}
	}
	set, _ := lisp.NewLocatorSet(all...)
	return lisp.Mapping{Prefix: b.prefix, TTLMinutes: lisp.TTLUnlimited, Locators: set}
}

// notify sends the Map-Notify to the node, the way that data takes.
func (r *RTR) notify(p *pending, m *message.NATNotify) {
	if indata.Send(r.h, r.to(p.from, p.private, p.local, m.Inner.Source.Addr()), m.Inner.Message) {
		r.h.Count(counter.NATNotifySent)
	}
}

// to is the way to a node, at its own address behind its NAT: from an address of ours, as from source.
func (r *RTR) to(node netip.AddrPort, private, own, source netip.Addr) indata.Way {
	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, r.h.ControlPort) }
	return indata.Way{Local: at(own), Remote: node, Source: at(source), Destination: at(private)}
}

// drop ends a binding.
func (r *RTR) drop(id uint32, why string) {
	b := r.bindings.At(id)
	r.noticeRemoved(b, why)
	prefix := b.prefix
	delete(r.byPrefix, prefix)
	leave(r.sites, siteOf(b.node))
	r.Expiry.Remove(id)
	r.ended.add(claim{prefix, b.node}, b.seen, r.h.Now)
	*b = binding{}
	r.bindings.Release(id)
	r.h.Count(counter.NATBindingExpired)
	r.Stop(prefix)
}

// HandleExpiry ends a binding that no Map-Register renewed, or one of the RLOCs that it leads to.
func (r *RTR) HandleExpiry(id uint32) {
	b := r.bindings.At(id)
	was := b.rlocs
	if b.rlocs = slices.DeleteFunc(slices.Clone(was), func(w natRLOC) bool { return w.until <= r.h.Now }); len(b.rlocs) == 0 {
		r.drop(id, removedExpired)
		return
	}
	r.noticeRLOCs(b, was, false, netip.AddrPort{})
	r.Expiry.Set(id, b.expiresAt())
	r.Forward(b.mapping(r.h.ControlPort))
}

// HandleProbe answers the keepalive of a node: with our RLOC where the EID-Prefix goes to where the keepalive came
// from, without a locator where it does not. It reports whether it is one.
func (r *RTR) HandleProbe(m *message.MapRequest, asked lisp.Prefix) bool {
	if r.config == nil || !r.config.Takes(asked) || len(m.ReplyRLOCs) == 0 || !m.Local.Addr().IsValid() {
		return false
	}
	id, known := r.find(asked)
	isHere := known && r.bindings.At(id).rlocFrom(m.From) != nil
	behind := !slices.Contains(m.ReplyRLOCs, lisp.RLOCFromAddr(m.From.Addr())) || m.From.Port() == wire.DataPort
	if !isHere && !behind {
		return false
	}
	answer := lisp.Mapping{Prefix: asked, Authoritative: true}
	if isHere {
		r.bindings.At(id).aliveAt = r.h.Now
		answer = indata.ProbedMapping(asked, m.Local.Addr(), 1)
	}
	private := m.ReplyRLOCs[0].Addr()
	if private.Is4() != m.Local.Addr().Is4() {
		private = m.From.Addr()
	}
	if indata.AnswerProbe(r.h, r.to(m.From, private, m.Local.Addr(), m.Local.Addr()), m.Nonce, answer) {
		r.h.Count(counter.NATKeepaliveAnswered)
	}
	return true
}

// Size is how many bindings there are, and how many Map-Registers wait for a Map-Notify.
func (r *RTR) Size() (bindings, waiting int) { return len(r.byPrefix), len(r.asked) }

// pageRows bounds the rows that are looked at for one page.
const pageRows = 2048

// Page is a part of the bindings, in no order: at most so many from where the last page ended, which is 0 at first.
// more is false after the last one.
func (r *RTR) Page(from uint32, most int) (page []status.NATBinding, next uint32, more bool) {
	rows := uint32(r.bindings.Len())
	for next = from; next < rows && len(page) < most && next-from < pageRows; next++ {
		b := r.bindings.At(next)
		if b.prefix.IsZero() { // released
			continue
		}
		page = append(page, r.statusOf(next))
	}
	return page, next, next < rows
}

// Of is the binding of an EID-Prefix.
func (r *RTR) Of(p lisp.Prefix) (b status.NATBinding, known bool) {
	id, known := r.byPrefix[p]
	if known {
		b = r.statusOf(id)
	}
	return b, known
}

func (r *RTR) statusOf(id uint32) status.NATBinding {
	b := r.bindings.At(id)
	s := status.NATBinding{
		Prefix: b.prefix, Seen: b.from, Private: b.private, Own: b.local, MapServer: b.mapServer, XTRID: b.node.xtr,
		SiteID: b.node.site, Since: r.h.Time(b.since), VerifiedAt: r.h.Time(b.verifiedAt),
		ExpiresAt: r.h.Time(r.Expiry.Of(id)), Moves: b.moves,
	}
	for _, w := range b.rlocs {
		s.RLOCs = append(s.RLOCs, status.NATRLOC{Seen: w.from, Private: w.private, Priority: w.priority, Weight: w.weight})
	}
	if since, often := b.changes.OftenSince(r.h.Now); often {
		s.OftenChangedSince = r.h.Time(since)
	}
	return s
}
