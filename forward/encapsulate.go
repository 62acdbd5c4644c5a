// SPDX-License-Identifier: Apache-2.0

package forward

// Encapsulation (RFC 9300 s.5.1, s.5.2, s.5.3):
//
//	outer IPv4 or IPv6 | UDP, destination port 4341 | LISP header | inner packet
//
// The UDP checksum is 0 on both families (RFC 6935, RFC 6936). An outer IPv4
// header has DF set and identification 0 (RFC 6864 s.4.1). Nothing here chooses a
// locator or looks at a path's MTU.

import (
	"encoding/binary"
	"slices"

	"loci/lisp"
	"loci/wire"
)

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

// gpeHeader is the header of an inner packet of that family.
func gpeHeader(e Encapsulation, instance lisp.InstanceID, family uint8) (h wire.DataHeader, port uint16) {
	h = wire.DataHeader{NextProtocol: true, Protocol: nextProtocolIPv4, Instance: instance != 0, InstanceID: instance}
	if family == 6 {
		h.Protocol = nextProtocolIPv6
	}
	if e == EncapsulationVXLANGPE {
		h.Instance, port = true, VXLANGPEPort
	}
	return h, port
}

// BareHeader gives the tunnel the least of headers for an inner packet of that family:
// no nonce, and the Instance-ID where it is not 0.
func (t *Tunnel) BareHeader(e Encapsulation, instance lisp.InstanceID, family uint8) {
	if e != EncapsulationLISP {
		t.Header, t.Port = gpeHeader(e, instance, family)
		return
	}
	t.Header, t.Port = DataHeader(instance, 0), DataPort
	t.Header.NoncePresent = false
}

// DataPort is the UDP port of the LISP data plane (RFC 9300 s.5.3).
const DataPort = 4341

const maxIPv4Octets = 65535

// Overhead is how many octets encapsulation to an RLOC adds: 36 for IPv4, 56 for
// IPv6 (RFC 9300 s.7.1, H).
func Overhead(rloc lisp.RLOC) int {
	if rloc.Is6() {
		return ipv6HeaderOctets + udpHeaderOctets + wire.DataHeaderOctets
	}
	return ipv4HeaderOctets + udpHeaderOctets + wire.DataHeaderOctets
}

// Tunnel says how a packet is encapsulated.
type Tunnel struct {
	Source      lisp.RLOC // own RLOC, of Destination's family
	Destination lisp.RLOC
	Port        uint16          // of the destination; 0 stands for DataPort
	Header      wire.DataHeader // flags, nonce, Instance-ID
	Marking     Marking
	Forwarded   bool // the inner TTL is decremented first, as the packet is not this system's own
}

// DataHeader is the LISP header that Loci sends: a nonce, and the Instance-ID
// unless it is 0.
func DataHeader(instance lisp.InstanceID, nonce uint32) wire.DataHeader {
	return wire.DataHeader{NoncePresent: true, Nonce: nonce & 0xffffff, Instance: instance != 0, InstanceID: instance}
}

// Encapsulate appends the encapsulated packet to dst, whose memory must not
// overlap packet. Octets of packet beyond the length in its header are padding
// and stay behind. A packet that cannot be encapsulated leaves dst as it was.
func Encapsulate(dst, packet []byte, h *Header, t *Tunnel) ([]byte, DropReason) {
	switch {
	case t.Source.Is4() != t.Destination.Is4() || t.Source.IsZero() || t.Destination.IsZero():
		return dst, DropNoLocator
	case h.Length+Overhead(t.Destination) > outerMaxOctets(t.Destination):
		return dst, DropEncapsulationFailed
	case t.Forwarded && h.TTL == 0:
		return dst, DropTTLExpired
	}
	inner := *h
	if t.Forwarded {
		inner.TTL--
	}
	before := len(dst)
	dst = slices.Grow(dst, Overhead(t.Destination)+h.Length)
	dst = appendOuter(dst, &inner, t)
	dst, err := t.Header.AppendTo(dst)
	if err != nil {
		return dst[:before], DropEncapsulationFailed
	}
	start := len(dst)
	dst = append(dst, packet[:h.Length]...)
	copied := *h
	setMarks(dst[start:], &copied, inner.TTL, h.TrafficClass)
	return dst, DropNone
}

func outerMaxOctets(rloc lisp.RLOC) int {
	if rloc.Is6() {
		return maxIPv4Octets + ipv6HeaderOctets // the length field does not count the header
	}
	return maxIPv4Octets
}

// appendOuter appends the outer IP and UDP headers.
func appendOuter(dst []byte, inner *Header, t *Tunnel) []byte {
	hash := FlowHash(inner)
	class := t.Marking.Outer(inner.TrafficClass)
	octets := udpHeaderOctets + wire.DataHeaderOctets + inner.Length
	if t.Destination.Is4() {
		dst = appendIPv4(dst, ipv4Fields{class: class, ttl: inner.TTL, protocol: protocolUDP, payload: octets, dontFragment: true}, t.Source.Addr(), t.Destination.Addr())
	} else {
		dst = appendIPv6(dst, ipv6Fields{class: class, hopLimit: inner.TTL, next: protocolUDP, payload: octets, label: FlowLabel(hash)}, t.Source.Addr(), t.Destination.Addr())
	}
	port := t.Port
	if port == 0 {
		port = DataPort
	}
	dst = binary.BigEndian.AppendUint16(dst, SourcePort(hash))
	dst = binary.BigEndian.AppendUint16(dst, port)
	dst = binary.BigEndian.AppendUint16(dst, uint16(octets))
	return append(dst, 0, 0)
}
