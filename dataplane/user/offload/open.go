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

// usualOctets is the longest packet of a link of Ethernet. A longer one of TCP with an open checksum is a GSO packet
// that no device has cut into segments: the socket gives it as a whole.
const usualOctets = 1500

// CompleteChecksum completes the checksum of TCP or UDP where the field has the sum of the pseudo-header alone. One
// complete checksum in 65,536 looks the same, and comes out as it was. Fragments and packets with other headers
// between stay as they are, and so do GSO packets, whose segments get theirs when they are cut.
func CompleteChecksum(packet []byte) {
	transport, field := openChecksum(packet)
	if transport != nil && !isUncut(packet, field) {
		putChecksum(transport[field:], sum(transport, 0))
	}
}

// isUncut reports whether a packet with an open checksum, in so far a field, is a GSO packet.
func isUncut(packet []byte, field int) bool { return field == tcpChecksum && len(packet) > usualOctets }

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

// isUncutTCP reports whether a packet of this layout is a GSO packet.
func isUncutTCP(packet []byte, l layout) bool {
	if l.data >= len(packet) || l.data-l.transport < tcpOctets || len(packet) <= usualOctets {
		return false
	}
	transport, field := openChecksum(packet)
	return transport != nil && isUncut(packet, field)
}
