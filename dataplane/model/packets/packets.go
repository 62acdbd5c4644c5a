// SPDX-License-Identifier: Apache-2.0

package packets

// Packets through the engine: what package forward decides is counted, queued,
// answered (RFC 9300 s.7) and handed over here. Nothing here decides where a packet
// goes.

import (
	"net/netip"
	"slices"
	"time"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// waitingPacket is a packet in the queue and how it came.
type waitingPacket struct {
	packet  []byte
	from    ingress
	forRLOC bool // it waits for the mapping of an RLOC
}

// ingress is how a packet came to the engine.
type ingress struct {
	name     string // of the interface; empty for own packets
	instance lisp.InstanceID
	core     bool // by an interface of the core, as it is
	relayed  bool // decapsulated
	released bool // it has waited ...
	resolved bool // ... for the mapping of its RLOC
	routed   routed
}

// own reports whether a packet is treated as one of this system itself.
func (i ingress) own() bool {
	switch i.routed {
	case notRouted:
		return i.name == "" && !i.relayed
	case routedOn:
		return false
	}
	return true
}

// Send takes a packet that came in by an interface, and tells what became of it. A packet of an interface that is not
// in the settings passes.
func (p *Path) Send(interfaceName string, packet []byte) forward.Outcome {
	at := slices.IndexFunc(p.settings.Interfaces, func(i dataplane.Interface) bool { return i.Name == interfaceName })
	if p.Queue.closed || at < 0 {
		p.emit(Emission{Way: Natively, Packet: packet, Interface: interfaceName})
		return forward.Outcome{}
	}
	p.expire()
	from := p.settings.Interfaces[at]
	if from.Side == dataplane.SideCore {
		return p.inbound(ingress{name: from.Name, instance: from.Instance, core: true}, packet)
	}
	return p.outbound(slices.Clone(packet), ingress{name: from.Name, instance: from.Instance})
}

// SendOwn takes a packet that this system itself sends.
func (p *Path) SendOwn(instance lisp.InstanceID, packet []byte) forward.Outcome {
	p.expire()
	return p.outbound(slices.Clone(packet), ingress{instance: instance})
}

// NextExpiry is when the oldest waiting packet is given up; false when none waits.
func (p *Path) NextExpiry() (time.Time, bool) { return p.waiting.NextExpiry() }

func (p *Path) emit(m Emission) { p.options.Emit(m) }

// outbound is the ITR. The packet is the engine's own.
func (p *Path) outbound(packet []byte, from ingress) forward.Outcome {
	o := p.router.Outbound(nil, packet, forward.Ingress{
		Instance: from.instance, Own: from.own(), Routed: from.routed == routedOwn, Core: from.core, Relayed: from.relayed,
		Released: from.released, Resolved: from.resolved, Nonce: p.options.Nonce(), Now: p.options.Now(),
	})
	p.carryOut(o, packet, from)
	return o
}

// carryOut does what was decided about a packet that goes towards the core.
func (p *Path) carryOut(o forward.Outcome, packet []byte, from ingress) {
	if o.Miss {
		policy := p.settings.MissPolicyOf(o.Instance)
		p.counters.MissPackets++
		if policy == dataplane.MissHandOver && !asksForRLOC(o) {
			p.handOver(o, packet, from)
			return
		}
		p.raise(o, packet, from, policy)
	}
	switch o.What {
	case forward.DoEncapsulate, forward.DoRelay:
		p.encapsulated(o, from)
		p.tellSubflow(&o, false)
	case forward.DoPass:
		p.emit(Emission{Way: Natively, Packet: packet, Interface: from.name})
	case forward.DoNatively:
		p.counters.NativePackets++
		p.tables.UseNegative(o)
		if o.Relayed {
			p.emit(p.options.toHost(Emission{Way: Natively, Packet: o.Packet, Interface: from.name}))
			return
		}
		p.emit(Emission{Way: Natively, Packet: packet, Interface: from.name})
	case forward.DoWait:
		p.wait(o, packet, from)
	case forward.DoTooBig:
		p.fit(o, packet, from)
	case forward.DoDrop:
		p.counters.drop(o.Reason)
		if o.Reason.IsAction() {
			p.tables.UseNegative(o)
		}
		if !o.Relayed { // the source of a packet that is relayed is another site's
			tellUnreachable(p, o, packet, from)
		}
	}
}

func (p *Path) encapsulated(o forward.Outcome, from ingress) {
	octets := uint64(o.Header.Length)
	p.counters.encapsulated(o.What == forward.DoRelay, o.Proxied, 1, octets)
	if o.Outer != nil {
		p.counters.Other["encapsulated_twice"]++
	}
	p.tables.Use(o.Instance, o.Header.Destination, 1, octets)
	if o.Outer != nil {
		p.tables.Use(0, o.Locator.NextHop().Addr(), 1, octets)
	}
	p.tables.UseNegative(o)
	if flow, ok := BoundFlow(&o); ok && !o.Opens {
		p.tables.Flows.Use(flow)
	}
	p.emit(Emission{Way: ToCore, Packet: o.Packet, Destination: o.SentTo(), SourcePort: o.SourcePort(), Relayed: o.Relayed, Interface: from.name})
}

// inbound is the ETR, the RTR and the PETR.
func (p *Path) inbound(from ingress, packet []byte) forward.Outcome {
	in := forward.Ingress{Instance: from.instance, Now: p.options.Now()}
	if len(p.settings.Roles) > 0 || p.tables.Relays() {
		in.Nonce = p.options.Nonce()
	}
	o := p.router.Inbound(nil, slices.Clone(packet), in)
	if o.Layers == 0 { // not LISP's, or a PITR's
		p.carryOut(o, packet, from)
		return o
	}
	p.hint(o, packet)
	if o.What == forward.DoControl {
		return o
	}
	if o.What != forward.DoDrop {
		p.sources.noteSource(packet, p.options.Now())
	}
	if o.Layers > 1 && o.What != forward.DoDrop {
		p.counters.Other["decapsulated_twice"]++
	}
	if o.Notes&forward.NotePathUnidentified != 0 {
		p.counters.Other["path_unidentified"]++
	}
	if o.Relayed {
		p.carryOut(o, o.Packet, ingress{name: from.name, instance: o.Instance, relayed: true})
		return o
	}
	switch o.What {
	case forward.DoDeliver:
		p.tellSubflow(&o, true) // before the packet is another's
		decapsulated(p, o, Emission{Way: ToSite, Packet: o.Packet, Interface: from.name})
	case forward.DoLocal:
		if endsHere(p, o) {
			break
		}
		decapsulated(p, o, Emission{Way: ToStack, Packet: o.Packet, Interface: from.name})
	case forward.DoNatively:
		p.counters.NativePackets++
		decapsulated(p, o, Emission{Way: Natively, Packet: o.Packet, Interface: from.name})
	case forward.DoDrop:
		p.counters.drop(o.Reason)
	}
	return o
}

func decapsulated(p *Path, o forward.Outcome, m Emission) {
	p.counters.decapsulated(1, uint64(len(o.Packet)))
	p.emit(p.options.toHost(m))
}

// fit treats a packet that its path does not carry whole.
func (p *Path) fit(o forward.Outcome, packet []byte, from ingress) {
	if fit, _ := forward.CheckSize(packet, &o.Header, 0, o.LargestInner); fit == forward.FitFragments {
		p.fragment(o, packet, from)
		return
	}
	p.counters.drop(forward.DropTooBig)
	source := p.answerFrom(o.Header.Source, o.Header.Destination)
	answer, ok := forward.PacketTooBig(nil, source, packet, o.LargestInner)
	switch {
	case ok && o.Relayed: // the source is a remote EID
		p.outbound(answer, ingress{instance: o.Instance, relayed: source == o.Header.Destination})
	case ok:
		p.emit(Emission{Way: answerWay(o), Packet: answer, Interface: from.name})
	}
}

// tellUnreachable answers a packet that was dropped, where its source has to be told.
func tellUnreachable(p *Path, o forward.Outcome, packet []byte, from ingress) {
	code, ok := forward.UnreachableFor(o.Reason)
	source := forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(o.Header.Source)}
	if !ok || !p.unreachables.allow(p.options.Now(), source) {
		return
	}
	answer, ok := forward.Unreachable(nil, p.answerFrom(o.Header.Source, o.Header.Destination), packet, code)
	if !ok {
		return
	}
	p.counters.Other["unreachables_sent"]++
	p.emit(Emission{Way: answerWay(o), Packet: answer, Interface: from.name})
}

// answerWay is where an answer to a packet's source goes: hosts outside LISP have the routes that they came by.
func answerWay(o forward.Outcome) Way {
	if o.Proxied {
		return Natively
	}
	return ToSite
}

func (p *Path) fragment(o forward.Outcome, packet []byte, from ingress) {
	parts, reason := forward.Fragment(nil, packet, o.LargestInner)
	if reason != forward.DropNone {
		p.counters.drop(reason)
		return
	}
	from.released = true
	for _, part := range parts {
		p.outbound(part, from)
	}
}

// answerFrom is the address that answers come from: one of the interface, or an own RLOC of the family. Where this
// router has none of the family it is the destination of the packet that is answered.
func (p *Path) answerFrom(to, destination netip.Addr) netip.Addr {
	own := p.tables.SourceFor(lisp.RLOCFromAddr(to)).Addr()
	if p.options.AnswerFrom != nil {
		own = p.options.AnswerFrom(to)
	}
	if own.IsValid() {
		return own
	}
	return destination
}

func (p *Path) wait(o forward.Outcome, packet []byte, from ingress) {
	source, waiting := lisp.EIDFromAddr(o.Header.Source), waitingPacket{packet: packet, from: from, forRLOC: asksForRLOC(o)}
	if _, reason := p.waiting.AddFrom(p.options.Now(), source, o.Asked, len(packet), waiting); reason != forward.DropNone {
		p.counters.drop(reason)
	}
}

// Release sends what waited for a prefix, where the map-cache decides now.
func (p *Path) Release(prefix lisp.Prefix) {
	decided := func(d forward.Destination) bool {
		entry := p.tables.MapCache(d.Instance, d.EID.Addr())
		return entry != nil && (len(entry.Locators) > 0 || entry.Action != lisp.ActionSendMapRequest)
	}
	p.expire()
	for _, w := range p.waiting.ReleaseReady(prefix, decided) {
		from := w.Packet.from
		from.released, from.resolved = true, from.resolved || w.Packet.forRLOC
		if o := p.outbound(w.Packet.packet, from); o.What != forward.DoDrop && o.What != forward.DoWait {
			p.counters.ReleasedPackets++
		}
	}
}

// expire gives up what has waited too long.
func (p *Path) expire() {
	for range p.waiting.Expire(p.options.Now()) {
		p.counters.drop(forward.DropWaitingTimeLimit)
	}
}
