// SPDX-License-Identifier: Apache-2.0

package forward

// Outer packets in fragments, for paths that carry less than IPv6 asks of any link once the outer headers are counted in (RFC
// 8200 s.4.5 and s.5, RFC 2473 s.7.1), and those that the system reassembled (RFC 9300 s.5.2). RFC 9300 s.7 avoids fragments
// wherever a source can be told to send smaller packets.

import (
	"encoding/binary"
	"net/netip"
)

const fragmentHeaderOctets = 8

// FragmentOuter cuts an outer packet into fragments of mtu octets at most, in order, with that identification; it is changed.
// One that cannot be cut so small gives DropTooBig.
func FragmentOuter(packet []byte, mtu int, identification uint32) ([][]byte, DropReason) {
	h, err := ParseHeader(packet)
	switch {
	case err != nil:
		return nil, DropOuterMalformed
	case h.Family == 6:
		return fragmentIPv6(packet, &h, mtu, identification)
	}
	binary.BigEndian.PutUint16(packet[4:], uint16(identification))
	packet[6], packet[7] = 0, 0
	packet[10], packet[11] = 0, 0
	binary.BigEndian.PutUint16(packet[10:], Checksum(packet[:h.PayloadOffset]))
	return Fragment(nil, packet, mtu)
}

// fragmentIPv6 puts a Fragment header into each part (RFC 8200 s.4.5).
func fragmentIPv6(packet []byte, h *Header, mtu int, identification uint32) ([][]byte, DropReason) {
	room := (mtu - ipv6HeaderOctets - fragmentHeaderOctets) &^ 7
	if room <= 0 || h.PayloadOffset != ipv6HeaderOctets {
		return nil, DropTooBig
	}
	payload := packet[ipv6HeaderOctets:h.Length]
	var parts [][]byte
	for at := 0; at < len(payload); at += room {
		end := min(at+room, len(payload))
		part := make([]byte, 0, ipv6HeaderOctets+fragmentHeaderOctets+end-at)
		part = append(part, packet[:ipv6HeaderOctets]...)
		binary.BigEndian.PutUint16(part[4:], uint16(fragmentHeaderOctets+end-at))
		part[6] = protocolFragment
		offset := uint16(at)
		if end < len(payload) {
			offset |= 1
		}
		part = append(part, packet[6], 0)
		part = binary.BigEndian.AppendUint16(part, offset)
		part = binary.BigEndian.AppendUint32(part, identification)
		parts = append(parts, append(part, payload[at:end]...))
	}
	return parts, DropNone
}

// Reassembled is what the system says of an outer packet that it put together.
type Reassembled struct {
	Source, Destination netip.AddrPort // of one family
	TTL                 uint8          // of its first fragment
	Class               uint8          // DSCP and ECN, the latter of all fragments (RFC 3168 s.5.3)
}

// AppendReassembled appends the outer packet whose UDP payload is given, as if it had come in one piece. Its checksum is 0: it
// was verified before.
func AppendReassembled(dst []byte, r Reassembled, payload []byte) []byte {
	f := ipFields{source: r.Source.Addr(), destination: r.Destination.Addr(), class: r.Class, ttl: r.TTL, payload: len(payload)}
	return append(appendUDP(dst, f, r.Source.Port(), r.Destination.Port()), payload...)
}
