// SPDX-License-Identifier: Apache-2.0

package forward

// A packet's way through the stages (RFC 9300 s.4): Outbound is the ITR, for what comes from EIDs of the site, and the PITR;
// Inbound is the ETR, the RTR and the PETR, for what comes from the core. bpf/stages.h has the same functions for the
// programs. The types are in context.go. Nothing here waits, counts or keeps state.

// Outbound leads a packet of the site through the stages. The encapsulated packet is appended to dst; packet itself is left
// alone.
func (x *XTR) Outbound(dst, packet []byte, in Ingress) Outcome {
	o := Outcome{Instance: in.Instance}
	if o.classify(packet, in) && x.admitTowardsCore(packet, &o, in) {
		x.towardsCore(dst, packet, &o, in)
	}
	return o
}

// towardsCore are the last stages of a packet that was admitted: the lists, look up, select, apply.
func (x *XTR) towardsCore(dst, packet []byte, o *Outcome, in Ingress) {
	if x.listsAdmit(o, in) && x.lookUpMapping(o, in) {
		o.Action = x.selectEncapsulation(packet, o, in)
	}
	switch {
	case o.What == DoEncapsulate:
		x.applyEncapsulation(dst, packet, o, in)
		o.Opens = o.Binding != Unbound && hasSYN(packet, &o.Header)
		if x.Subflows {
			o.noteSubflowTowardsCore(x.Tables, packet)
		}
	case o.What == DoNatively && in.Relayed:
		o.applyNatively(dst, packet)
	}
}

// Inbound leads a packet from the core through the stages. A packet that is relayed is appended to dst. Else packet, whose part
// the decapsulated packet is, changes, unless that is dropped.
func (x *XTR) Inbound(dst, packet []byte, in Ingress) Outcome {
	if !x.isLISP(packet) {
		in.Core = true
		return x.Outbound(dst, packet, in)
	}
	var o Outcome
	e, as, reason := x.takeLayer(&o, packet, nil, in)
	if reason == DropNone && as <= dutyHost && x.isLISP(e.Inner) {
		e, as, reason = x.takeSecondLayer(&o, e, in)
	}
	if reason == DropNone && as == dutyRTR && e.ttl > 1 {
		x.relay(dst, &o, &e, in)
		return o
	}
	if reason == DropNone && as == dutyNode {
		o.Action, o.Packet = Action{What: DoControl}, e.Inner
		return o
	}
	o.Action = selectDelivery(&e, as, reason)
	o.applyDelivery(&e)
	if x.Subflows && o.What == DoDeliver {
		o.noteSubflow(x.Tables, o.Packet, true)
	}
	return o
}

// takeLayer finds out what is within a packet for an own RLOC, and as what the router takes it. A packet that was
// itself within another has the marks that it left that one with.
func (x *XTR) takeLayer(o *Outcome, packet []byte, over *Encapsulated, in Ingress) (Encapsulated, duty, DropReason) {
	e, reason := decapsulate(packet)
	x.PathIdentification.readNumber(&e)
	var as duty
	if over != nil {
		e.Outer.TTL, e.Outer.TrafficClass = over.ttl, over.class
	}
	if reason == DropNone {
		as, reason = x.dutyOf(&e, o.Layers)
	}
	if reason == DropNone && as != dutyNode {
		reason = x.admitFromCore(o, &e, as, in.Now)
	}
	if reason == DropNone && as != dutyNode {
		reason = e.mergeMarks(x.Marking)
	}
	o.Layers++
	return e, as, reason
}

// takeSecondLayer is takeLayer for a packet that came within another one for this router, which there may be two of.
func (x *XTR) takeSecondLayer(o *Outcome, over Encapsulated, in Ingress) (Encapsulated, duty, DropReason) {
	if x.depth() < 2 {
		return over, 0, DropRecursionDepth
	}
	e, as, reason := x.takeLayer(o, over.Inner, &over, in)
	e.Notes |= over.Notes
	if reason == DropNone && as <= dutyHost && x.isLISP(e.Inner) {
		reason = DropRecursionDepth
	}
	return e, as, reason
}

// relay sends a decapsulated packet to where the map-cache says, as an ITR does one of the site. What has to wait, or is too
// big, does so as the inner packet; it loses its hop when it is sent.
func (x *XTR) relay(dst []byte, o *Outcome, e *Encapsulated, in Ingress) {
	in.Instance, in.Relayed = e.Instance, true
	in.On = OnPath{e.Number, e.Outer.Source}
	packet := e.unwrap(e.ttl)
	o.Header, o.Instance, o.Relayed = e.Header, e.Instance, true
	o.Notes |= e.Notes
	x.towardsCore(dst, packet, o, in)
	if o.Packet == nil && o.What != DoDrop {
		o.Packet = packet
	}
}
