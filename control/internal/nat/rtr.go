// SPDX-License-Identifier: Apache-2.0

package nat

// The RTR (s.5.3): it relays the Map-Registers of nodes behind NATs, and where a Map-Server acknowledges one it knows
// from which address and port the node sends, and forwards the node's packets there. A nonce moves a binding once:
// what was seen from one address moves nothing when it comes from another (see nonces.go for how far that goes).

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/indata"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// bindingLasts is how long a binding lasts without Map-Registers, as registrations do (RFC 9301 s.8.2).
	bindingLasts = settings.DefaultRegistrationTimeout
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
	// with what other nodes register: it asks for that, and a key authenticates the Map-Server's word
	merges bool
}

type record struct {
	prefix   lisp.Prefix
	lifetime time.Duration // 0: withdrawn
	locals   []policy      // of the node's RLOCs behind NATs
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

	Bindings bindings
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
		Bindings: newBindings(h), often: often{},
		ended: ended{byClaim: map[claim]endedBinding{}},
	}
}

// Configure takes over other Map-Servers and EID-Prefixes. Bindings of others end, and those that a key made that is
// no more, a batch at a time; all of them where this is no RTR any more.
func (r *RTR) Configure(c *settings.NATRelay) {
	if r.config = c; c == nil {
		r.generation++
	}
	if r.sweepAt = 0; r.Bindings.count > 0 {
		r.Sweep.At(r.h.Now)
	}
}

// HandleSweep passes over a batch.
func (r *RTR) HandleSweep() {
	r.Sweep.Run(r.h.Now, sweepRows, func() (cost int, more bool) {
		if r.sweepAt >= uint32(r.Bindings.rows.Len()) {
			return 0, false
		}
		if b := r.Bindings.rows.At(r.sweepAt); !b.prefix.IsZero() && !r.keeps(b) {
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

// current are the bindings of an EID-Prefix, without those that the sweep has before it.
func (r *RTR) current(p lisp.Prefix) iter.Seq2[uint32, *binding] {
	if r.Sweep.Waits() {
		for id, b := range r.Bindings.each(p) {
			if !r.keeps(b) {
				r.drop(id, removedConfigured)
			}
		}
	}
	return r.Bindings.each(p)
}

// find is a node's binding of an EID-Prefix, nil for none.
func (r *RTR) find(c claim) (id uint32, b *binding) {
	for id, b := range r.current(c.prefix) {
		if b.node == c.node {
			return id, b
		}
	}
	return noBinding, nil
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
		if r.isTaken(c, m, m.Mappings[i].TTLMinutes == 0) {
			return counter.RefusedNATClaim, true
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

// isTaken reports whether a node that is alive has an EID-Prefix that another one claims, and does not share it. A node
// may always leave.
func (r *RTR) isTaken(c claim, m *message.NATRegister, withdrawn bool) bool {
	if _, own := r.find(c); own != nil && withdrawn {
		return false
	}
	merges := r.merges(m)
	for _, b := range r.current(c.prefix) {
		if b.node != c.node && r.Bindings.isAlive(b.node, r.h.Now) && !b.shares(merges, m.MapServer.Addr()) {
			return true
		}
	}
	return false
}

// merges reports whether a Map-Server merges what a Map-Register says with what other nodes register, if it
// acknowledges it. Without a key anyone may have said so.
func (r *RTR) merges(m *message.NATRegister) bool {
	return m.MergeRequest && len(r.serverOf(m).Keys) > 0
}

// serverOf is the Map-Server of a Map-Register, the zero one where a reload removed it.
func (r *RTR) serverOf(m *message.NATRegister) (server settings.NATMapServer) {
	if r.config != nil {
		if s, known := r.config.MapServer(m.MapServer.Addr()); known {
			server = *s
		}
	}
	return server
}

// renews reports whether a Map-Register comes from where a binding of its node goes to.
func (r *RTR) renews(m *message.NATRegister, node nodeID) bool {
	return slices.ContainsFunc(m.Mappings, func(l lisp.Mapping) bool {
		_, b := r.find(claim{l.Prefix, node})
		return b != nil && b.rlocFrom(m.From) != nil
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
	if _, b := r.find(c); b != nil {
		return b.seen
	}
	return r.ended.of(c, r.h.Now)
}

func (r *RTR) add(m *message.NATRegister, node nodeID) uint32 {
	p := pending{
		nonce: m.Nonce, from: m.From, local: m.Local.Addr(), node: node,
		private: m.Inner.Source.Addr(), mapServer: m.MapServer.Addr(), inner: m.Inner.Destination.Addr(),
		renews: r.renews(m, node), merges: r.merges(m),
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
	payload := m.Inner.Message
	if !r.serverOf(m).OldDraft {
		ecm := wire.EncapsulatedControlMessage{RelayedByRTR: true, Inner: m.Inner}
		ecm.Inner.TTL--
		encoded, err := ecm.AppendTo(r.h.Buffer(system.UsualECMOctets + len(m.Inner.Message)))
		if err != nil {
			r.h.Count(counter.RefusedEncoding)
			return
		}
		payload = r.h.Used(encoded)
	}
	from := r.h.FromControlPort()
	if m.Local.Addr().Is4() == m.MapServer.Addr().Is4() {
		from = r.h.AnswerFrom(m.Local)
	}
	r.h.Send(from, m.MapServer, payload)
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
	p.merges = p.merges && len(m.Key.Secret) > 0
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

// forward has the packets of an EID-Prefix go to where its nodes are.
func (r *RTR) forward(p lisp.Prefix) { r.Forward(r.Bindings.mapping(p, r.h.ControlPort)) }

// notify sends the Map-Notify to the node, the way that data takes.
func (r *RTR) notify(p *pending, m *message.NATNotify) {
	source := m.Inner.Source.Addr()
	if !source.IsValid() { // without an ECM nothing says it
		source = p.inner
	}
	if indata.Send(r.h, r.to(p.from, p.private, p.local, source), m.Inner.Message) {
		r.h.Count(counter.NATNotifySent)
	}
}

// to is the way to a node, at its own address behind its NAT: from an address of ours, as from source.
func (r *RTR) to(node netip.AddrPort, private, own, source netip.Addr) indata.Way {
	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, r.h.ControlPort) }
	return indata.Way{Local: at(own), Remote: node, Source: at(source), Destination: at(private)}
}

// bindingFrom is the binding of an EID-Prefix that leads to an address and port, nil for none.
func (r *RTR) bindingFrom(p lisp.Prefix, from netip.AddrPort) *binding {
	for _, b := range r.current(p) {
		if b.rlocFrom(from) != nil {
			return b
		}
	}
	return nil
}

// HandleProbe answers the keepalive of a node: with our RLOC where the EID-Prefix goes to where the keepalive came
// from, without a locator where it does not. It reports whether it is one.
func (r *RTR) HandleProbe(m *message.MapRequest, asked lisp.Prefix) bool {
	if r.config == nil || !r.config.Takes(asked) || len(m.ReplyRLOCs) == 0 || !m.Local.Addr().IsValid() {
		return false
	}
	b := r.bindingFrom(asked, m.From)
	isHere := b != nil
	behind := !slices.Contains(m.ReplyRLOCs, lisp.RLOCFromAddr(m.From.Addr())) || m.From.Port() == wire.DataPort
	if !isHere && !behind {
		return false
	}
	answer := lisp.Mapping{Prefix: asked, Authoritative: true}
	if isHere {
		r.noteAlive(b.node)
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
func (r *RTR) Size() (bindings, waiting int) { return r.Bindings.count, len(r.asked) }
