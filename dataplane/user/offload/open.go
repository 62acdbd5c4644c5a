// SPDX-License-Identifier: Apache-2.0

package offload

// What arrives within UDP may have a checksum that its sender left to a device (CHECKSUM_PARTIAL): on links within
// one machine (veth, virtio) none completes it, and a socket does not say which packets these are.

import "encoding/binary"

// Where the checksum is in the headers of TCP and UDP.
const (
	tcpChecksum = 16
	udpChecksum = 6
)

const (
	// usualOctets is the longest packet of a link of Ethernet. A longer one of TCP with an open checksum is a GSO packet
	// that no device has cut into segments: the socket gives it as a whole.
	usualOctets = 1500
	// everywhereOctets go over each link of IPv6 (RFC 8200 s.5), in a tunnel over Ethernet too. How long the segments of a
	// GSO packet were to be is not told: longer ones could be too big, again and again.
	everywhereOctets = 1280
)

// CompleteChecksum completes the checksum of TCP or UDP where the field has the sum of the pseudo-header alone. One
// complete checksum in 65,536 looks the same, and comes out as it was. Fragments and packets with other headers
// between stay as they are.
func CompleteChecksum(packet []byte) {
	if transport, field := openChecksum(packet); transport != nil {
		putChecksum(transport[field:], sum(transport, 0))
	}
}

// CutUncut takes a GSO packet apart that came whole; false for every other packet.
func CutUncut(packet []byte) (Segments, bool) {
	if len(packet) <= usualOctets {
		return Segments{}, false
	}
	transport, field := openChecksum(packet)
	if transport == nil || field != tcpChecksum {
		return Segments{}, false
	}
	start, _, octets := transportOf(packet)
	s := Segments{packet: packet[:start+octets], transport: start, protocol: protocolTCP}
	if !s.measure() {
		return Segments{}, false
	}
	s.octets = everywhereOctets - s.data
	return s, true
}

// openChecksum is the transport header and the payload of a packet with an open checksum, and the place of that; nil
// for all others.
func openChecksum(packet []byte) (transport []byte, field int) {
	start, protocol, octets := transportOf(packet)
	switch protocol {
	case protocolTCP:
		field = tcpChecksum
	case protocolUDP:
		field = udpChecksum
	default:
		return nil, 0
	}
	if octets < field+2 {
		return nil, 0
	}
	transport = packet[start : start+octets]
	open := binary.NativeEndian.Uint16(transport[field:])
	if open == 0 || open != fold(pseudoHeader(packet, protocol, octets)) { // 0: UDP without
		return nil, 0
	}
	return transport, field
}

// transportOf is where the transport header of a whole packet begins, and how many octets it has with its payload; 0
// octets where that cannot be told.
func transportOf(p []byte) (start int, protocol uint8, octets int) {
	switch {
	case len(p) > ipv4Octets && p[0] == 0x45 && binary.BigEndian.Uint16(p[6:])&0x3fff == 0: // no MF, no offset
		start, protocol, octets = ipv4Octets, p[9], int(binary.BigEndian.Uint16(p[2:]))-ipv4Octets
	case len(p) > ipv6Octets && p[0]>>4 == 6:
		start, protocol, octets = ipv6Octets, p[6], int(binary.BigEndian.Uint16(p[4:]))
	}
	if start+octets > len(p) {
		octets = 0
	}
	return start, protocol, octets
}
