// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 3: whose packets this router forwards by LISP (RFC 9300 s.4, s.5). From the site: from an EID of the Database
// to somewhere else, or what a PITR's policy names. From the core: what lists, source check, nonces, status bits and
// versions let pass of what the Database or a policy covers. Lists are the caller's (bpf/lists.h has the same in C).
// Nothing here changes a packet.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// admitTowardsCore reports whether a packet is LISP's to encapsulate; where not, the Action is what becomes of it.
func (x *XTR) admitTowardsCore(packet []byte, o *Outcome, in Ingress) bool {
	h := &o.Header
	if in.Relayed {
		return x.admitRelayed(o, in)
	}
	if o.Proxied = in.Core || !x.concernsLISP(packet, h, in); o.Proxied && !x.proxies(h, in) {
		o.Proxied = false
		return o.leave(in, DropSourceNotEID)
	}
	switch {
	case x.Tables.InDatabase(in.Instance, h.Destination) && in.Routed:
		return o.end(Action{What: DoNatively})
	case x.Tables.InDatabase(in.Instance, h.Destination):
		return false // the site's own affair
	case h.TTL <= 1 && !in.Own && in.Released:
		return o.end(drop(DropTTLExpired))
	case h.TTL <= 1 && !in.Own:
		return false // the stack answers with Time Exceeded
	}
	return true
}

// admitRelayed admits a packet that was an RTR's before it waited, or was cut into fragments: the policy may have
// changed.
func (x *XTR) admitRelayed(o *Outcome, in Ingress) bool {
	o.Relayed = true
	roles, source, destination := x.rolesIn(in.Instance), o.Header.Source, o.Header.Destination
	switch {
	case !roles.relays(source, destination) && !isRegistered(x.Tables, in.Instance, source, destination):
		return o.end(drop(DropNotInPolicy))
	case o.Header.TTL <= 1:
		return o.end(drop(DropTTLExpired))
	}
	return true
}

// listsAdmit asks the lists about the EIDs of a packet towards the core, of the site or relayed, which was admitted
// else.
func (x *XTR) listsAdmit(o *Outcome, in Ingress) bool {
	if reason := x.Denies.judge(ListInnerSource, in.Instance, o.Header.Source, o.Header.Destination); reason != DropNone {
		return o.end(drop(reason))
	}
	return true
}

// concernsLISP reports whether a packet is sent by an EID of the site, or is
// an ICMP error that this system owes to a remote EID, for a packet to its site or
// one that it relays, and for which it chose an RLOC as source.
func (x *XTR) concernsLISP(packet []byte, h *Header, in Ingress) bool {
	switch {
	case in.Routed && x.isErrorToRemoteEID(packet, h, in.Instance):
		return true // from whatever address: routes have chosen LISP
	case in.Own && !in.Routed && x.Tables.IsLocalRLOC(h.Source):
		return x.isErrorToRemoteEID(packet, h, in.Instance)
	}
	return x.Tables.InDatabase(in.Instance, h.Source)
}

func (x *XTR) isErrorToRemoteEID(packet []byte, h *Header, instance lisp.InstanceID) bool {
	if h.Fragment || h.PayloadOffset+icmpHeaderOctets > h.Length || !isDeliveryError(h, packet[h.PayloadOffset]) {
		return false
	}
	quoted, err := readHeader(packet[h.PayloadOffset+icmpHeaderOctets : h.Length])
	if err != nil || quoted.Family != h.Family {
		return false
	}
	roles := x.rolesIn(instance)
	return x.Tables.InDatabase(instance, quoted.Destination) || roles.relays(quoted.Source, quoted.Destination) ||
		isRegistered(x.Tables, instance, quoted.Source, quoted.Destination)
}

// admitFromCore says why a packet from the core is not let in that is this router's.
func (x *XTR) admitFromCore(o *Outcome, e *Encapsulated, as duty, now time.Time) DropReason {
	if reason := x.Denies.judge(ListDecapsulated|ListOuterSource, 0, e.Outer.Source, e.Outer.Destination); reason != DropNone {
		return reason
	}
	if reason := x.Denies.judge(ListDecapsulated|ListInnerSource, e.Instance, e.Header.Source, e.Header.Destination); reason != DropNone {
		return reason
	}
	return x.judgeReceived(o, e, as, now)
}

// ListKind says which address of which packets a list is about. The numbers are those
// of enum lisp_list_kind.
type ListKind uint8

// The kinds. ListDecapsulated is added to the others: packets from the core, not
// those towards it.
const (
	ListInnerSource      ListKind = 0
	ListInnerDestination ListKind = 1
	ListOuterSource      ListKind = 2
	ListOuterDestination ListKind = 3
	ListDecapsulated     ListKind = 4
)

// Denies reports whether the lists of a kind deny an address; of outer ones the
// Instance-ID is 0.
type Denies func(kind ListKind, instance lisp.InstanceID, address netip.Addr) bool

// judge returns why the lists from that kind of source on drop a packet.
func (d Denies) judge(kind ListKind, instance lisp.InstanceID, source, destination netip.Addr) DropReason {
	switch {
	case d == nil:
		return DropNone
	case d(kind, instance, source):
		return DropDeniedSource + DropReason(kind&^ListDecapsulated)
	case d(kind+1, instance, destination):
		return DropDeniedSource + DropReason(kind&^ListDecapsulated) + 1
	}
	return DropNone
}

// ---- the roles beside ITR and ETR (RFC 6832, RFC 8060 s.4.6): each does what its policy names, and an own EID comes
// first ----

// Roles are what a router does in an Instance-ID beside ITR and ETR. The zero value is nothing.
type Roles struct {
	RTR  Covers // relays packets from the core to or from these EIDs
	PETR Covers // forwards natively what comes from the core, from these EIDs to destinations outside LISP
	PITR Pairs  // encapsulates packets of hosts outside LISP, in by whatever interface, from the first to the second
}

// Covers reports whether the policy of a role covers an EID; nil: the router does not have the role.
type Covers func(eid netip.Addr) bool

// Pairs is Covers for a source and a destination.
type Pairs func(source, destination netip.Addr) bool

func (c Covers) has(eid netip.Addr) bool { return c != nil && c(eid) }

// relays reports whether an RTR's policy covers one of a packet's EIDs.
func (r *Roles) relays(source, destination netip.Addr) bool {
	return r.RTR.has(source) || r.RTR.has(destination)
}

// isRegistered reports whether a router behind a NAT has registered one of a packet's EIDs by this RTR.
func isRegistered(t Tables, instance lisp.InstanceID, source, destination netip.Addr) bool {
	of := func(eid netip.Addr) bool {
		e := t.MapCache(instance, eid)
		return e != nil && e.Registered
	}
	return of(destination) || of(source)
}

func (x *XTR) rolesIn(instance lisp.InstanceID) (r Roles) {
	if x.Roles != nil {
		r = x.Roles(instance)
	}
	return r
}

// duty is why a packet from the core is this router's to decapsulate.
type duty uint8

const (
	dutyETR  duty = iota // it is for an own EID
	dutyHost             // an RTR or PETR is its destination: it ends here, or another layer is inside
	dutyRTR              // to be relayed
	dutyPETR             // to be forwarded natively
	dutyNode             // a control message in a data packet, from an RTR
)

// dutyOf says as what the router takes a decapsulated packet, or why it does not.
func (x *XTR) dutyOf(e *Encapsulated, layers int) (duty, DropReason) {
	if e.isControl() {
		if layers > 0 || x.IsRTR == nil || !x.IsRTR(e.Outer.Source) {
			return 0, DropControlSource // they come from RTRs, and within no other packet
		}
		return dutyNode, DropNone
	}
	source, destination := e.Header.Source, e.Header.Destination
	if x.Tables.InDatabase(e.Instance, destination) {
		return dutyETR, e.unlessNumbered()
	}
	roles := x.rolesIn(e.Instance)
	relays, exits := roles.relays(source, destination), roles.PETR.has(source)
	relays = relays || isRegistered(x.Tables, e.Instance, source, destination)
	switch {
	case roles.RTR == nil && roles.PETR == nil && !relays:
		return 0, DropEIDNotInDatabase
	case !relays && !exits:
		return 0, DropNotInPolicy
	case !RoutableUnicast(destination):
		return 0, DropNotForwardable
	case x.Tables.IsLocalRLOC(destination) && (exits || x.isLISP(e.Inner)):
		return dutyHost, e.unlessNumbered()
	case x.Tables.IsLocalRLOC(destination):
		return 0, DropNotInPolicy
	case relays:
		return dutyRTR, DropNone
	}
	return dutyPETR, e.unlessNumbered()
}

// proxies reports whether a PITR encapsulates a packet. One of this system itself did not come in, unless routes led
// it here.
func (x *XTR) proxies(h *Header, in Ingress) bool {
	if in.Own && !in.Routed || !RoutableUnicast(h.Source) || x.Tables.IsLocalRLOC(h.Destination) {
		return false
	}
	pitr := x.rolesIn(in.Instance).PITR
	return pitr != nil && pitr(h.Source, h.Destination)
}

// natively is what becomes of a packet that the map-cache has no locators for: it goes without encapsulation. One
// that was to be relayed does so where a PETR would have sent it.
func (x *XTR) natively(o *Outcome, in Ingress) Action {
	if in.Relayed && !x.rolesIn(o.Instance).PETR.has(o.Header.Source) {
		return drop(DropNotInPolicy)
	}
	return Action{What: DoNatively}
}
