// SPDX-License-Identifier: Apache-2.0

package forward

// The flow hash and what follows from it: the outer UDP source port
// (RFC 9300 s.5.3), the bucket that chooses the locator (RFC 9300 s.12), the
// outer IPv6 flow label (RFC 6438). The hash is defined in bpf/abi.h; the programs
// compute the same. This file never looks at a mapping.

import (
	"encoding/binary"
	"net/netip"
)

// FlowHash hashes the 5-tuple of a packet; addresses and protocol alone when it
// is no TCP, UDP or SCTP or is a fragment.
func FlowHash(h *Header) uint32 {
	hash := hashAddress(0x4C495350, h.Source)
	hash = hashAddress(hash, h.Destination)
	hash = hashStep(hash, h.Ports)
	hash = hashStep(hash, uint32(h.Protocol))
	hash ^= hash >> 16
	hash *= 0x85EBCA6B
	hash ^= hash >> 13
	hash *= 0xC2B2AE35
	return hash ^ hash>>16
}

func hashStep(hash, word uint32) uint32 {
	hash ^= word
	hash *= 0x9E3779B1
	return hash ^ hash>>15
}

func hashAddress(hash uint32, a netip.Addr) uint32 {
	if a.Is4() {
		octets := a.As4()
		return hashStep(hash, binary.BigEndian.Uint32(octets[:]))
	}
	octets := a.As16()
	for i := 0; i < len(octets); i += 4 {
		hash = hashStep(hash, binary.BigEndian.Uint32(octets[i:]))
	}
	return hash
}

// SourcePort is the outer UDP source port of a flow: one of the dynamic ports,
// so that routers of the core spread flows over their paths.
func SourcePort(hash uint32) uint16 { return 0xC000 | uint16(hash&0x3FFF) }

// BucketOf is the flow's index into a bucket vector, made of bits that the
// source port does not use.
func BucketOf(hash uint32) int { return int(hash >> 14 & (BucketCount - 1)) }

// FlowLabel is the outer IPv6 flow label, 20 bits.
func FlowLabel(hash uint32) uint32 { return hash >> 12 }
