// SPDX-License-Identifier: Apache-2.0

package natworld

// What must hold.

import (
	"net/netip"
	"time"

	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/report"
	"loci/wire"
)

// The names of the invariants, as violations and docs/simulator.md have them.
const (
	invariantNoPanic = "no-panic"
	invariantLimits  = "within-limits"
	invariantPlane   = "plane-in-step"
	invariantOwn     = "own-binding" // no packet goes to, or is delivered by, another node's binding
	// an RTR forwards to what a Map-Server has acknowledged only, and not for longer than that lasts
	invariantVerified = "verified-binding"
	invariantReached  = "reached"   // within a keepalive and 10 s after the last fault
	invariantPorts    = "nat-ports" // a node's packets to its RTRs leave from two ports
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

// checks are what the invariants remember.
type checks struct {
	failure     *report.Violation
	awaited     map[uint32]struct{}
	unreachedAt time.Duration // when the last packet was sent that did not arrive, before the outage

	outside map[*router]map[netip.AddrPort]time.Duration // from where a node's datagrams came last

	acknowledged acknowledged
}

func newChecks() checks {
	return checks{
		awaited: map[uint32]struct{}{}, outside: map[*router]map[netip.AddrPort]time.Duration{},
		acknowledged: acknowledged{relayed: map[relay]registered{}, verified: map[claim]time.Duration{}},
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
		outage := w.outage.bound(f, sentAt)
		bound := max(w.calmSince()+f.reachedWithin(), outage)
		if private {
			bound += report.MaxTTLMinutes * time.Minute
		}
		if f.to.behind == nil { // it registers once a minute
			bound = max(w.calmSince()+report.ConvergenceBound, outage)
		}
		if outage == 0 {
			w.unreachedAt = sentAt
		}
		if sentAt >= bound {
			w.fail(f.to, invariantReached, "a packet of %s for %s, sent %s after the last fault, did not arrive", f.from.name, f.destination, sentAt-w.calmSince())
		}
	})
}

// reachedWithin is how long after the last fault one of the packets may be lost yet.
func (f *flow) reachedWithin() time.Duration {
	return max(keepaliveOf(f.from), keepaliveOf(f.to)) + reachedWithin
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
	if p := from.Port(); r.behind != nil && r.w.rtrs.at(to.Addr()) != nil && p != wire.DataPort &&
		p != wire.ControlPort {
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
	if rtr := r.w.rtrs.at(to.Addr()); owner == nil || rtr != nil && rtr != r {
		return // to an RTR
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

// isPrivate reports whether an address is one that NATs have inside.
func isPrivate(a netip.Addr) bool {
	return a.Is4() && a.As4()[0] == 192 || !a.Is4() && a.As16()[0] == 0xfc
}
