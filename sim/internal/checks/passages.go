// SPDX-License-Identifier: Apache-2.0

package checks

// What relays did with a packet is held against how it came: a relay forwards what its policy names, lowers the TTL,
// keeps the Instance-ID, and sends nothing to itself (RFC 9300 s.5.3, RFC 6832, RFC 8060 s.4.6). Once all is quiet,
// each packet of a steady flow has to arrive at its end, by however many relays.

import (
	"net/netip"
	"time"

	"loci/control"
	enginepackets "loci/dataplane/model/packets"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/paths"
	"loci/sim/internal/sites"
)

const (
	// waitsFor is how long a packet may wait at a relay, whose clock may be set back meanwhile.
	waitsFor = 8 * time.Second
	// arrivesWithin is how long a packet may take from end to end: it waits once at most.
	arrivesWithin = 2 * waitsFor
	// mostHops is how often a packet can be relayed: the TTL of the first one.
	mostHops = packets.HostTTL
)

// Passage is how a packet came to a relay.
type Passage struct {
	encapsulated bool
	ttl          uint8 // the lower one of both headers
	Hops         int   // relays that it came by
	Hostile      bool
	instance     lisp.InstanceID
	since        time.Duration
}

// PassageOf reads it from a LISP data packet.
func (j *Judge) PassageOf(m *network.Mail) Passage {
	inner := packets.Inner(m.Payload)
	return Passage{
		encapsulated: true, ttl: min(packets.TTL(m.Payload), packets.TTL(inner)), Hops: m.Hops, Hostile: m.Hostile,
		instance: packets.InstanceOf(m.Payload), since: j.now(),
	}
}

// FromOutside is how a packet of a host outside LISP comes to a PITR.
func (j *Judge) FromOutside(p packets.Payload, hostile bool) Passage {
	return Passage{ttl: packets.HostTTL, instance: lisp.InstanceID(p.Instance), Hostile: hostile, since: j.now()}
}

// Takes notes how the packet came that a relay's data plane works on from now on.
func (r *Record) Takes(p Passage) { r.passing = &p }

// Took notes that it is done with that packet, which may wait there.
func (r *Record) Took(number uint32, waits bool) {
	p := *r.passing
	if r.passing = nil; !waits {
		return
	}
	if before, waited := r.waiting[number]; waited && r.judge.now()-before.since < waitsFor {
		p.ttl, p.Hops = max(p.ttl, before.ttl), min(p.Hops, before.Hops)
	}
	r.waiting[number] = p
}

// passageNow is how the packet came that a relay sends at this moment.
func (r *Record) passageNow(packet []byte) (Passage, bool) {
	if r.passing != nil {
		return *r.passing, true
	}
	p, waits := r.waiting[packets.Read(packet).Number]
	return p, waits && r.judge.now()-p.since < waitsFor
}

// checkRelayed judges a packet that leaves a relay with outer headers, and tells how it came.
func checkRelayed(j *Judge, r *Record, m enginepackets.Emission) Passage {
	inner := packets.Inner(m.Packet)
	source, destination := packets.Source(inner), packets.Destination(inner)
	p, known := r.passageNow(m.Packet)
	instance := packets.InstanceOf(m.Packet)
	switch {
	case !known:
		j.Fail(r, invariantPolicy, "a packet from %s to %s is sent to %s that did not come, or long ago", source, destination, m.Destination)
	case r.Station.Has(m.Destination.Addr()):
		j.Fail(r, InvariantLocator, "a packet to %s is sent to %s, its own RLOC", destination, m.Destination)
	case p.instance != instance:
		j.Fail(r, invariantRightSite, "a packet to %s came in Instance-ID %d and leaves in %d", destination, p.instance, instance)
	case p.encapsulated && !names(r, control.RoleRTR, instance, source) && !names(r, control.RoleRTR, instance, destination):
		j.Fail(r, invariantPolicy, "a packet from %s to %s in Instance-ID %d is relayed, and its policy names neither", source, destination, instance)
	case !p.encapsulated && !(names(r, control.RolePITR, instance, destination) && (!r.Relay.Limited || paths.Within(packets.Outsiders, source))):
		j.Fail(r, invariantPolicy, "a packet from %s to %s in Instance-ID %d is encapsulated, which its policy does not say", source, destination, instance)
	case packets.TTL(m.Packet) >= p.ttl:
		j.Fail(r, invariantLoopEnds, "a packet to %s came with TTL %d and leaves with %d", destination, p.ttl, packets.TTL(m.Packet))
	case p.Hops+1 > mostHops:
		j.Fail(r, invariantLoopEnds, "a packet to %s is relayed the %dth time", destination, p.Hops+1)
	}
	return p
}

// CheckNative judges a packet that leaves a router without outer headers.
func (r *Record) CheckNative(packet []byte) {
	j := r.judge
	number := packets.Read(packet)
	if number.Site == packets.Outside {
		delete(j.Awaited, number.Number)
	}
	if r.Relay == nil || j.Network.RouterAt(packets.Destination(packet)) != nil { // to an RLOC that the data plane does not know yet
		return
	}
	source := packets.Source(packet)
	switch p, known := r.passageNow(packet); {
	case !known || !p.encapsulated: // a packet of a host outside LISP, or an answer to one
	case !names(r, control.RolePETR, p.instance, source):
		j.Fail(r, invariantPolicy, "a packet from %s in Instance-ID %d leaves LISP, and its policy does not name it", source, p.instance)
	case packets.TTL(packet) >= p.ttl:
		j.Fail(r, invariantLoopEnds, "a packet from %s came with TTL %d and leaves LISP with %d", source, p.ttl, packets.TTL(packet))
	}
}

// names reports whether a policy that is in force names an EID.
func names(r *Record, role control.Role, instance lisp.InstanceID, eid netip.Addr) bool {
	return paths.Names(r.Config.Roles, role, instance, eid)
}

// AwaitFlow wants a packet of a steady flow to arrive.
func (j *Judge) AwaitFlow(f *sites.Flow, number uint32) {
	j.Await(number, func() {
		if j.MustBeQuiet() {
			j.Fail(j.Record(f.From), InvariantConvergence, "packet %d of the steady flow from %s to %s did not arrive", number, f.Source, f.To)
		}
	})
}

// Await has a packet arrive in time, or else something done.
func (j *Judge) Await(number uint32, orElse func()) {
	j.Awaited[number] = struct{}{}
	j.After(arrivesWithin, func() {
		if _, missing := j.Awaited[number]; missing {
			orElse()
		}
		delete(j.Awaited, number)
	})
}

// wrongHop says which path of a mapping has its packets sent to another hop than the first one behind the router that
// is alive.
func wrongHop(r *Record, set lisp.LocatorSet) string {
	if l, wrong := view(r).WrongHop(set, func(rloc lisp.RLOC) bool { return reaches(r, rloc) }); wrong {
		return r.Name + " sends packets of " + l.Path().String() + " to " + l.NextHop().String()
	}
	return ""
}

// reaches reports whether a packet to an RLOC comes to a router that is on.
func reaches(r *Record, rloc lisp.RLOC) bool {
	a := rloc.Addr()
	to := r.judge.Record(r.judge.Network.RouterAt(a))
	return to != nil && to.Node != nil && to.Station.LinkOf(a).Cut == 0 && !r.judge.Network.Apart(r.Station.Links[0].Addr, &to.Station)
}

// CheckLost judges a packet that did not reach its site: an offence once all is quiet.
func (j *Judge) CheckLost(r *Record, m *network.Mail, why string) {
	p := packets.Read(m.Payload)
	if _, isDue := j.Awaited[p.Number]; j.MustBeQuiet() && !m.Hostile && (isDue || !j.Flavour.Relays) {
		j.Fail(r, InvariantConvergence, "a packet to %s was lost: %s", m.To.Addr(), why)
	}
}
