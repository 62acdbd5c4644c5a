// SPDX-License-Identifier: Apache-2.0

package forward

// Whether a packet fits its path, and cutting those that may be cut
// (RFC 9300 s.7.1: the inner packet, in equal parts, never the outer one;
// RFC 791 s.3.2). Nothing here sends or answers.

import (
	"encoding/binary"

	"loci/lisp"
)

// Fit says what becomes of a packet that shall be encapsulated.
type Fit uint8

// The ways to fit.
const (
	FitWhole     Fit = iota // as it is
	FitSegments             // an IPv4 GSO packet of TCP without DF: fits with smaller segments
	FitFragments            // IPv4 without DF: Fragment
	FitNot                  // Packet Too Big
)

// LargestInner is the largest packet that an RLOC can be sent when its path
// carries pathMTU octets.
func LargestInner(rloc lisp.RLOC, pathMTU int) int { return max(0, pathMTU-Overhead(rloc)) }

// LongestOnWire is the length of the packet, or of the longest segment of a
// GSO packet: segmentOctets is the payload of each (gso_size), 0 for an ordinary
// packet.
func LongestOnWire(packet []byte, h *Header, segmentOctets int) int {
	if segmentOctets == 0 {
		return h.Length
	}
	return h.PayloadOffset + transportHeaderOctets(packet, h) + segmentOctets
}

func transportHeaderOctets(packet []byte, h *Header) int {
	if h.Protocol == protocolTCP && h.PayloadOffset+13 <= len(packet) {
		return int(packet[h.PayloadOffset+12]>>4) * 4
	}
	return udpHeaderOctets
}

// CheckSize says how a packet fits a path whose largest inner packet is given,
// and with FitSegments the payload that its segments may have.
func CheckSize(packet []byte, h *Header, segmentOctets, largest int) (fit Fit, newSegmentOctets int) {
	excess := LongestOnWire(packet, h, segmentOctets) - largest
	switch {
	case excess <= 0:
		return FitWhole, segmentOctets
	case h.Family == 6 || h.DontFragment:
		return FitNot, 0
	case segmentOctets == 0:
		return FitFragments, 0
	case h.Protocol == protocolTCP && segmentOctets > excess:
		return FitSegments, segmentOctets - excess
	}
	// The datagrams of a UDP GSO packet must stay what they are.
	return FitNot, 0
}

// maxFragmentHalvings bounds Fragment: at most 128 parts of one packet.
const maxFragmentHalvings = 7

// Fragment cuts an IPv4 packet without DF in two equal parts, and those again
// until each is at most largest octets long, and appends them to dst, in order.
// Parts but the last carry multiples of 8 octets. It allocates each part. A packet
// that cannot be cut so small gives DropTooBig.
func Fragment(dst [][]byte, packet []byte, largest int) ([][]byte, DropReason) {
	h, err := ParseHeader(packet)
	if err != nil || h.Family != 4 {
		return dst, DropInnerMalformed
	}
	if h.DontFragment {
		return dst, DropTooBig
	}
	if h.FragmentOctets+h.Length-h.PayloadOffset > maxIPv4Octets {
		return dst, DropInnerMalformed // parts of it would begin where no offset tells
	}
	parts := [][]byte{packet[:h.Length]}
	for halvings := 0; longest(parts) > largest; halvings++ {
		if halvings == maxFragmentHalvings {
			return dst, DropTooBig
		}
		parts = halveAll(parts, largest)
	}
	return append(dst, parts...), DropNone
}

func longest(parts [][]byte) int {
	octets := 0
	for _, p := range parts {
		octets = max(octets, len(p))
	}
	return octets
}

// halveAll halves the parts that are too long; one that cannot be halved stays.
func halveAll(parts [][]byte, largest int) [][]byte {
	halved := make([][]byte, 0, 2*len(parts))
	for _, p := range parts {
		header := int(p[0]&0xf) * 4
		first := ((len(p)-header)/2 + 7) &^ 7
		if len(p) <= largest || first >= len(p)-header {
			halved = append(halved, p)
			continue
		}
		halved = append(halved, part(p, 0, first), part(p, first, len(p)-header))
	}
	return halved
}

// part makes a fragment of the payload octets from start to end.
func part(packet []byte, start, end int) []byte {
	header := int(packet[0]&0xf) * 4
	made := make([]byte, 0, header+end-start)
	made = append(made, packet[:header]...)
	made = append(made, packet[header+start:header+end]...)
	fragment := binary.BigEndian.Uint16(made[6:])
	if header+end < len(packet) {
		fragment |= ipv4MoreFragments
	}
	fragment += uint16(start / 8)
	if start > 0 {
		clearUncopiedOptions(made[ipv4HeaderOctets:header])
	}
	binary.BigEndian.PutUint16(made[2:], uint16(len(made)))
	binary.BigEndian.PutUint16(made[6:], fragment)
	made[10], made[11] = 0, 0
	binary.BigEndian.PutUint16(made[10:], Checksum(made[:header]))
	return made
}

// The options of RFC 791 s.3.1 that are one octet long, and the bit that says
// that an option stands in every fragment.
const (
	ipv4OptionEnd    = 0
	ipv4OptionNop    = 1
	ipv4OptionCopied = 0x80
)

// clearUncopiedOptions turns options that only the first fragment carries into
// no-operations; the header keeps its length.
func clearUncopiedOptions(options []byte) {
	for len(options) > 0 {
		kind, octets := options[0], 1
		if kind == ipv4OptionEnd {
			return
		}
		if kind != ipv4OptionNop {
			if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
				return
			}
			octets = int(options[1])
		}
		if kind&ipv4OptionCopied == 0 {
			for i := range octets {
				options[i] = ipv4OptionNop
			}
		}
		options = options[octets:]
	}
}
