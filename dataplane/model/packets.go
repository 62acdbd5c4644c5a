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
	packet []byte
	from   ingress
}

// ingress is how a packet came to the engine.
type ingress struct {
	name     string // of the interface; empty for own packets
	instance lisp.InstanceID
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
		return e.inbound(from.Name, packet)
	}
	return e.outbound(slices.Clone(packet), ingress{name: from.Name, instance: from.Instance}, false)
}

// SendOwn passes a packet to the engine that this system itself sends.
func (e *Engine) SendOwn(instance lisp.InstanceID, packet []byte) forward.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expire()
	return e.outbound(slices.Clone(packet), ingress{instance: instance}, false)
}

// NextExpiry is when the oldest waiting packet is given up; false when none waits.
func (e *Engine) NextExpiry() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting.NextExpiry()
}

func (e *Engine) emit(m Emission) { e.options.Emit(m) }

func (e *Engine) drop(reason forward.DropReason) { e.counters.Drops[reason.String()]++ }

// outbound is the ITR. The packet is the engine's own.
func (e *Engine) outbound(packet []byte, from ingress, released bool) forward.Outcome {
	policy := e.settings.MissPolicyOf(from.instance)
	e.router.Miss = missPolicies[policy]
	o := e.router.Outbound(nil, packet, forward.Ingress{
		Instance: from.instance, Own: from.name == "", Released: released, Nonce: e.options.Nonce(), Now: e.options.Now(),
	})
	if o.Miss {
		e.counters.MissPackets++
		if policy == dataplane.MissHandOver {
			e.handOver(o, packet, from)
			return o
		}
		e.raise(o, packet, from, policy)
	}
	switch o.What {
	case forward.DoEncapsulate:
		e.encapsulated(o, from)
	case forward.DoPass:
		e.emit(Emission{Way: Natively, Packet: packet, Interface: from.name})
	case forward.DoNatively:
		e.counters.NativePackets++
		e.emit(Emission{Way: Natively, Packet: packet, Interface: from.name})
	case forward.DoWait:
		e.wait(o, packet, from)
	case forward.DoTooBig:
		e.fit(o, packet, from)
	case forward.DoDrop:
		e.drop(o.Reason)
		tellUnreachable(e, o, packet, from)
	}
	return o
}

func (e *Engine) encapsulated(o forward.Outcome, from ingress) {
	e.counters.EncapsulatedPackets++
	e.counters.EncapsulatedOctets += uint64(o.Header.Length)
	if c := e.tables.lookup(o.Instance, o.Header.Destination); c != nil {
		c.entry.Usage.Packets++
		c.entry.Usage.Octets += uint64(o.Header.Length)
		c.entry.Usage.LastUsedAt = e.options.Now()
	}
	e.emit(Emission{Way: ToCore, Packet: o.Packet, Destination: o.Locator.NextHop(), Interface: from.name})
}

// inbound is the ETR.
func (e *Engine) inbound(name string, packet []byte) forward.Outcome {
	o := e.router.Inbound(slices.Clone(packet), e.options.Now())
	e.hint(o)
	switch o.What {
	case forward.DoDeliver:
		e.decapsulated(o, packet, Emission{Way: ToSite, Packet: o.Packet, Interface: name})
	case forward.DoLocal:
		e.decapsulated(o, packet, Emission{Way: ToStack, Packet: o.Packet, Interface: name})
	case forward.DoPass:
		e.emit(Emission{Way: Natively, Packet: packet, Interface: name})
	case forward.DoDrop:
		e.drop(o.Reason)
	}
	return o
}

func (e *Engine) decapsulated(o forward.Outcome, outer []byte, m Emission) {
	e.counters.DecapsulatedPackets++
	e.counters.DecapsulatedOctets += uint64(len(o.Packet))
	noteSource(e, outer)
	e.emit(m)
}

// fit treats a packet that its path does not carry whole.
func (e *Engine) fit(o forward.Outcome, packet []byte, from ingress) {
	if fit, _ := forward.CheckSize(packet, &o.Header, 0, o.LargestInner); fit == forward.FitFragments {
		e.fragment(o, packet, from)
		return
	}
	e.drop(forward.DropTooBig)
	answer, ok := forward.PacketTooBig(nil, e.answerFrom(o.Header.Source), packet, o.LargestInner)
	if ok {
		e.emit(Emission{Way: ToSite, Packet: answer, Interface: from.name})
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
	e.counters.Other["unreachables-sent"]++
	e.emit(Emission{Way: ToSite, Packet: answer, Interface: from.name})
}

func (e *Engine) fragment(o forward.Outcome, packet []byte, from ingress) {
	parts, reason := forward.Fragment(nil, packet, o.LargestInner)
	if reason != forward.DropNone {
		e.drop(reason)
		return
	}
	for _, part := range parts {
		e.outbound(part, from, true)
	}
}

// answerFrom is the address that answers come from: an own RLOC of the family, for
// want of an address of the interface.
func (e *Engine) answerFrom(to netip.Addr) netip.Addr {
	return e.tables.sourceFor(lisp.RLOCFromAddr(to)).Addr()
}

func (e *Engine) wait(o forward.Outcome, packet []byte, from ingress) {
	to := forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(o.Header.Destination)}
	source, waiting := lisp.EIDFromAddr(o.Header.Source), waitingPacket{packet: packet, from: from}
	if _, reason := e.waiting.AddFrom(e.options.Now(), source, to, len(packet), waiting); reason != forward.DropNone {
		e.drop(reason)
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
		if o := e.outbound(w.Packet.packet, w.Packet.from, true); o.What != forward.DoDrop {
			e.counters.ReleasedPackets++
		}
	}
}

// expire gives up what has waited too long.
func (e *Engine) expire() {
	for range e.waiting.Expire(e.options.Now()) {
		e.drop(forward.DropWaitingTimeLimit)
	}
}
