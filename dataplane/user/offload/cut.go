// SPDX-License-Identifier: Apache-2.0

package offload

// Cutting a GSO packet of TCP (RFC 9293 s.3.1) or UDP into its segments: headers are made anew for each, payloads stay
// where they are. forward.Segments does it for TCP over IPv6 alone, one copy each; tests compare both.

import "encoding/binary"

const (
	ipv4Octets = 20
	ipv6Octets = 40
	tcpOctets  = 20
	udpOctets  = 8

	protocolTCP = 6
	protocolUDP = 17

	tcpFIN = 0x01
	tcpPSH = 0x08
	tcpACK = 0x10
	tcpCWR = 0x80
)

// Segments are those of a GSO packet.
type Segments struct {
	packet    []byte
	transport int // where the header of TCP or UDP begins
	data      int // where the payload begins
	octets    int // payload of each but the last
	protocol  uint8
}

// Cut reads the headers of a GSO packet; false when they contradict its virtio header or each other.
func Cut(packet []byte, v Vnet) (Segments, bool) {
	s := Segments{packet: packet, transport: int(v.checksumStart), octets: int(v.segmentOctets), protocol: protocolTCP}
	version, kind := uint8(4), v.kind&^gsoECN
	switch kind {
	case gsoTCPv4:
	case gsoTCPv6:
		version = 6
	case gsoUDP:
		s.protocol = protocolUDP
		if len(packet) > 0 {
			version = packet[0] >> 4
		}
	default:
		return Segments{}, false
	}
	if v.flags&vnetNeedsChecksum == 0 || s.octets == 0 || len(packet) == 0 || packet[0]>>4 != version || !s.measure() {
		return Segments{}, false
	}
	return s, true
}

// measure finds the payload, and holds the lengths in the headers against the packet.
func (s *Segments) measure() bool {
	p := s.packet
	switch p[0] >> 4 {
	case 4:
		if s.transport < ipv4Octets || s.transport != int(p[0]&0xf)*4 || s.transport > len(p) || p[9] != s.protocol {
			return false
		}
	case 6:
		if s.transport < ipv6Octets {
			return false
		}
	default:
		return false
	}
	if s.protocol == protocolUDP {
		s.data = s.transport + udpOctets
		return s.data < len(p)
	}
	if s.transport+tcpOctets > len(p) {
		return false
	}
	header := int(p[s.transport+12]>>4) * 4
	s.data = s.transport + header
	return header >= tcpOctets && s.data < len(p)
}

// Count is how many segments there are.
func (s *Segments) Count() int { return (len(s.packet) - s.data + s.octets - 1) / s.octets }

// Longest is the length of the longest.
func (s *Segments) Longest() int { return s.data + min(s.octets, len(s.packet)-s.data) }

// HeaderOctets is how many octets stand before the payload of each.
func (s *Segments) HeaderOctets() int { return s.data }

// Payload is that of a segment: part of the packet.
func (s *Segments) Payload(i int) []byte {
	from := s.data + i*s.octets
	return s.packet[from:min(from+s.octets, len(s.packet))]
}

// AppendHeader appends the headers of a segment, checksums included.
func (s *Segments) AppendHeader(dst []byte, i int) []byte {
	start, payload := len(dst), s.Payload(i)
	dst = append(dst, s.packet[:s.data]...)
	made := dst[start:]
	transport := made[s.transport:]
	octets := len(transport) + len(payload)
	if made[0]>>4 == 4 {
		binary.BigEndian.PutUint16(made[2:], uint16(s.transport+octets))
		binary.BigEndian.PutUint16(made[4:], binary.BigEndian.Uint16(made[4:])+uint16(i))
		made[10], made[11] = 0, 0
		putChecksum(made[10:], sum(made[:s.transport], 0))
	} else {
		binary.BigEndian.PutUint16(made[4:], uint16(s.transport-ipv6Octets+octets))
	}
	field := 6
	if s.protocol == protocolUDP {
		binary.BigEndian.PutUint16(transport[4:], uint16(octets))
	} else {
		field = 16
		binary.BigEndian.PutUint32(transport[4:], binary.BigEndian.Uint32(transport[4:])+uint32(i*s.octets))
		s.setFlags(transport, i)
	}
	transport[field], transport[field+1] = 0, 0
	putChecksum(transport[field:], sum(payload, sum(transport, pseudoHeader(made, s.protocol, octets))))
	return dst
}

// setFlags: the first segment alone says CWR (RFC 3168 s.6.1.2), the last one alone FIN and PSH.
func (s *Segments) setFlags(tcp []byte, i int) {
	if i < s.Count()-1 {
		tcp[13] &^= tcpFIN | tcpPSH
	}
	if i > 0 {
		tcp[13] &^= tcpCWR
	}
}
