// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 5: which Action a packet gets (RFC 9300 s.5.1-5.3, s.7). Towards the core: a locator by flow, the path to it, the
// outer headers; what varies in their LISP header is added when they are written (trusted.go). Towards the site the routes
// are the engine's. Nothing here changes a packet.

import (
	"cmp"

	"loci/lisp"
	"loci/wire"
)

// selectEncapsulation makes the Action of a packet whose mapping has locators.
func (x *XTR) selectEncapsulation(packet []byte, o *Outcome, in Ingress) Action {
	locator, ok := SelectLocator(o.Entry.Locators, &o.Entry.Buckets, FlowHash(&o.Header))
	if !ok {
		return drop(DropNoLocator)
	}
	to := locator.NextHop()
	source, mtu := x.Tables.Path(to)
	if reason := x.Denies.judge(ListOuterSource, 0, source.Addr(), to.Addr()); reason != DropNone {
		return drop(reason)
	}
	if mtu <= 0 || source.IsZero() {
		return drop(DropNoRoute)
	}
	a := Action{What: DoEncapsulate, Locator: locator, LargestInner: LargestInner(to, mtu)}
	if LongestOnWire(packet, &o.Header, in.Segment) > a.LargestInner {
		a.What = DoTooBig
		return a
	}
	a.Template = Tunnel{Source: source, Destination: to, Marking: x.Marking, Forwarded: !in.Own}
	encapsulation := EncapsulationLISP
	if x.Encapsulation != nil {
		encapsulation = x.Encapsulation(to)
	}
	a.Template.BareHeader(encapsulation, o.Instance, o.Header.Family)
	a.Template.Port = cmp.Or(to.Port(), a.Template.Port)
	if encapsulation == EncapsulationLISP {
		a.Varies = x.Trusted.varies()
	}
	return a
}

// selectDelivery makes the Action of a packet from the core; reason says why an earlier stage drops it.
func selectDelivery(e *Encapsulated, reason DropReason) Action {
	switch {
	case reason != DropNone:
		return drop(reason)
	case e.ttl <= 1:
		return Action{What: DoLocal}
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
	Port        uint16          // of the destination; 0 stands for DataPort
	Header      wire.DataHeader // flags, nonce, Instance-ID
	Marking     Marking
	Forwarded   bool // the inner TTL is decremented first, as the packet is not this system's own
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
