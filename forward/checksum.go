// SPDX-License-Identifier: Apache-2.0

package forward

// The Internet checksum (RFC 1071, RFC 1624). Nothing here verifies or drops.

import (
	"encoding/binary"
	"fmt"
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

// updateChecksum replaces a 16-bit word that a checksum covers and updates the
// checksum (RFC 1624 s.3), so that a packet that was damaged before stays damaged.
func updateChecksum(checksum []byte, before, after uint16) {
	old := binary.BigEndian.Uint16(checksum)
	binary.BigEndian.PutUint16(checksum, ^fold(uint64(^old)+uint64(^before)+uint64(after)))
}

// CompleteChecksum finishes a checksum that the sender left to its interface
// (virtio_net_hdr, VIRTIO_NET_HDR_F_NEEDS_CSUM): the field holds the sum of the
// pseudo-header, what is missing is the sum from octet start on. offset is counted
// from start. A UDP checksum that comes out as 0 becomes 0xFFFF (RFC 768), which
// means the same to the others.
func CompleteChecksum(frame []byte, start, offset int) error {
	if start < 0 || offset < 0 || start > len(frame) || offset > len(frame)-start-2 {
		return fmt.Errorf("checksum at octet %d from %d on: the packet has %d octets", offset, start, len(frame))
	}
	covered := frame[start:]
	value := Checksum(covered)
	if value == 0 {
		value = 0xffff
	}
	binary.BigEndian.PutUint16(covered[offset:], value)
	return nil
}
