// SPDX-License-Identifier: Apache-2.0

package wire

// Internet and UDP checksums (RFC 1071, RFC 768, RFC 8200 s.8.1). RFC 9301 s.5
// wants them non-zero and verified on every control packet.

import (
	"encoding/binary"
	"net/netip"
)

const protocolUDP = 17

// UDPChecksum computes the checksum of a UDP segment (header and payload, its
// checksum field holding 0) between two addresses of one family. It is never 0:
// the sum 0 is sent as 0xffff. On a segment that holds its checksum the result is
// 0xffff exactly when that checksum is right.
func UDPChecksum(source, destination netip.Addr, segment []byte) uint16 {
	sum := pseudoHeaderSum(source, destination, len(segment))
	if folded := ^foldSum(addOctets(sum, segment)); folded != 0 {
		return folded
	}
	return 0xffff
}

// VerifyUDPChecksum reports whether a UDP segment with a checksum is intact. A
// checksum of 0, "none", is not verified and gives false.
func VerifyUDPChecksum(source, destination netip.Addr, segment []byte) bool {
	if len(segment) < udpHeaderOctets || binary.BigEndian.Uint16(segment[6:]) == 0 {
		return false
	}
	return UDPChecksum(source, destination, segment) == 0xffff
}

// headerChecksum is the checksum of an IPv4 header whose field holds 0; of one
// that holds its checksum it is 0 when that is right.
func headerChecksum(header []byte) uint16 { return ^foldSum(addOctets(0, header)) }

func pseudoHeaderSum(source, destination netip.Addr, length int) uint64 {
	if source.Is4() {
		s, d := source.As4(), destination.As4()
		return addOctets(addOctets(protocolUDP+uint64(length), s[:]), d[:])
	}
	s, d := source.As16(), destination.As16()
	return addOctets(addOctets(protocolUDP+uint64(length), s[:]), d[:])
}

// addOctets adds words of 16 bits. Two at once give the same when the sum is folded.
func addOctets(sum uint64, b []byte) uint64 {
	for ; len(b) >= 4; b = b[4:] {
		sum += uint64(binary.BigEndian.Uint32(b))
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	return sum
}

func foldSum(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
