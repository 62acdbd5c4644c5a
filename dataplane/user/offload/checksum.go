// SPDX-License-Identifier: Apache-2.0

package offload

// The Internet checksum (RFC 1071) of long packets. Sums are in the host's byte order, in which they come out the same
// (RFC 1071 s.2 (B)); so they are stored by putChecksum alone.

import (
	"encoding/binary"
	"math/bits"
)

// sum adds octets to a sum, which is not folded.
func sum(b []byte, initial uint64) uint64 {
	total, carry := initial, uint64(0)
	for len(b) >= 32 {
		total, carry = bits.Add64(total, binary.NativeEndian.Uint64(b), carry)
		total, carry = bits.Add64(total, binary.NativeEndian.Uint64(b[8:]), carry)
		total, carry = bits.Add64(total, binary.NativeEndian.Uint64(b[16:]), carry)
		total, carry = bits.Add64(total, binary.NativeEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		total, carry = bits.Add64(total, binary.NativeEndian.Uint64(b), carry)
		b = b[8:]
	}
	if len(b) > 0 {
		var rest [8]byte
		copy(rest[:], b)
		total, carry = bits.Add64(total, binary.NativeEndian.Uint64(rest[:]), carry)
	}
	total, carry = bits.Add64(total, 0, carry)
	return total + carry
}

// word is a number of 16 bits as it stands in a packet.
func word(n int) uint64 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], uint16(n))
	return uint64(binary.NativeEndian.Uint16(b[:]))
}

// fold makes 16 bits of a sum.
func fold(s uint64) uint16 {
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s>>16 + s&0xffff)
}

// putChecksum stores the checksum that belongs to a sum. 0 stands for none in UDP, and is the same as 0xFFFF elsewhere.
func putChecksum(at []byte, s uint64) {
	checksum := ^fold(s)
	if checksum == 0 {
		checksum = 0xffff
	}
	binary.NativeEndian.PutUint16(at, checksum)
}

// pseudoHeader is the sum of the pseudo-header of a packet whose transport header and payload have so many octets.
func pseudoHeader(packet []byte, protocol uint8, octets int) uint64 {
	s := word(octets) + word(int(protocol))
	if packet[0]>>4 == 4 {
		return sum(packet[12:20], s)
	}
	return sum(packet[8:40], s)
}
