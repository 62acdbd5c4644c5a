// SPDX-License-Identifier: Apache-2.0

package packets

// The engine within another one that has a host around it: the host's routes lead packets here by one interface, and
// take back what is not LISP's and what was decapsulated. Both times the host counts the hop. What the engine around
// this one sends by itself, by what this one found out before, it tells by Account. Nothing here sends.

import (
	"net/netip"
	"slices"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// SendRouted passes a packet to the engine that the host's routes led here. Its Instance-ID is that of the interfaces
// to the site, and so is its interface where there is one alone.
func (p *Path) SendRouted(packet []byte) forward.Outcome {
	if p.Queue.closed {
		return forward.Outcome{}
	}
	p.expire()
	packet = slices.Clone(packet)
	h, err := forward.ParseHeader(packet)
	from := interfaceOf(p, h.Source)
	switch {
	case err == nil && p.tables.IsLocalRLOC(h.Source):
		from.routed = routedOwn
	case err == nil && h.TTL < maxTTL:
		forward.SetMarks(packet, h.Family, h.TTL+1, h.TrafficClass)
		from.routed = routedOn
	}
	return p.outbound(packet, from)
}

// SendAgain passes a packet to the engine that was to be sent encapsulated, and was refused because it does not fit
// the path any more. One that was relayed is treated as that again, in its Instance-ID.
func (p *Path) SendAgain(instance lisp.InstanceID, relayed bool, packet []byte) {
	if !relayed {
		p.SendRouted(packet)
		return
	}
	h, err := forward.ParseHeader(packet)
	if p.Queue.closed || err != nil || h.TTL == maxTTL {
		return
	}
	p.expire()
	packet = slices.Clone(packet)
	forward.SetMarks(packet, h.Family, h.TTL+1, h.TrafficClass)
	p.outbound(packet, ingress{instance: instance, relayed: true})
}

// interfaceOf is by what a packet of that source came in, as far as its source tells: one of an EID of the site by an
// interface to the site, others by one to the core, whose Instance-ID a PITR gives them.
func interfaceOf(p *Path, source netip.Addr) ingress {
	from, sites, core := ingress{routed: routedCounted}, 0, lisp.InstanceID(0)
	for _, i := range p.settings.Interfaces {
		if i.Side == dataplane.SideCore {
			core = i.Instance
			continue
		}
		from.name, from.instance = i.Name, i.Instance
		sites++
	}
	if sites > 1 {
		from.name = ""
	}
	if !p.tables.IsLocalRLOC(source) && !p.tables.InDatabase(from.instance, source) {
		from.instance = core
	}
	return from
}

const maxTTL = 255

// routed is how the host's routes led a packet here.
type routed uint8

const (
	notRouted routed = iota
	// routedOn: from elsewhere. The hop that the host has counted is counted here: answers and misses tell of the
	// packet as its sender sent it.
	routedOn
	routedCounted // its hop cannot be taken back
	routedOwn     // of this host, by an RLOC
)

// Receive passes an outer packet to the engine that came to this host.
func (p *Path) Receive(outer []byte) forward.Outcome {
	if p.Queue.closed {
		return forward.Outcome{}
	}
	p.expire()
	return p.inbound(ingress{}, outer)
}

// toHost gives the host a packet that was decapsulated and lost a hop, which the host counts itself.
func (o *Options) toHost(m Emission) Emission {
	if !o.Routed || m.Way == ToStack {
		return m
	}
	if m.Way == ToSite {
		m.Way = ToStack
	}
	if h, err := forward.ParseHeader(m.Packet); err == nil {
		forward.SetMarks(m.Packet, h.Family, h.TTL+1, h.TrafficClass)
	}
	return m
}

// endsHere answers a packet that was decapsulated, and whose TTL is at its end, through LISP: the host's stack would
// send its answer to a remote EID by the route to the core. It reports whether the packet ends so.
func endsHere(p *Path, o forward.Outcome) bool {
	h, err := forward.ParseHeader(o.Packet)
	if !p.options.Routed || err != nil || h.TTL > 1 || p.options.IsHost(h.Destination) {
		return false
	}
	p.counters.decapsulated(1, uint64(len(o.Packet)))
	if !p.unreachables.allow(p.options.Now(), forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(h.Source)}) {
		return true
	}
	if answer, ok := forward.TimeExceeded(nil, p.answerFrom(h.Source, h.Destination), o.Packet); ok {
		p.outbound(answer, ingress{instance: o.Instance, routed: routedOwn})
	}
	return true
}

// Use is what was sent without asking this engine, by what it found out about an earlier packet.
type Use struct {
	Packets, Octets uint64 // inner
	// Of encapsulated packets: where they went by the map-cache.
	Instance    lisp.InstanceID
	Destination netip.Addr
	Proxied     bool                // by the PITR
	Negative    forward.Destination // of forward.Outcome
	Bound       *lisp.Flow          // nil where the flow is not bound
	// Of decapsulated ones: where they came from; zero for the others.
	From    lisp.RLOC
	Relayed bool // by an RTR
	Native  bool // sent without encapsulation
	Passed  bool // not LISP's: nothing is counted
}

// Account counts uses.
func (p *Path) Account(uses []Use) {
	for i := range uses {
		u := &uses[i]
		if u.Passed {
			continue
		}
		if !u.From.IsZero() {
			p.sources.heardFrom(u.From, p.options.Now())
		}
		if u.Native {
			p.counters.NativePackets += u.Packets
		}
		if u.Bound != nil {
			p.tables.Flows.Use(*u.Bound)
		}
		if n := u.Negative; !n.EID.IsZero() {
			p.tables.Use(n.Instance, n.EID.Addr(), u.Packets, u.Octets)
		}
		switch {
		case !u.From.IsZero() && !u.Relayed:
			p.counters.decapsulated(u.Packets, u.Octets)
		case !u.Native:
			p.counters.encapsulated(u.Relayed, u.Proxied, u.Packets, u.Octets)
			p.tables.Use(u.Instance, u.Destination, u.Packets, u.Octets)
		}
	}
}

// Count counts something of the engine around this one, by name.
func (p *Path) Count(name string, packets uint64) {
	p.counters.Other[name] += packets
}
