// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 5: which Action a packet gets (RFC 9300 s.5.1-5.3, s.7). Towards the core: a locator by flow, the path to it,
// the outer headers, once more where its RLOC is an EID itself; what varies in their LISP header is added when they
// are written (trusted.go). Towards the site the routes are the engine's. Nothing here changes a packet.

import (
	"cmp"

	"loci/lisp"
	"loci/wire"
)

// selectEncapsulation makes the Action of a packet whose mapping has locators.
func (x *XTR) selectEncapsulation(packet []byte, o *Outcome, in Ingress) Action {
	locator, reason := x.selectLocator(o, in)
	if reason != DropNone {
		return drop(reason)
	}
	to := locator.NextHop()
	entry, end, ok := x.lookUpRLOC(o, to, in)
	if !ok {
		return end
	}
	a := Action{What: DoEncapsulate, Locator: locator}
	source, mtu, reason := x.route(&locator, entry != nil)
	if reason == DropNone {
		a.Template, a.Varies = x.template(source, o.Entry, &locator, o.Instance, o.Header.Family)
		a.Template.Forwarded = !in.Own
	}
	if reason == DropNone && entry != nil {
		a.Outer, mtu, reason = x.selectOuter(&a, o, entry)
	}
	switch {
	case reason != DropNone:
		return drop(reason)
	case a.Outer != nil && o.Header.isEncapsulated():
		return drop(DropRecursionDepth) // three layers
	}
	a.LargestInner = LargestInner(to, mtu)
	switch {
	case LongestOnWire(packet, &o.Header, in.Segment) > a.LargestInner:
		a.What = DoTooBig
	case a.Outer != nil && in.Segment != 0:
		a.What = DoSegment // an interface cannot do it behind two layers
	}
	return a
}

// route is the own RLOC that a locator is sent to from, and what the path carries. An RLOC that is an EID needs no
// path.
func (x *XTR) route(l *lisp.Locator, isEID bool) (source lisp.RLOC, mtu int, reason DropReason) {
	to := l.NextHop()
	source, mtu = x.Tables.Path(to)
	source = x.PathIdentification.namedSource(x.Tables, l, source)
	if reason = x.Denies.judge(ListOuterSource, 0, source.Addr(), to.Addr()); reason != DropNone {
		return source, mtu, reason
	}
	if source.IsZero() || mtu <= 0 && !isEID {
		return source, mtu, DropNoRoute
	}
	return source, mtu, DropNone
}

// selectLocator chooses the locator of a packet's flow, or says why there is none that the packet can take.
func (x *XTR) selectLocator(o *Outcome, in Ingress) (lisp.Locator, DropReason) {
	locator, ok := o.identify(x.Tables, x.PathIdentification, in)
	if !ok {
		locator, ok = o.chooseLocator(x.Tables)
	}
	switch {
	case !ok:
		return locator, DropNoLocator
	case x.Tables.IsLocalRLOC(locator.NextHop().Addr()):
		return locator, DropOwnNextHop
	case in.Relayed && isOffPath(x.Tables, &locator):
		return locator, DropNotOnPath
	case NeedsLookup(&locator) && x.depth() < 2:
		return locator, DropRecursionDepth
	}
	return locator, DropNone
}

// isOffPath reports whether a relay is not on the path of a locator: it would send packets round and round. An own
// RLOC has to stand before the next hop.
func isOffPath(t Tables, l *lisp.Locator) bool {
	path := l.Path()
	for i := range min(int(l.Next), path.Len()-1) {
		if t.IsLocalRLOC(path.Hop(i).Addr()) {
			return false
		}
	}
	return !path.IsPlain()
}

// selectOuter makes the second layer of a packet whose RLOC that mapping covers. mtu is what its path carries of the
// packet with one layer.
func (x *XTR) selectOuter(a *Action, o *Outcome, entry *Entry) (layer *Layer, mtu int, reason DropReason) {
	h := a.Template.HeaderOf(FlowHash(&o.Header))
	locator, ok := SelectLocator(entry.Locators, &entry.Buckets, FlowHash(&h))
	if !ok {
		return nil, 0, DropNoLocator
	}
	to := locator.NextHop()
	next := x.Tables.MapCache(0, to.Addr())
	switch {
	case x.Tables.IsLocalRLOC(to.Addr()), next == entry:
		return nil, 0, DropMappingLoop
	case next != nil && len(next.Locators) > 0 && next.Action != lisp.ActionNativelyForward, NeedsLookup(&locator):
		return nil, 0, DropRecursionDepth
	}
	source, mtu, reason := x.route(&locator, false)
	if reason != DropNone {
		return nil, 0, reason
	}
	layer = &Layer{Entry: entry, Locator: locator}
	layer.Template, layer.Varies = x.template(source, entry, &locator, 0, h.Family)
	return layer, LargestInner(to, mtu), DropNone
}

// controlPort is the UDP port of the LISP control plane (RFC 9301 s.4).
const controlPort = 4342

// isEncapsulated reports whether a packet is LISP's already, which counts as a layer: a packet between EIDs to port
// 4341 or 4342.
func (h *Header) isEncapsulated() bool {
	port := uint16(h.Ports)
	return h.Protocol == protocolUDP && (port == DataPort || port == controlPort)
}

// template makes the outer headers of packets of that family to a locator, without what varies.
func (x *XTR) template(source lisp.RLOC, of *Entry, l *lisp.Locator, instance lisp.InstanceID, family uint8) (t Tunnel,
	v Varies) {
	to := l.NextHop()
	t = Tunnel{Source: source, Destination: to, SourcePort: l.SourcePort, Marking: x.Marking}
	encapsulation := EncapsulationLISP
	if x.Encapsulation != nil {
		encapsulation = x.Encapsulation(to)
	}
	t.BareHeader(encapsulation, x.PathIdentification.instanceOnWire(of, l, instance), family)
	if encapsulation == EncapsulationLISP {
		v = x.Trusted.varies()
	}
	if to.Port() != 0 {
		t.Port = to.Port()
	}
	return t, v
}

// selectDelivery makes the Action of a packet from the core that goes no farther by LISP; reason says why an earlier
// stage drops it.
func selectDelivery(e *Encapsulated, as duty, reason DropReason) Action {
	switch {
	case reason != DropNone:
		return drop(reason)
	case as == dutyHost || e.ttl <= 1:
		return Action{What: DoLocal}
	case as == dutyPETR:
		return Action{What: DoNatively}
	}
	return Action{What: DoDeliver}
}

// ---- outer headers ----

// DataPort is the UDP port of the LISP data plane (RFC 9300 s.5.3).
const DataPort = 4341

// VXLANGPEPort is the UDP port of VXLAN-GPE.
const VXLANGPEPort = 4790

// Encapsulation is what stands between UDP and the inner packet.
type Encapsulation uint8

// The encapsulations; their numbers are those of enum lisp_encapsulation.
const (
	EncapsulationLISP     Encapsulation = iota // RFC 9300 s.5
	EncapsulationLISPGPE                       // RFC 9305: P and Next Protocol, no nonce
	EncapsulationVXLANGPE                      // the same words at port 4790, the Instance-ID as VNI
)

// The protocols of RFC 9305 s.3.1 that are understood.
const (
	nextProtocolIPv4 = 1
	nextProtocolIPv6 = 2
)

// Tunnel says how a packet is encapsulated. It is the template of its outer headers.
type Tunnel struct {
	Source      lisp.RLOC // own RLOC, of Destination's family
	Destination lisp.RLOC
	Port        uint16 // of the destination; 0 stands for DataPort
	// SourcePort is the port that all flows leave from; 0 stands for that of each flow. A packet from such a port
	// gets a UDP checksum: it is for a NAT, and a NAT64 drops packets without one (RFC 7915 s.4.5).
	SourcePort uint16
	Header     wire.DataHeader // flags, nonce, Instance-ID
	Marking    Marking
	Forwarded  bool // the inner TTL is decremented first, as the packet is not this system's own
}

// BareHeader gives the tunnel the least of headers for an inner packet of that family:
// no nonce, and the Instance-ID where it is not 0.
func (t *Tunnel) BareHeader(e Encapsulation, instance lisp.InstanceID, family uint8) {
	t.Header, t.Port = wire.DataHeader{Instance: instance != 0, InstanceID: instance}, DataPort
	if e == EncapsulationLISP {
		return
	}
	t.Header.NextProtocol, t.Header.Protocol = true, nextProtocolIPv4
	if family == 6 {
		t.Header.Protocol = nextProtocolIPv6
	}
	if e == EncapsulationVXLANGPE {
		t.Header.Instance, t.Port = true, VXLANGPEPort
	}
}

// HeaderOf is the outer header as far as a flow of that hash has one: what the flow of an encapsulated packet is told
// by.
func (t *Tunnel) HeaderOf(hash uint32) Header {
	h := Header{Family: 4, Protocol: protocolUDP, Source: t.Source.Addr(), Destination: t.Destination.Addr()}
	if t.Destination.Is6() {
		h.Family = 6
	}
	h.Ports = uint32(cmp.Or(t.SourcePort, SourcePort(hash)))<<16 | uint32(cmp.Or(t.Port, DataPort))
	return h
}

// DataHeader is the LISP header that Loci sends: a nonce, and the Instance-ID
// unless it is 0.
func DataHeader(instance lisp.InstanceID, nonce uint32) wire.DataHeader {
	return wire.DataHeader{NoncePresent: true, Nonce: nonce & 0xffffff, Instance: instance != 0, InstanceID: instance}
}

// Overhead is how many octets encapsulation to an RLOC adds: 36 for IPv4, 56 for
// IPv6 (RFC 9300 s.7.1, H).
func Overhead(rloc lisp.RLOC) int {
	if rloc.Is6() {
		return ipv6HeaderOctets + udpHeaderOctets + wire.DataHeaderOctets
	}
	return ipv4HeaderOctets + udpHeaderOctets + wire.DataHeaderOctets
}
