// SPDX-License-Identifier: Apache-2.0

package forward

// A packet's way through the stages (RFC 9300 s.4): Outbound is the ITR, for what comes from EIDs of the site; Inbound is the
// ETR, for what comes from the core. The programs in bpf/ have the same stages. Their types are in
// context.go. Nothing here waits, counts or keeps state.

import (
	"time"
)

// Outbound leads a packet of the site through the stages. The encapsulated packet is appended to dst; packet itself is left
// alone.
func (x *XTR) Outbound(dst, packet []byte, in Ingress) Outcome {
	o := Outcome{Instance: in.Instance}
	if o.classify(packet, in) && x.admitFromSite(packet, &o, in) && x.lookUpMapping(&o, in) {
		o.Action = x.selectEncapsulation(packet, &o, in)
	}
	if o.What == DoEncapsulate {
		x.applyEncapsulation(dst, packet, &o, in)
	}
	return o
}

// Inbound leads a packet from the core through the stages. It changes packet, whose part the decapsulated packet is, only
// when that is delivered or goes to the stack.
func (x *XTR) Inbound(packet []byte, now time.Time) Outcome {
	var o Outcome
	if !x.isLISP(packet) {
		return o
	}
	e, reason := decapsulate(packet)
	if reason == DropNone {
		reason = x.lookUpEntry(&e)
	}
	if reason == DropNone {
		reason = x.admitFromCore(&o, &e, now)
	}
	if reason == DropNone {
		reason = e.mergeMarks(x.Marking)
	}
	o.Action = selectDelivery(&e, reason)
	o.applyDelivery(&e)
	return o
}
