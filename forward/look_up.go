// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 4: what the map-cache says of a packet of the site (RFC 9300 s.4, s.7; RFC 9301 s.5.4), what the Database says of one
// from the core. Nothing here changes a packet.

import "loci/lisp"

// lookUpMapping reports whether a mapping has locators to select from; where not, the Action is what becomes of the packet.
func (x *XTR) lookUpMapping(o *Outcome, in Ingress) bool {
	o.Entry = x.Tables.MapCache(in.Instance, o.Header.Destination)
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
		return Action{What: DoNatively}
	case in.Released:
		return drop(DropReleasedWithoutMapping)
	}
	o.Miss = true
	switch x.Miss {
	case MissDrop:
		return drop(DropMiss)
	case MissNative:
		return Action{What: DoNatively}
	}
	return Action{What: DoWait}
}

// negative obeys the action of a mapping without locators (RFC 9301 s.5.4).
func (x *XTR) negative(o *Outcome, in Ingress) Action {
	switch o.Entry.Action {
	case lisp.ActionNativelyForward:
		return Action{What: DoNatively}
	case lisp.ActionSendMapRequest:
		return x.miss(o, in)
	case lisp.ActionDrop:
		return drop(DropActionDrop)
	case lisp.ActionDropPolicyDenied:
		return drop(DropPolicyDenied)
	case lisp.ActionDropAuthFailure:
		return drop(DropAuthenticationFailure)
	}
	return drop(DropNoAction)
}

// lookUpEntry demands that the receiver of a decapsulated packet is an EID of ours.
func (x *XTR) lookUpEntry(e *Encapsulated) DropReason {
	if !x.Tables.InDatabase(e.Instance, e.Header.Destination) {
		return DropEIDNotInDatabase
	}
	return DropNone
}
