// SPDX-License-Identifier: Apache-2.0

package model

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

// Send passes a packet to the engine as if it came in by an interface, and tells
// what became of it. A packet of an interface that is not in the settings passes.
func (e *Engine) Send(interfaceName string, packet []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := slices.IndexFunc(e.settings.Interfaces, func(i dataplane.Interface) bool { return i.Name == interfaceName })
	if e.closed || at < 0 {
		e.emit(Emission{Way: Natively, Packet: packet, Interface: interfaceName})
		return forward.Outcome{}
	}
	e.expire()
	from := e.settings.Interfaces[at]
	if from.Side == dataplane.SideCore {
		return e.inbound(ingress{name: from.Name, instance: from.Instance, core: true}, packet)
	}
	return e.outbound(slices.Clone(packet), ingress{name: from.Name, instance: from.Instance})
}

// SendOwn passes a packet to the engine that this system itself sends.
func (e *Engine) SendOwn(instance lisp.InstanceID, packet []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire()
	return e.outbound(slices.Clone(packet), ingress{instance: instance})
}

// NextExpiry is when the oldest waiting packet is given up; false when none waits.
func (e *Engine) NextExpiry() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting.NextExpiry()
}

func (e *Engine) emit(m Emission) { e.options.Emit(m) }

// outbound is the ITR. The packet is the engine's own.
func (e *Engine) outbound(packet []byte, from ingress) forward.Outcome {
	o := e.router.Outbound(nil, packet, forward.Ingress{
		Instance: from.instance, Own: from.own(), Routed: from.routed == routedOwn, Core: from.core, Relayed: from.relayed,
		Released: from.released, Resolved: from.resolved, Nonce: e.options.Nonce(), Now: e.options.Now(),
	})
	e.carryOut(o, packet, from)
	return o
}

// carryOut does what was decided about a packet that goes towards the core.
func (e *Engine) carryOut(o forward.Outcome, packet []byte, from ingress) {
	if o.Miss {
		policy := e.settings.MissPolicyOf(o.Instance)
		e.counters.MissPackets++
		if policy == dataplane.MissHandOver && !asksForRLOC(o) {
			e.handOver(o, packet, from)
			return
		}
		e.raise(o, packet, from, policy)
	}
	switch o.What {
	case forward.DoEncapsulate, forward.DoRelay:
		e.encapsulated(o, from)
	case forward.DoPass:
		e.emit(Emission{Way: Natively, Packet: packet, Interface: from.name})
	case forward.DoNatively:
		e.counters.NativePackets++
		e.tables.UseNegative(o)
		if o.Relayed {
			e.emit(e.options.toHost(Emission{Way: Natively, Packet: o.Packet, Interface: from.name}))
			return
		}
		e.emit(Emission{Way: Natively, Packet: packet, Interface: from.name})
	case forward.DoWait:
		e.wait(o, packet, from)
	case forward.DoTooBig:
		e.fit(o, packet, from)
	case forward.DoDrop:
		e.counters.drop(o.Reason)
		if o.Reason.IsAction() {
			e.tables.UseNegative(o)
		}
		if !o.Relayed { // the source of a packet that is relayed is another site's
			tellUnreachable(e, o, packet, from)
		}
	}
}

func (e *Engine) encapsulated(o forward.Outcome, from ingress) {
	octets := uint64(o.Header.Length)
	e.counters.encapsulated(o.What == forward.DoRelay, o.Proxied, 1, octets)
	if o.Outer != nil {
		e.counters.Other["encapsulated_twice"]++
	}
	e.tables.Use(o.Instance, o.Header.Destination, 1, octets)
	if o.Outer != nil {
		e.tables.Use(0, o.Locator.NextHop().Addr(), 1, octets)
	}
	e.tables.UseNegative(o)
	e.emit(Emission{Way: ToCore, Packet: o.Packet, Destination: o.SentTo(), Relayed: o.Relayed, Interface: from.name})
}

// inbound is the ETR, the RTR and the PETR.
func (e *Engine) inbound(from ingress, packet []byte) forward.Outcome {
	in := forward.Ingress{Instance: from.instance, Now: e.options.Now()}
	if len(e.settings.Roles) > 0 {
		in.Nonce = e.options.Nonce()
	}
	o := e.router.Inbound(nil, slices.Clone(packet), in)
	if o.Layers == 0 { // not LISP's, or a PITR's
		e.carryOut(o, packet, from)
		return o
	}
	e.hint(o)
	if o.What != forward.DoDrop {
		e.sources.noteSource(packet, e.options.Now())
	}
	if o.Layers > 1 && o.What != forward.DoDrop {
		e.counters.Other["decapsulated_twice"]++
	}
	if o.Relayed {
		e.carryOut(o, o.Packet, ingress{name: from.name, instance: o.Instance, relayed: true})
		return o
	}
	switch o.What {
	case forward.DoDeliver:
		decapsulated(e, o, Emission{Way: ToSite, Packet: o.Packet, Interface: from.name})
	case forward.DoLocal:
		if endsHere(e, o) {
			break
		}
		decapsulated(e, o, Emission{Way: ToStack, Packet: o.Packet, Interface: from.name})
	case forward.DoNatively:
		e.counters.NativePackets++
		decapsulated(e, o, Emission{Way: Natively, Packet: o.Packet, Interface: from.name})
	case forward.DoDrop:
		e.counters.drop(o.Reason)
	}
	return o
}

func decapsulated(e *Engine, o forward.Outcome, m Emission) {
	e.counters.decapsulated(1, uint64(len(o.Packet)))
	e.emit(e.options.toHost(m))
}

// fit treats a packet that its path does not carry whole.
func (e *Engine) fit(o forward.Outcome, packet []byte, from ingress) {
	if fit, _ := forward.CheckSize(packet, &o.Header, 0, o.LargestInner); fit == forward.FitFragments {
		e.fragment(o, packet, from)
		return
	}
	e.counters.drop(forward.DropTooBig)
	answer, ok := forward.PacketTooBig(nil, e.answerFrom(o.Header.Source), packet, o.LargestInner)
	switch {
	case ok && o.Relayed: // the source is a remote EID
		e.outbound(answer, ingress{instance: o.Instance})
	case ok:
		e.emit(Emission{Way: answerWay(o), Packet: answer, Interface: from.name})
	}
}

// tellUnreachable answers a packet that was dropped, where its source has to be told.
func tellUnreachable(e *Engine, o forward.Outcome, packet []byte, from ingress) {
	code, ok := forward.UnreachableFor(o.Reason)
	source := forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(o.Header.Source)}
	if !ok || !e.unreachables.allow(e.options.Now(), source) {
		return
	}
	answer, ok := forward.Unreachable(nil, e.answerFrom(o.Header.Source), packet, code)
	if !ok {
		return
	}
	e.counters.Other["unreachables_sent"]++
	e.emit(Emission{Way: answerWay(o), Packet: answer, Interface: from.name})
}

// answerWay is where an answer to a packet's source goes: hosts outside LISP have the routes that they came by.
func answerWay(o forward.Outcome) Way {
	if o.Proxied {
		return Natively
	}
	return ToSite
}

func (e *Engine) fragment(o forward.Outcome, packet []byte, from ingress) {
	parts, reason := forward.Fragment(nil, packet, o.LargestInner)
	if reason != forward.DropNone {
		e.counters.drop(reason)
		return
	}
	from.released = true
	for _, part := range parts {
		e.outbound(part, from)
	}
}

// answerFrom is the address that answers come from: an own RLOC of the family, for
// want of an address of the interface.
func (e *Engine) answerFrom(to netip.Addr) netip.Addr {
	if e.options.AnswerFrom != nil {
		return e.options.AnswerFrom(to)
	}
	return e.tables.SourceFor(lisp.RLOCFromAddr(to)).Addr()
}

func (e *Engine) wait(o forward.Outcome, packet []byte, from ingress) {
	source, waiting := lisp.EIDFromAddr(o.Header.Source), waitingPacket{packet: packet, from: from, forRLOC: asksForRLOC(o)}
	if _, reason := e.waiting.AddFrom(e.options.Now(), source, o.Asked, len(packet), waiting); reason != forward.DropNone {
		e.counters.drop(reason)
	}
}

// release sends what waited for a prefix, where the map-cache decides now.
func (e *Engine) release(prefix lisp.Prefix) {
	decided := func(d forward.Destination) bool {
		entry := e.tables.MapCache(d.Instance, d.EID.Addr())
		return entry != nil && (len(entry.Locators) > 0 || entry.Action != lisp.ActionSendMapRequest)
	}
	e.expire()
	for _, w := range e.waiting.ReleaseReady(prefix, decided) {
		from := w.Packet.from
		from.released, from.resolved = true, from.resolved || w.Packet.forRLOC
		if o := e.outbound(w.Packet.packet, from); o.What != forward.DoDrop && o.What != forward.DoWait {
			e.counters.ReleasedPackets++
		}
	}
}

// expire gives up what has waited too long.
func (e *Engine) expire() {
	for range e.waiting.Expire(e.options.Now()) {
		e.counters.drop(forward.DropWaitingTimeLimit)
	}
}
