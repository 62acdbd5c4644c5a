// SPDX-License-Identifier: Apache-2.0

package forward

// What a tunnel router does with a packet, from the first look to the packet it
// sends (RFC 9300 s.4): ITR for what comes from EIDs of the site, ETR for what
// comes from the core. The programs in bpf/ take the same decisions in the same
// order. The tables are the caller's; nothing here waits, counts or keeps state.

import (
	"encoding/binary"
	"net/netip"
	"time"

	"loci/lisp"
)

// Tables are what a tunnel router looks up. IPv4-mapped IPv6 addresses are IPv6.
type Tables interface {
	// InDatabase reports whether an address is an EID of this site.
	InDatabase(instance lisp.InstanceID, eid netip.Addr) bool
	// MapCache returns the entry of the longest prefix; nil is a miss.
	MapCache(instance lisp.InstanceID, eid netip.Addr) *Entry
	// IsLocalRLOC reports whether an address is one of the router's own RLOCs.
	IsLocalRLOC(a netip.Addr) bool
	// Path returns the own RLOC from which a locator is sent to, and the octets
	// that the path carries; mtu 0 says that there is no route.
	Path(to lisp.RLOC) (source lisp.RLOC, mtu int)
	// Site returns what headers tell of the Database entry that covers an EID.
	Site(instance lisp.InstanceID, eid netip.Addr) Site
}

// Entry is what packets see of a map-cache entry.
type Entry struct {
	Locators lisp.LocatorSet // none: Action counts
	Buckets  BucketVector
	Action   lisp.Action
	Hold     bool // packets wait while earlier ones are being released

	// What headers are held against (trusted.go).
	Prefix    netip.Prefix
	Version   uint16
	EchoNonce bool // whoever answers for it echoes nonces
}

// MissPolicy says what happens to a packet that no mapping covers.
type MissPolicy uint8

// The policies.
const (
	MissWait MissPolicy = iota
	MissDrop
	MissNative
)

// XTR is a tunnel router's view of packets.
type XTR struct {
	Tables  Tables
	Marking Marking
	Miss    MissPolicy
	Trusted Trusted
	Memory  *Memory // needed where Trusted is not off
	// Encapsulation says how packets go to an RLOC; nil: as LISP.
	Encapsulation func(lisp.RLOC) Encapsulation
	VXLANGPE      bool   // UDP to VXLANGPEPort is ours as well
	Denies        Denies // nil: there are no lists
}

// Ingress is how a packet came to the ITR.
type Ingress struct {
	Instance lisp.InstanceID
	Own      bool   // sent by this system itself: its TTL is left alone
	Routed   bool   // own, and routes led it to LISP: it has no other way
	Released bool   // has waited: no Hold, and never to wait again
	Segment  int    // payload of each segment of a super-packet, else 0
	Nonce    uint32 // for the LISP header
	Now      time.Time
}

// Verdict is what becomes of a packet.
type Verdict uint8

// The verdicts.
const (
	VerdictPass        Verdict = iota // does not concern LISP: goes its way as without it
	VerdictDrop                       // Outcome.Reason says why
	VerdictNative                     // from an EID, but sent without encapsulation
	VerdictWait                       // no mapping, or one on hold
	VerdictTooBig                     // Outcome.LargestInner octets would fit
	VerdictEncapsulate                // Outcome.Packet goes to Outcome.Locator
	VerdictDecapsulate                // Outcome.Packet goes to the site
)

var verdictNames = [...]string{"pass", "drop", "native", "wait", "too-big", "encapsulate", "decapsulate"}

// String names the verdict as the golden packets do.
func (v Verdict) String() string { return verdictNames[min(int(v), len(verdictNames)-1)] }

// Outcome is what becomes of a packet, and what is to be counted.
type Outcome struct {
	Verdict      Verdict
	Reason       DropReason      // with VerdictDrop
	Packet       []byte          // encapsulated or decapsulated
	Header       Header          // of the inner packet, as far as it was read
	Instance     lisp.InstanceID // of the inner packet
	Miss         bool            // no mapping covers it: a Map-Request is due
	Entry        *Entry          // of the map-cache, when there was one
	Locator      lisp.Locator    // with VerdictEncapsulate and VerdictTooBig
	LargestInner int             // with VerdictTooBig
	Notes        Notes
	Hints        []Hint // of a packet from the core
}

func (o Outcome) drop(reason DropReason) Outcome {
	o.Verdict, o.Reason = VerdictDrop, reason
	return o
}

func (o Outcome) is(v Verdict) Outcome {
	o.Verdict = v
	return o
}

// leave is for packets that are not LISP's: they go their way as without it,
// unless LISP is the way that routes chose for them or that they came back by.
func (o Outcome) leave(in Ingress, reason DropReason) Outcome {
	if in.Routed {
		return o.drop(reason)
	}
	return o
}

// Outbound is the ITR. The encapsulated packet is appended to dst; packet itself
// is left alone.
func (x *XTR) Outbound(dst, packet []byte, in Ingress) Outcome {
	h, err := ParseHeader(packet)
	o := Outcome{Header: h, Instance: in.Instance}
	if err != nil || !RoutableUnicast(h.Destination) {
		return o.leave(in, DropNotForwardable)
	}
	if !x.concernsLISP(packet, &h, in) {
		return o.leave(in, DropSourceNotEID)
	}
	switch {
	case x.Tables.InDatabase(in.Instance, h.Destination) && in.Routed:
		return o.is(VerdictNative)
	case x.Tables.InDatabase(in.Instance, h.Destination):
		return o // the site's own affair
	case h.TTL <= 1 && !in.Own && in.Released:
		return o.drop(DropTTLExpired)
	case h.TTL <= 1 && !in.Own:
		return o // the stack answers with Time Exceeded
	}
	if reason := x.Denies.judge(ListInnerSource, in.Instance, h.Source, h.Destination); reason != DropNone {
		return o.drop(reason)
	}
	o.Entry = x.Tables.MapCache(in.Instance, h.Destination)
	if o.Entry == nil {
		return x.miss(o, in)
	}
	if len(o.Entry.Locators) == 0 {
		return x.negative(o, in)
	}
	if o.Entry.Hold && !in.Released {
		return o.is(VerdictWait)
	}
	return x.encapsulate(dst, packet, o, in)
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

// miss treats a packet that no mapping covers. One to an own RLOC is no business
// of the mapping system.
func (x *XTR) miss(o Outcome, in Ingress) Outcome {
	switch {
	case x.Tables.IsLocalRLOC(o.Header.Destination):
		return o.is(VerdictNative)
	case in.Released:
		return o.drop(DropReleasedWithoutMapping)
	}
	o.Miss = true
	switch x.Miss {
	case MissDrop:
		return o.drop(DropMiss)
	case MissNative:
		return o.is(VerdictNative)
	}
	return o.is(VerdictWait)
}

// negative obeys the action of a mapping without locators (RFC 9301 s.5.4).
func (x *XTR) negative(o Outcome, in Ingress) Outcome {
	switch o.Entry.Action {
	case lisp.ActionNativelyForward:
		return o.is(VerdictNative)
	case lisp.ActionSendMapRequest:
		return x.miss(o, in)
	case lisp.ActionDrop:
		return o.drop(DropActionDrop)
	case lisp.ActionDropPolicyDenied:
		return o.drop(DropPolicyDenied)
	case lisp.ActionDropAuthFailure:
		return o.drop(DropAuthenticationFailure)
	}
	return o.drop(DropNoAction)
}

func (x *XTR) encapsulate(dst, packet []byte, o Outcome, in Ingress) Outcome {
	var ok bool
	o.Locator, ok = SelectLocator(o.Entry.Locators, &o.Entry.Buckets, FlowHash(&o.Header))
	if !ok {
		return o.drop(DropNoLocator)
	}
	source, mtu := x.Tables.Path(o.Locator.RLOC)
	if reason := x.Denies.judge(ListOuterSource, 0, source.Addr(), o.Locator.RLOC.Addr()); reason != DropNone {
		return o.drop(reason)
	}
	if mtu <= 0 || source.IsZero() {
		return o.drop(DropNoRoute)
	}
	o.LargestInner = LargestInner(o.Locator.RLOC, mtu)
	if LongestOnWire(packet, &o.Header, in.Segment) > o.LargestInner {
		return o.is(VerdictTooBig)
	}
	t := Tunnel{
		Source: source, Destination: o.Locator.RLOC,
		Marking: x.Marking, Forwarded: !in.Own,
	}
	if e := x.encapsulationTo(o.Locator.RLOC); e != EncapsulationLISP {
		t.Header, t.Port = gpeHeader(e, o.Instance, o.Header.Family)
	} else {
		t.Header = x.dataHeader(&o, in)
	}
	o.Packet, o.Reason = Encapsulate(dst, packet, &o.Header, &t)
	if o.Reason != DropNone {
		return o.drop(o.Reason)
	}
	return o.is(VerdictEncapsulate)
}

func (x *XTR) encapsulationTo(r lisp.RLOC) Encapsulation {
	if x.Encapsulation == nil {
		return EncapsulationLISP
	}
	return x.Encapsulation(r)
}

// Inbound is the ETR. It changes packet, whose part the decapsulated packet is,
// only when the verdict is VerdictDecapsulate.
func (x *XTR) Inbound(packet []byte, now time.Time) Outcome {
	var o Outcome
	if !x.isForTunnel(packet) {
		return o
	}
	e, reason := ParseEncapsulated(packet)
	o.Header, o.Instance, o.Notes = e.Header, e.Instance, e.Notes
	switch {
	case reason != DropNone:
		return o.drop(reason)
	case !RoutableUnicast(e.Header.Source):
		return o.drop(DropInnerMalformed) // RFC 1812 s.5.3.7, RFC 4291 s.2.5.2 to 2.5.6, s.2.7: no router forwards them
	case !x.Tables.InDatabase(e.Instance, e.Header.Destination):
		return o.drop(DropEIDNotInDatabase)
	}
	if reason = x.judgeLists(&e); reason != DropNone {
		return o.drop(reason)
	}
	if reason = x.received(&o, &e, now); reason != DropNone {
		return o.drop(reason)
	}
	reason = e.Unwrap(x.Marking)
	o.Header, o.Packet = e.Header, e.Inner
	o.Notes |= e.Notes
	if reason != DropNone {
		return o.drop(reason)
	}
	return o.is(VerdictDecapsulate)
}

// isForTunnel reports whether a packet is UDP to the LISP data port of an own
// RLOC. Fragments are the stack's: it puts them together first.
func (x *XTR) isForTunnel(packet []byte) bool {
	h, err := readHeader(packet)
	if err != nil || h.Protocol != protocolUDP || h.Fragment || h.PayloadOffset+4 > len(packet) {
		return false
	}
	port := binary.BigEndian.Uint16(packet[h.PayloadOffset+2:])
	return (port == DataPort || port == VXLANGPEPort && x.VXLANGPE) && x.Tables.IsLocalRLOC(h.Destination)
}
