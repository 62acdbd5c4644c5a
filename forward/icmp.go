// SPDX-License-Identifier: Apache-2.0

package forward

// The ICMP errors that a tunnel router owes a source: Packet Too Big
// (RFC 1191 s.4, RFC 4443 s.3.2; RFC 9300 s.7), Time Exceeded, and Destination
// Unreachable. An answer is never about an ICMP error, a multicast or broadcast,
// a damaged header, or a fragment but the first (RFC 1812 s.4.3.2.7, RFC 4443 s.2.4). Limiting their
// rate is the caller's task.

import (
	"encoding/binary"
	"net/netip"
)

const (
	// RFC 1812 s.4.3.2.3 and RFC 4443 s.2.4 (c): so much of an error at most.
	maxICMPv4ErrorOctets = 576
	maxICMPv6ErrorOctets = 1280

	icmpHeaderOctets = 8
	icmpTTL          = 64

	icmpv4Unreachable  = 3
	icmpv4TimeExceeded = 11
	icmpv6Unreachable  = 1
	icmpv6TooBig       = 2
	icmpv6TimeExceeded = 3

	icmpv4FragmentationNeeded = 4
	icmpv4Redirect            = 5
	icmpv4SourceQuench        = 4
	icmpv4ParameterProblem    = 12
	icmpv6Redirect            = 137
)

// UnreachableCode says why a destination is not reached.
type UnreachableCode uint8

// The reasons of Destination Unreachable that a tunnel router has: no mapping or
// no route, and a policy.
const (
	UnreachableNoRoute UnreachableCode = iota
	UnreachableProhibited
)

// PacketTooBig appends the answer to a packet that does not fit: ICMPv4
// fragmentation needed or ICMPv6 Packet Too Big with that MTU, from source, which
// must be of the packet's family. False when nothing may be answered.
func PacketTooBig(dst []byte, source netip.Addr, packet []byte, mtu int) ([]byte, bool) {
	if isIPv6(packet) {
		return appendError(dst, source, packet, icmpError{kind: icmpv6TooBig, rest: uint32(max(mtu, 0))})
	}
	rest := uint32(min(max(mtu, 0), 0xffff))
	return appendError(dst, source, packet, icmpError{kind: icmpv4Unreachable, code: icmpv4FragmentationNeeded, rest: rest})
}

// TimeExceeded appends the answer to a packet whose TTL is at its end.
func TimeExceeded(dst []byte, source netip.Addr, packet []byte) ([]byte, bool) {
	if isIPv6(packet) {
		return appendError(dst, source, packet, icmpError{kind: icmpv6TimeExceeded})
	}
	return appendError(dst, source, packet, icmpError{kind: icmpv4TimeExceeded})
}

// UnreachableFor returns what the source of a packet is told that a tunnel router
// dropped for a reason: where a mapping says so (RFC 9301 s.5.4, ACT), or no locator of
// it can be sent to. False: it is told nothing.
func UnreachableFor(reason DropReason) (UnreachableCode, bool) {
	switch reason {
	case DropNoAction, DropActionDrop, DropNoLocator, DropNoRoute, DropOwnNextHop, DropRecursionDepth, DropMappingLoop:
		return UnreachableNoRoute, true
	case DropPolicyDenied, DropAuthenticationFailure:
		return UnreachableProhibited, true
	}
	return 0, false
}

// Unreachable appends the answer to a packet whose destination is not reached.
func Unreachable(dst []byte, source netip.Addr, packet []byte, code UnreachableCode) ([]byte, bool) {
	number := uint8(0) // network unreachable; no route to destination
	if isIPv6(packet) {
		if code == UnreachableProhibited {
			number = 1 // communication administratively prohibited
		}
		return appendError(dst, source, packet, icmpError{kind: icmpv6Unreachable, code: number})
	}
	if code == UnreachableProhibited {
		number = 13 // communication administratively prohibited
	}
	return appendError(dst, source, packet, icmpError{kind: icmpv4Unreachable, code: number})
}

func isIPv6(packet []byte) bool { return len(packet) > 0 && packet[0]>>4 == 6 }

type icmpError struct {
	kind, code uint8
	rest       uint32
}

func appendError(dst []byte, source netip.Addr, packet []byte, e icmpError) ([]byte, bool) {
	h, err := ParseHeader(packet)
	if err != nil || source.Is4() != (h.Family == 4) || !source.IsValid() || !mayAnswer(packet, &h) {
		return dst, false
	}
	return appendICMP(dst, source, &h, e, packet), true
}

// mayAnswer obeys RFC 1812 s.4.3.2.7 and RFC 4443 s.2.4 (e).
func mayAnswer(packet []byte, h *Header) bool {
	if !RoutableUnicast(h.Source) || !RoutableUnicast(h.Destination) || h.FragmentOctets > 0 {
		return false
	}
	if h.Family == 4 && Checksum(packet[:h.PayloadOffset]) != 0 {
		return false // who knows whose it is
	}
	return !isICMPError(packet, h)
}

// isICMPError also takes an ICMP message for an error whose type is cut off.
func isICMPError(packet []byte, h *Header) bool {
	if h.Protocol != protocolICMPv4 && h.Protocol != protocolICMPv6 {
		return false
	}
	if h.PayloadOffset >= h.Length {
		return true
	}
	kind := packet[h.PayloadOffset]
	if h.Protocol == protocolICMPv6 {
		return kind == icmpv6Redirect || isDeliveryError(h, kind)
	}
	return kind == icmpv4SourceQuench || kind == icmpv4Redirect || isDeliveryError(h, kind)
}

// isDeliveryError reports whether a packet of that header is an ICMP message of its family which tells a source
// that its packet did not arrive.
func isDeliveryError(h *Header, kind uint8) bool {
	if h.Family == 6 {
		return h.Protocol == protocolICMPv6 && kind < 128
	}
	return h.Protocol == protocolICMPv4 && (kind == icmpv4Unreachable || kind == icmpv4TimeExceeded || kind == icmpv4ParameterProblem)
}

// icmpTrafficClass is internetwork control, as RFC 1812 s.4.3.2.5 asks for errors.
const icmpTrafficClass = 0xC0

func appendICMP(dst []byte, source netip.Addr, h *Header, e icmpError, packet []byte) []byte {
	protocol, most := uint8(protocolICMPv4), maxICMPv4ErrorOctets-ipv4HeaderOctets
	if h.Family == 6 {
		protocol, most = protocolICMPv6, maxICMPv6ErrorOctets-ipv6HeaderOctets
	}
	octets := min(icmpHeaderOctets+h.Length, most)
	dst = appendIP(dst, ipFields{source: source, destination: h.Source, class: icmpTrafficClass, ttl: icmpTTL, protocol: protocol, payload: octets})
	start := len(dst)
	dst = append(dst, e.kind, e.code, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, e.rest)
	dst = append(dst, packet[:octets-icmpHeaderOctets]...)
	initial := uint64(0)
	if h.Family == 6 {
		initial = pseudoHeaderSum(source, h.Source, protocol, octets)
	}
	binary.BigEndian.PutUint16(dst[start+2:], ^fold(sum(dst[start:], initial)))
	return dst
}
