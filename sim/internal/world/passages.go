// SPDX-License-Identifier: Apache-2.0

package world

// What relays did with a packet is held against how it came: a relay forwards what its policy names, lowers the TTL, keeps the
// Instance-ID, and sends nothing to itself (RFC 9300 s.5.3, RFC 6832, RFC 8060 s.4.6). Once all is quiet, each packet of a steady
// flow has to arrive at its end, by however many relays.

import (
	"loci/sim/internal/sites"
	"net/netip"
	"time"

	"loci/control"
	enginepackets "loci/dataplane/model/packets"
	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/paths"
)

const (
	// waitsFor is how long a packet may wait at a relay, whose clock may be set back meanwhile.
	waitsFor = 8 * time.Second
	// arrivesWithin is how long a packet may take from end to end: it waits once at most.
	arrivesWithin = 2 * waitsFor
	// mostHops is how often a packet can be relayed: the TTL of the first one.
	mostHops = packets.HostTTL
)

// passage is how a packet came to a relay.
type passage struct {
	encapsulated bool
	ttl          uint8 // the lower one of both headers
	hops         int   // relays that it came by
	hostile      bool
	instance     lisp.InstanceID
	since        time.Duration
}

// passageOf reads it from a LISP data packet.
func passageOf(w *World, m *Mail) passage {
	inner := packets.Inner(m.Payload)
	return passage{
		encapsulated: true, ttl: min(packets.TTL(m.Payload), packets.TTL(inner)), hops: m.Hops, hostile: m.Hostile,
		instance: packets.InstanceOf(m.Payload), since: w.Now,
	}
}

// through gives a relay's data plane a packet, and remembers it if it waits.
func through(r *Router, p passage, interfaceName string, packet []byte) (outcome string) {
	r.passing = &p
	o := r.Plane.Send(interfaceName, packet)
	r.passing = nil
	if number := packets.Read(packet).Number; o.What.String() == "wait" {
		if before, waits := r.waiting[number]; waits && r.W.Now-before.since < waitsFor {
			p.ttl, p.hops = max(p.ttl, before.ttl), min(p.hops, before.hops)
		}
		r.waiting[number] = p
	}
	if outcome = o.What.String(); outcome == "drop" {
		outcome = o.Reason.String()
	}
	r.RaiseMisses()
	return outcome
}

// passageNow is how the packet came that a relay sends at this moment.
func passageNow(r *Router, packet []byte) (passage, bool) {
	if r.passing != nil {
		return *r.passing, true
	}
	p, waits := r.waiting[packets.Read(packet).Number]
	return p, waits && r.W.Now-p.since < waitsFor
}

// arriveAtRelay is an encapsulated packet at a relay.
func arriveAtRelay(w *World, r *Router, m *Mail) {
	outcome := through(r, passageOf(w, m), coreInterface, m.Payload)
	w.Trace.Note(w.Now, r.Index, nil, func() string { return r.Name + " takes a packet from " + m.From.Addr().String() + ": " + outcome })
	switch outcome {
	case "relay", "native":
		w.Stats.PacketsRelayed++
	case "wait":
	default:
		w.lostPacket(r, m, outcome)
	}
}

// checkRelayed judges a packet that leaves a relay with outer headers, and tells how it came.
func checkRelayed(w *World, r *Router, m enginepackets.Emission) passage {
	inner := packets.Inner(m.Packet)
	source, destination := packets.Source(inner), packets.Destination(inner)
	p, known := passageNow(r, m.Packet)
	instance := packets.InstanceOf(m.Packet)
	switch {
	case !known:
		w.Fail(r, invariantPolicy, "a packet from %s to %s is sent to %s that did not come, or long ago", source, destination, m.Destination)
	case r.Station.Has(m.Destination.Addr()):
		w.Fail(r, InvariantLocator, "a packet to %s is sent to %s, its own RLOC", destination, m.Destination)
	case p.instance != instance:
		w.Fail(r, invariantRightSite, "a packet to %s came in Instance-ID %d and leaves in %d", destination, p.instance, instance)
	case p.encapsulated && !names(r, control.RoleRTR, instance, source) && !names(r, control.RoleRTR, instance, destination):
		w.Fail(r, invariantPolicy, "a packet from %s to %s in Instance-ID %d is relayed, and its policy names neither", source, destination, instance)
	case !p.encapsulated && !(names(r, control.RolePITR, instance, destination) && (!r.Relay.Limited || paths.Within(packets.Outsiders, source))):
		w.Fail(r, invariantPolicy, "a packet from %s to %s in Instance-ID %d is encapsulated, which its policy does not say", source, destination, instance)
	case packets.TTL(m.Packet) >= p.ttl:
		w.Fail(r, invariantLoopEnds, "a packet to %s came with TTL %d and leaves with %d", destination, p.ttl, packets.TTL(m.Packet))
	case p.hops+1 > mostHops:
		w.Fail(r, invariantLoopEnds, "a packet to %s is relayed the %dth time", destination, p.hops+1)
	}
	return p
}

// checkNative judges a packet that leaves a router without outer headers.
func checkNative(w *World, r *Router, packet []byte) {
	number := packets.Read(packet)
	if number.Site == packets.Outside {
		delete(w.awaited, number.Number)
	}
	if r.Relay == nil || w.Network.RouterAt(packets.Destination(packet)) != nil { // to an RLOC that the data plane does not know yet
		return
	}
	source := packets.Source(packet)
	switch p, known := passageNow(r, packet); {
	case !known || !p.encapsulated: // a packet of a host outside LISP, or an answer to one
	case !names(r, control.RolePETR, p.instance, source):
		w.Fail(r, invariantPolicy, "a packet from %s in Instance-ID %d leaves LISP, and its policy does not name it", source, p.instance)
	case packets.TTL(packet) >= p.ttl:
		w.Fail(r, invariantLoopEnds, "a packet from %s came with TTL %d and leaves LISP with %d", source, p.ttl, packets.TTL(packet))
	}
}

// names reports whether a policy that is in force names an EID.
func names(r *Router, role control.Role, instance lisp.InstanceID, eid netip.Addr) bool {
	return paths.Names(r.config.Roles, role, instance, eid)
}

// await wants a packet of a steady flow to arrive.
func await(w *World, f *sites.Flow, number uint32) {
	w.Await(number, func() {
		if w.mustBeQuiet() {
			w.Fail(w.Router(f.From), invariantConvergence, "packet %d of the steady flow from %s to %s did not arrive", number, f.Source, f.To)
		}
	})
}

// Await has a packet arrive in time, or else something done.
func (w *World) Await(number uint32, orElse func()) {
	w.awaited[number] = struct{}{}
	w.After(arrivesWithin, func() {
		if _, missing := w.awaited[number]; missing {
			orElse()
		}
		delete(w.awaited, number)
	})
}

// wrongHop says which path of a mapping has its packets sent to another hop than the first one behind the router that is alive.
func wrongHop(r *Router, set lisp.LocatorSet) string {
	if l, wrong := view(r).WrongHop(set, func(rloc lisp.RLOC) bool { return reaches(r, rloc) }); wrong {
		return r.Name + " sends packets of " + l.Path().String() + " to " + l.NextHop().String()
	}
	return ""
}

// reaches reports whether a packet to an RLOC comes to a router that is on.
func reaches(r *Router, rloc lisp.RLOC) bool {
	a := rloc.Addr()
	to := r.W.Router(r.W.Network.RouterAt(a))
	return to != nil && to.Node != nil && to.Station.LinkOf(a).Cut == 0 && !r.W.Network.Apart(r.Station.Links[0].Addr, &to.Station)
}
