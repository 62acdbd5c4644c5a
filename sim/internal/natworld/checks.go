// SPDX-License-Identifier: Apache-2.0

package natworld

// What must hold.

import (
	"bytes"
	"net/netip"
	"time"

	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/report"
	"loci/wire"
)

// The names of the invariants, as violations and docs/simulator.md have them.
const (
	invariantNoPanic  = "no-panic"
	invariantLimits   = "within-limits"
	invariantPlane    = "plane-in-step"
	invariantOwn      = "own-binding"      // no packet goes to, or is delivered by, another node's binding
	invariantVerified = "verified-binding" // the RTR forwards to what a Map-Server has acknowledged only, and not for longer than that lasts
	invariantReached  = "reached"          // within a keepalive and 10 s after the last fault
	invariantPorts    = "nat-ports"        // a node's packets to its RTR leave from two ports
)

const (
	sweepInterval = time.Second
	// reachedWithin is how long after the last fault, beside a keepalive, a node may not be reached.
	reachedWithin = 10 * time.Second
	// underWay is the longest that a packet takes.
	underWay = 2 * time.Second
	// bindingLasts is how long a binding lasts after its Map-Register (RFC 9301 s.8.2); what a restarted RTR
	// finds in its data plane lasts a minute more.
	bindingLasts = 3 * time.Minute
	adoptedLasts = time.Minute
	// usualKeepalive is the interval where none is configured.
	usualKeepalive = 25 * time.Second
	// formerLasts is how long a mapping may have an RLOC that its site has left, also while the process of the
	// RTR is away.
	formerLasts = report.ConvergenceBound + 2*time.Minute
)

// claim is an EID-Prefix at an address and port.
type claim struct {
	prefix lisp.Prefix
	at     netip.AddrPort
}

// registered is what a Map-Register claims that reached the RTR, sent by its node.
type registered struct {
	at      time.Duration
	claims  []claim
	payload []byte // the message
}

// checks are what the invariants remember.
type checks struct {
	failure     *report.Violation
	awaited     map[uint32]struct{}
	unreachedAt time.Duration // when the last packet was sent that did not arrive

	outside  map[*router]map[netip.AddrPort]time.Duration // from where a node's datagrams came last
	relayed  map[uint64]registered                        // by nonce: not acknowledged
	verified map[claim]time.Duration
}

func newChecks() checks {
	return checks{
		awaited: map[uint32]struct{}{}, outside: map[*router]map[netip.AddrPort]time.Duration{},
		relayed: map[uint64]registered{}, verified: map[claim]time.Duration{},
	}
}

// await wants a packet to arrive, if it has to by now.
func (w *World) await(f *flow, number uint32) {
	sentAt, private := w.now, f.goesPrivately()
	w.awaited[number] = struct{}{}
	w.after(underWay, func() {
		_, lost := w.awaited[number]
		delete(w.awaited, number)
		if !lost {
			return
		}
		bound := w.calmSince() + max(keepaliveOf(f.from), keepaliveOf(f.to)) + reachedWithin
		if private {
			bound += report.MaxTTLMinutes * time.Minute
		}
		if f.to.behind == nil { // it registers once a minute
			bound = w.calmSince() + report.ConvergenceBound
		}
		if w.unreachedAt = sentAt; sentAt >= bound {
			w.fail(f.to, invariantReached, "a packet of %s for %s, sent %s after the last fault, did not arrive", f.from.name, f.destination, sentAt-w.calmSince())
		}
	})
}

// goesPrivately reports whether the sender knows a private RLOC of a node behind a NAT: it asked before the node knew
// that it is behind one. Nothing tells it before the mapping's TTL ends.
func (f *flow) goesPrivately() bool {
	if f.from.plane == nil || f.to.behind == nil {
		return false
	}
	for e := range f.from.plane.InPlace() {
		if e.Mapping.Prefix.Contains(f.to.instance, lisp.EIDFromAddr(f.destination)) && len(e.Mapping.Locators) == 1 &&
			isPrivate(e.Mapping.Locators[0].RLOC.Addr()) {
			return true
		}
	}
	return false
}

// keepaliveOf is the interval of a node's keepalives.
func keepaliveOf(r *router) time.Duration {
	if r.keepalive == 0 {
		return usualKeepalive
	}
	return r.keepalive
}

// noteOutside notes from where a router's datagram comes, and judges its ports.
func (r *router) noteOutside(from, public, to netip.AddrPort) {
	m := r.w.outside[r]
	if m == nil {
		m = map[netip.AddrPort]time.Duration{}
		r.w.outside[r] = m
	}
	m[public] = r.w.now
	if p := from.Port(); r.behind != nil && r.w.rtr.station.Has(to.Addr()) && p != wire.DataPort && p != wire.ControlPort {
		r.w.fail(r, invariantPorts, "a datagram to the RTR %s leaves from port %d", to, p)
	}
}

// isAt reports whether a router's datagrams came from there lately, or it had that RLOC itself, which it registers
// until it knows that it is behind a NAT.
func (r *router) isAt(a netip.AddrPort) bool {
	from := r.w.outside[r]
	at, known := from[a]
	if had, own := r.had[a.Addr()]; own && a.Port() == wire.DataPort {
		at, known = max(at, had), true
	}
	return known && r.w.now-at <= formerLasts || r.station.Has(a.Addr())
}

// checkEncapsulated judges where a packet for an EID goes to.
func (r *router) checkEncapsulated(instance lisp.InstanceID, destination netip.Addr, to netip.AddrPort) {
	owner := r.w.owner(instance, destination)
	if owner == nil || r.w.rtr.station.Has(to.Addr()) && r != r.w.rtr {
		return // to the RTR
	}
	if !owner.isAt(to) {
		r.w.fail(r, invariantOwn, "a packet for %s of %s is sent to %s, where that never was, or not lately", destination, owner.name, to)
	}
}

// checkDelivered judges a packet that goes to a site's hosts.
func (r *router) checkDelivered(instance lisp.InstanceID, packet []byte) {
	p := packets.Read(packet)
	delete(r.w.awaited, p.Number)
	if owner := r.w.owner(instance, packets.Destination(packet)); owner != r || p.Site != uint32(r.index) {
		r.w.fail(r, invariantOwn, "a packet for %s is delivered to %s", packets.Destination(packet), r.name)
	}
}

// checkInstalled judges where an RTR forwards to.
func (r *router) checkInstalled(m lisp.Mapping) {
	if to, ok := bindingOf(m); ok && r == r.w.rtr {
		r.checkVerified(m.Prefix, to)
	}
}

func (r *router) checkVerified(p lisp.Prefix, to netip.AddrPort) {
	switch at, known := r.w.verified[claim{p, to}]; {
	case !known:
		r.w.fail(r, invariantVerified, "%s is forwarded to %s, which no Map-Server has acknowledged", p, to)
	case r.w.now-at > bindingLasts+adoptedLasts:
		r.w.fail(r, invariantVerified, "%s is forwarded to %s, which a Map-Server acknowledged %s ago", p, to, r.w.now-at)
	}
}

// bindingOf is the address and port that an RTR forwards to; false for a mapping that is no binding.
func bindingOf(m lisp.Mapping) (to netip.AddrPort, ok bool) {
	if len(m.Locators) != 1 || m.Locators[0].SourcePort != wire.ControlPort {
		return to, false
	}
	l := m.Locators[0].RLOC
	port := l.Port()
	if port == 0 {
		port = wire.DataPort
	}
	return netip.AddrPortFrom(l.Addr(), port), true
}

// sweep looks at all bindings of the RTR each second, and forgets what is old.
func (w *World) sweep() {
	if w.rtr.plane != nil {
		for e := range w.rtr.plane.InPlace() {
			if to, ok := bindingOf(e.Mapping); ok {
				w.rtr.checkVerified(e.Mapping.Prefix, to)
			}
		}
	}
	for nonce, m := range w.relayed {
		if w.now-m.at > adoptedLasts {
			delete(w.relayed, nonce)
		}
	}
}

// beforeMessage notes what a message allows the RTR to do. What an attacker sends allows nothing.
func (r *router) beforeMessage(m *network.Mail) {
	ecm, ok := m.Message().(*wire.EncapsulatedControlMessage)
	if r != r.w.rtr || m.Hostile || !ok || !ecm.ForRTR {
		return
	}
	inner, err := wire.Parse(ecm.Inner.Message)
	if err != nil {
		return
	}
	switch inner := inner.(type) {
	case *wire.MapRegister:
		said := registered{at: r.w.now, payload: bytes.Clone(m.Payload)}
		for i := range inner.Records {
			if p, err := inner.Records[i].Prefix(); err == nil {
				said.claims = append(said.claims, claim{p, m.From})
			}
		}
		r.w.relayed[inner.Nonce] = said
	case *wire.MapNotify:
		said, known := r.w.relayed[inner.Nonce]
		for _, c := range said.claims {
			r.w.verified[c] = r.w.now
		}
		if delete(r.w.relayed, inner.Nonce); known {
			r.w.attacker.overhear(said.payload)
		}
	}
}

// isPrivate reports whether an address is one that NATs have inside.
func isPrivate(a netip.Addr) bool {
	return a.Is4() && a.As4()[0] == 192 || !a.Is4() && a.As16()[0] == 0xfc
}
