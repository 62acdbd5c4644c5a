// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 3: whose packets this router forwards by LISP (RFC 9300 s.4, s.5). From the site: from an EID of the Database to
// somewhere else. From the core: what lists, source check, nonces, status bits and versions let pass. A role adds its rules
// here. Lists are the caller's (bpf/lists.h has the same in C). Nothing here changes a packet.

import (
	"net/netip"
	"time"

	"loci/lisp"
)

// admitFromSite reports whether a packet of the site is LISP's to forward; where not, the Action is what becomes of it.
func (x *XTR) admitFromSite(packet []byte, o *Outcome, in Ingress) bool {
	h := &o.Header
	if !x.concernsLISP(packet, h, in) {
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
	if reason := x.Denies.judge(ListInnerSource, in.Instance, h.Source, h.Destination); reason != DropNone {
		return o.end(drop(reason))
	}
	return true
}

// concernsLISP reports whether a packet is sent by an EID of the site, or is
// an ICMP error that this system owes to a remote EID and for which it chose an
// RLOC as source.
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
	quoted := packet[h.PayloadOffset+icmpHeaderOctets : h.Length]
	if h.Family == 4 {
		return len(quoted) >= ipv4HeaderOctets && x.Tables.InDatabase(instance, netip.AddrFrom4([4]byte(quoted[16:])))
	}
	return len(quoted) >= ipv6HeaderOctets && x.Tables.InDatabase(instance, netip.AddrFrom16([16]byte(quoted[24:])))
}

// admitFromCore says why a packet from the core to an EID of ours is not let in.
func (x *XTR) admitFromCore(o *Outcome, e *Encapsulated, now time.Time) DropReason {
	if reason := x.Denies.judge(ListDecapsulated|ListOuterSource, 0, e.Outer.Source, e.Outer.Destination); reason != DropNone {
		return reason
	}
	if reason := x.Denies.judge(ListDecapsulated|ListInnerSource, e.Instance, e.Header.Source, e.Header.Destination); reason != DropNone {
		return reason
	}
	return x.judgeReceived(o, e, now)
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
