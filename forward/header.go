// SPDX-License-Identifier: Apache-2.0

package forward

// What forwarding needs to know of an IPv4 (RFC 791) or IPv6 (RFC 8200) packet.
// The walk over IPv6 extension headers is that of bpf/parse.h, because the flow
// hash depends on it. This file never changes a packet.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// MaxExtensionHeaders is how many IPv6 extension headers are walked over.
const MaxExtensionHeaders = 6

// Protocol numbers (IANA) that are treated on their own.
const (
	protocolHopByHop    = 0
	protocolICMPv4      = 1
	protocolTCP         = 6
	protocolUDP         = 17
	protocolRouting     = 43
	protocolFragment    = 44
	protocolICMPv6      = 58
	protocolDestination = 60
	protocolSCTP        = 132
)

const (
	ipv4HeaderOctets = 20
	ipv6HeaderOctets = 40
	udpHeaderOctets  = 8

	ipv4DontFragment  = 0x4000
	ipv4MoreFragments = 0x2000
	ipv4OffsetMask    = 0x1fff
)

// Header is what the headers of an IP packet say.
type Header struct {
	Family         uint8  // 4 or 6
	TrafficClass   uint8  // DSCP and ECN
	TTL            uint8  // or Hop Limit
	Protocol       uint8  // where the walk over extension headers ended
	DontFragment   bool   // IPv4 alone: routers never fragment IPv6
	Fragment       bool   // MF or an offset, or an IPv6 Fragment header
	FragmentOctets int    // offset of the fragment in octets
	Length         int    // of the packet in octets, as its header says
	PayloadOffset  int    // where what Protocol names begins; may lie beyond the packet
	Ports          uint32 // source and destination port; 0 where the flow hash shall not see any
	Source         netip.Addr
	Destination    netip.Addr
}

// MalformedError says what of a packet contradicts itself and at which octet.
type MalformedError struct {
	Field  string
	Offset int
}

// Error names field and offset.
func (e *MalformedError) Error() string {
	return fmt.Sprintf("IP packet: %s at octet %d contradicts the packet", e.Field, e.Offset)
}

// ParseHeader reads the IP header at the start of packet, which may be followed
// by padding. The error is a *MalformedError. Checksums are not verified: that is
// for the end system, and a router that only updates them keeps an error visible.
func ParseHeader(packet []byte) (Header, error) {
	h, err := readHeader(packet)
	if err != nil {
		return Header{}, err
	}
	if err := h.checkLengths(len(packet)); err != nil {
		return Header{}, err
	}
	return h, nil
}

// readHeader reads a header that is whole, whatever its lengths say.
func readHeader(packet []byte) (Header, error) {
	if len(packet) == 0 {
		return Header{}, &MalformedError{Field: "version"}
	}
	var h Header
	switch version := packet[0] >> 4; {
	case version == 4 && len(packet) >= ipv4HeaderOctets:
		h = readIPv4(packet)
	case version == 6 && len(packet) >= ipv6HeaderOctets:
		h = readIPv6(packet)
	case version == 4 || version == 6:
		return Header{}, &MalformedError{Field: "header", Offset: len(packet)}
	default:
		return Header{}, &MalformedError{Field: "version"}
	}
	if h.hasPorts() && !h.Fragment && h.PayloadOffset+4 <= min(h.Length, len(packet)) {
		h.Ports = binary.BigEndian.Uint32(packet[h.PayloadOffset:])
	}
	return h, nil
}

// checkLengths holds the lengths of a header against each other and the packet.
func (h *Header) checkLengths(octets int) error {
	switch {
	case h.Family == 6 && h.Length > octets:
		return &MalformedError{Field: "payload length", Offset: 4}
	case h.Family == 6:
		return nil
	case h.PayloadOffset < ipv4HeaderOctets:
		return &MalformedError{Field: "header length"}
	case h.Length < h.PayloadOffset || h.Length > octets:
		return &MalformedError{Field: "total length", Offset: 2}
	}
	return nil
}

func readIPv4(packet []byte) Header {
	fragment := binary.BigEndian.Uint16(packet[6:])
	return Header{
		Family:         4,
		TrafficClass:   packet[1],
		TTL:            packet[8],
		Protocol:       packet[9],
		DontFragment:   fragment&ipv4DontFragment != 0,
		Fragment:       fragment&(ipv4MoreFragments|ipv4OffsetMask) != 0,
		FragmentOctets: int(fragment&ipv4OffsetMask) * 8,
		Length:         int(binary.BigEndian.Uint16(packet[2:])),
		PayloadOffset:  int(packet[0]&0xf) * 4,
		Source:         netip.AddrFrom4([4]byte(packet[12:16])),
		Destination:    netip.AddrFrom4([4]byte(packet[16:20])),
	}
}

func readIPv6(packet []byte) Header {
	h := Header{
		Family:        6,
		TrafficClass:  packet[0]<<4 | packet[1]>>4,
		Length:        ipv6HeaderOctets + int(binary.BigEndian.Uint16(packet[4:])),
		Protocol:      packet[6],
		TTL:           packet[7],
		Source:        netip.AddrFrom16([16]byte(packet[8:24])),
		Destination:   netip.AddrFrom16([16]byte(packet[24:40])),
		PayloadOffset: ipv6HeaderOctets,
	}
	h.walkExtensions(packet[:min(h.Length, len(packet))]) // padding is no header
	return h
}

// walkExtensions stops at the first header that is no extension header, is cut
// off, or is one more than the limit; a Fragment header ends it behind itself.
func (h *Header) walkExtensions(packet []byte) {
	for range MaxExtensionHeaders {
		if !isExtension(h.Protocol) || h.PayloadOffset+2 > len(packet) {
			return
		}
		head := packet[h.PayloadOffset:]
		if h.Protocol == protocolFragment {
			h.readFragment(head)
			return
		}
		h.Protocol = head[0]
		h.PayloadOffset += (int(head[1]) + 1) * 8
	}
}

func isExtension(protocol uint8) bool {
	switch protocol {
	case protocolHopByHop, protocolRouting, protocolDestination, protocolFragment:
		return true
	}
	return false
}

func (h *Header) readFragment(head []byte) {
	h.Fragment = true
	h.Protocol = head[0]
	h.PayloadOffset += 8
	if len(head) >= 4 {
		h.FragmentOctets = int(binary.BigEndian.Uint16(head[2:]) &^ 7)
	}
}

func (h *Header) hasPorts() bool {
	return h.Protocol == protocolTCP || h.Protocol == protocolUDP || h.Protocol == protocolSCTP
}

// RoutableUnicast reports whether LISP may carry packets to that address at all:
// unicast, and of more than local scope.
func RoutableUnicast(a netip.Addr) bool {
	if a.Is4() {
		octets := a.As4()
		return octets[0] != 0 && octets[0] < 224 && !a.IsLoopback() && !a.IsLinkLocalUnicast()
	}
	// netip judges an IPv4-mapped address by the IPv4 address within.
	return a.Is4In6() || a.IsValid() && !a.IsMulticast() && !a.IsLinkLocalUnicast() && !a.IsLoopback() && !a.IsUnspecified()
}

const quotedOctets = 8

// Quoted is the beginning of a packet that ICMP would quote: its IP headers and the
// eight octets behind them (RFC 792).
func (h *Header) Quoted(packet []byte) []byte {
	return packet[:min(h.PayloadOffset+quotedOctets, h.Length, len(packet))]
}
