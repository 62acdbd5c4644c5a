// SPDX-License-Identifier: Apache-2.0

package offload

// The virtio header that stands before each packet of a TUN (struct virtio_net_hdr, of the host's byte order): what of
// checksum and segmentation is left to do.

import "encoding/binary"

// VnetOctets is how long the header is.
const VnetOctets = 10

// The flags and types of GSO packets.
const (
	vnetNeedsChecksum = 1

	gsoNone  = 0
	gsoTCPv4 = 1
	gsoTCPv6 = 4
	gsoUDP   = 5
	gsoECN   = 0x80
)

// Vnet is the virtio header of a packet.
type Vnet struct {
	flags, kind    uint8
	headerOctets   uint16
	segmentOctets  uint16
	checksumStart  uint16
	checksumOffset uint16
}

// ParseVnet reads the header at the start of a frame, which has VnetOctets at least.
func ParseVnet(frame []byte) Vnet {
	return Vnet{
		flags: frame[0], kind: frame[1],
		headerOctets:   binary.NativeEndian.Uint16(frame[2:]),
		segmentOctets:  binary.NativeEndian.Uint16(frame[4:]),
		checksumStart:  binary.NativeEndian.Uint16(frame[6:]),
		checksumOffset: binary.NativeEndian.Uint16(frame[8:]),
	}
}

// put writes the header.
func (v Vnet) put(frame []byte) {
	frame[0], frame[1] = v.flags, v.kind
	binary.NativeEndian.PutUint16(frame[2:], v.headerOctets)
	binary.NativeEndian.PutUint16(frame[4:], v.segmentOctets)
	binary.NativeEndian.PutUint16(frame[6:], v.checksumStart)
	binary.NativeEndian.PutUint16(frame[8:], v.checksumOffset)
}

// IsGSO reports whether the packet has segments to be cut into.
func (v Vnet) IsGSO() bool { return v.kind != gsoNone }

// SegmentOctets is the payload of each segment of a GSO packet.
func (v Vnet) SegmentOctets() int { return int(v.segmentOctets) }

// Finish writes the checksum that the sender of a packet left open. It reports false, and changes nothing, when the
// header contradicts the packet.
func (v Vnet) Finish(packet []byte) bool {
	if v.flags&vnetNeedsChecksum == 0 {
		return true
	}
	start, at := int(v.checksumStart), int(v.checksumStart)+int(v.checksumOffset)
	if at+2 > len(packet) {
		return false
	}
	// The field holds the sum of the pseudo-header.
	putChecksum(packet[at:], sum(packet[start:], 0))
	return true
}
