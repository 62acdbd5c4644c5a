// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 4: what the map-cache says of a packet towards the core (RFC 9300 s.4, s.7; RFC 9301 s.5.4) and, with two layers, of
// the RLOC that it goes to. Nothing here changes a packet.

import "loci/lisp"

// lookUpMapping reports whether a mapping has locators to select from; where not, the Action is what becomes of the packet.
func (x *XTR) lookUpMapping(o *Outcome, in Ingress) bool {
	o.Entry = x.Tables.MapCache(in.Instance, o.Header.Destination)
	o.Asked = Destination{Instance: in.Instance, EID: lisp.EIDFromAddr(o.Header.Destination)}
	switch {
	case o.Entry == nil:
		return o.end(x.miss(o, in))
	case len(o.Entry.Locators) == 0:
		return o.end(x.negative(o, in))
	case o.Entry.Hold && !in.Released:
		return o.end(Action{What: DoWait})
	}
	return true
}

// miss treats a packet that no mapping covers. One to an own RLOC is no business
// of the mapping system.
func (x *XTR) miss(o *Outcome, in Ingress) Action {
	switch {
	case x.Tables.IsLocalRLOC(o.Header.Destination):
		return x.natively(o, in)
	case in.Released:
		return drop(DropReleasedWithoutMapping)
	}
	o.Miss = true
	switch x.missPolicy(in.Instance) {
	case MissDrop:
		return drop(DropMiss)
	case MissNative:
		return x.natively(o, in)
	}
	return Action{What: DoWait}
}

func (x *XTR) missPolicy(instance lisp.InstanceID) MissPolicy {
	if x.Miss == nil {
		return MissWait
	}
	return x.Miss(instance)
}

// negative obeys the action of a mapping without locators (RFC 9301 s.5.4).
func (x *XTR) negative(o *Outcome, in Ingress) Action {
	if o.Entry.Action == lisp.ActionSendMapRequest {
		return x.miss(o, in)
	}
	o.Negative = o.Asked
	if o.Entry.Action == lisp.ActionNativelyForward {
		return x.natively(o, in)
	}
	return drop(reasonOf(o.Entry.Action))
}

// reasonOf is why a mapping without locators has packets dropped.
func reasonOf(a lisp.Action) DropReason {
	switch a {
	case lisp.ActionDrop:
		return DropActionDrop
	case lisp.ActionDropPolicyDenied:
		return DropPolicyDenied
	case lisp.ActionDropAuthFailure:
		return DropAuthenticationFailure
	}
	return DropNoAction
}

// ---- two layers ----

// lookUpRLOC returns the mapping that covers the RLOC of an encapsulated packet, nil where it goes there as it is. Where it
// does not go at all, ok is false, and the Action is what becomes of the inner packet.
func (x *XTR) lookUpRLOC(o *Outcome, rloc lisp.RLOC, in Ingress) (entry *Entry, a Action, ok bool) {
	if x.depth() < 2 {
		return nil, a, true
	}
	entry = x.Tables.MapCache(0, rloc.Addr())
	o.Asked = Destination{EID: lisp.EIDFromAddr(rloc.Addr())}
	switch {
	case entry == nil || len(entry.Locators) == 0 && entry.Action == lisp.ActionSendMapRequest:
		a, ok = x.missRLOC(o, in)
		return nil, a, ok
	case entry.Action == lisp.ActionNativelyForward: // with proxy ETRs too
		o.Negative = o.Asked
		return nil, a, true
	case len(entry.Locators) == 0:
		o.Negative = o.Asked
		return nil, drop(reasonOf(entry.Action)), false
	case entry.Hold && !in.Resolved:
		return nil, Action{What: DoWait}, false
	}
	return entry, a, true
}

// missRLOC treats a packet that goes to an RLOC that no mapping covers, by the policy of its own Instance-ID. Natively it goes
// there with one layer.
func (x *XTR) missRLOC(o *Outcome, in Ingress) (a Action, ok bool) {
	if in.Resolved {
		return drop(DropReleasedWithoutMapping), false
	}
	o.Miss = true
	switch x.missPolicy(in.Instance) {
	case MissDrop:
		return drop(DropMiss), false
	case MissNative:
		return a, true
	}
	return Action{What: DoWait}, false
}
