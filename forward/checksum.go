// SPDX-License-Identifier: Apache-2.0

package forward

// The Internet checksum (RFC 1071, RFC 1624). Nothing here verifies or drops.

import (
	"encoding/binary"
	"net/netip"
)

// sum adds the octets to a one's complement sum that is not folded yet.
func sum(b []byte, initial uint64) uint64 {
	for len(b) >= 4 {
		initial += uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		initial += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		initial += uint64(b[0]) << 8
	}
	return initial
}

func fold(s uint64) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// Checksum is the Internet checksum of the octets.
func Checksum(b []byte) uint16 { return ^fold(sum(b, 0)) }

// pseudoHeaderSum is the sum of the pseudo-header of UDP, TCP and ICMPv6
// (RFC 768, RFC 8200 s.8.1).
func pseudoHeaderSum(source, destination netip.Addr, protocol uint8, octets int) uint64 {
	return sumAddress(destination, sumAddress(source, uint64(octets)+uint64(protocol)))
}

func sumAddress(a netip.Addr, initial uint64) uint64 {
	if a.Is4() {
		octets := a.As4()
		return sum(octets[:], initial)
	}
	octets := a.As16()
	return sum(octets[:], initial)
}

// putUDPChecksum writes the checksum of a UDP datagram that has 0 in its place. A sum of 0 is sent as its complement
// (RFC 768).
func putUDPChecksum(datagram []byte, source, destination netip.Addr) {
	checksum := ^fold(sum(datagram, pseudoHeaderSum(source, destination, protocolUDP, len(datagram))))
	if checksum == 0 {
		checksum = 0xffff
	}
	binary.BigEndian.PutUint16(datagram[6:], checksum)
}

// updateChecksum replaces a 16-bit word that a checksum covers and updates the
// checksum (RFC 1624 s.3), so that a packet that was damaged before stays damaged.
func updateChecksum(checksum []byte, before, after uint16) {
	old := binary.BigEndian.Uint16(checksum)
	binary.BigEndian.PutUint16(checksum, ^fold(uint64(^old)+uint64(^before)+uint64(after)))
}
