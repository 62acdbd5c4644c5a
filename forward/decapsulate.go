// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 2: what is inside a LISP packet (RFC 9300 s.5.1, s.5.3; RFC 6040 s.4.2; RFC 9305 s.3). Headers are read and
// judged here; apply.go takes them off. The UDP checksum is not verified, which RFC 9300 s.5.3 allows. Nothing here
// looks at a table or changes a packet.

import (
	"encoding/binary"
	"net/netip"

	"loci/lisp"
	"loci/wire"
)

// The flags of the LISP header that wire.DataHeader does not show when others
// make them void.
const (
	lispFlagNonce      = 0x80
	lispFlagMapVersion = 0x10
)

// Encapsulated is a LISP packet, taken apart.
type Encapsulated struct {
	Outer    Header
	LISP     wire.DataHeader
	Instance lisp.InstanceID // 0 when the I bit is clear
	Inner    []byte          // the inner packet without what follows it, or the control message: part of the packet read
	Header   Header          // of Inner; zero of a control message, which may have any form
	Notes    Notes
	Number   uint8 // of the path that the packet is on, in place of an Instance-ID of 0; 0: it has none

	ttl, class uint8 // that Inner leaves the tunnel with
}

// decapsulate is ParseEncapsulated for a packet that is to be forwarded.
func decapsulate(packet []byte) (Encapsulated, DropReason) {
	e, reason := ParseEncapsulated(packet)
	if reason == DropNone && !e.isControl() && !RoutableUnicast(e.Header.Source) {
		reason = DropInnerMalformed // RFC 1812 s.5.3.7, RFC 4291 s.2.5.2 to 2.5.6, s.2.7: no router forwards them
	}
	return e, reason
}

// ParseEncapsulated reads a packet that is UDP to the LISP data port, and names
// why it cannot be decapsulated.
func ParseEncapsulated(packet []byte) (Encapsulated, DropReason) {
	var e Encapsulated
	var err error
	if e.Outer, err = readHeader(packet); err != nil {
		return e, DropOuterMalformed
	}
	payload, reason := e.Outer.udpPayload(packet)
	if reason != DropNone {
		return e, reason
	}
	vxlan := binary.BigEndian.Uint16(packet[e.Outer.PayloadOffset+2:]) == VXLANGPEPort
	if reason := e.readLISP(payload, vxlan); reason != DropNone {
		return e, reason
	}
	inner := payload[wire.DataHeaderOctets:]
	if e.isControl() {
		e.Inner = inner
		return e, DropNone
	}
	if e.Header, err = ParseHeader(inner); err != nil || !e.isNextProtocol() {
		return e, DropInnerMalformed
	}
	e.Inner = inner[:e.Header.Length:e.Header.Length]
	return e, DropNone
}

// isControl reports whether a control message is inside, by the Instance-ID that is kept for those.
func (e *Encapsulated) isControl() bool { return e.Instance == lisp.ControlInstanceID }

// ControlMessage is what a payload at the data port has behind its LISP header, where that has the Instance-ID of
// control messages.
func ControlMessage(payload []byte) (message []byte, is bool) {
	header, rest, err := wire.ParseDataHeader(payload)
	return rest, err == nil && header.KeyID == 0 && header.Instance && header.InstanceID == lisp.ControlInstanceID
}

// OuterEnds are the addresses and ports of a packet that Inbound took for LISP's.
func OuterEnds(packet []byte) (source, destination netip.AddrPort) {
	h, err := readHeader(packet)
	if err != nil || h.PayloadOffset+4 > len(packet) {
		return source, destination
	}
	ports := packet[h.PayloadOffset:]
	source = netip.AddrPortFrom(h.Source, binary.BigEndian.Uint16(ports))
	return source, netip.AddrPortFrom(h.Destination, binary.BigEndian.Uint16(ports[2:]))
}

// udpPayload holds the lengths of IP and UDP against each other and the packet.
func (h *Header) udpPayload(packet []byte) ([]byte, DropReason) {
	const headers = udpHeaderOctets + wire.DataHeaderOctets
	if h.PayloadOffset+headers > len(packet) {
		return nil, DropLISPHeaderTruncated
	}
	if h.checkLengths(len(packet)) != nil {
		return nil, DropOuterMalformed
	}
	octets := int(binary.BigEndian.Uint16(packet[h.PayloadOffset+4:]))
	switch {
	case octets < headers:
		return nil, DropLISPHeaderTruncated
	case h.PayloadOffset+octets > h.Length:
		return nil, DropOuterMalformed
	}
	return packet[h.PayloadOffset+udpHeaderOctets : h.PayloadOffset+octets], DropNone
}

// The flags of VXLAN-GPE that are not LISP-GPE's.
const (
	vxlanGPEInstance = 0x08
	vxlanGPEProtocol = 0x04
	vxlanGPEVersion  = 0x30
	vxlanGPEOAM      = 0x01
)

// isVXLANGPE reports whether the flags say version 0, a VNI and a next protocol.
func isVXLANGPE(flags uint8) bool {
	return flags&(vxlanGPEVersion|vxlanGPEOAM) == 0 && flags&vxlanGPEInstance != 0 && flags&vxlanGPEProtocol != 0
}

// isNextProtocol reports whether the inner packet is what the header says.
func (e *Encapsulated) isNextProtocol() bool {
	return !e.LISP.NextProtocol || (e.LISP.Protocol == nextProtocolIPv6) == (e.Header.Family == 6)
}

// readLISP reads the LISP header; payload holds all of it.
func (e *Encapsulated) readLISP(payload []byte, vxlan bool) DropReason {
	header, _, err := wire.ParseDataHeader(payload)
	switch {
	case err != nil:
		return DropLISPHeaderTruncated
	case vxlan:
		if !isVXLANGPE(payload[0]) {
			return DropReservedBit
		}
		header.LocatorStatusBits, header.StatusBits = false, 0
	case header.KeyID != 0 && header.NextProtocol:
		return DropReservedBit
	case header.KeyID != 0:
		return DropKeyID
	}
	if header.NextProtocol && header.Protocol != nextProtocolIPv4 && header.Protocol != nextProtocolIPv6 {
		return DropReservedBit
	}
	// RFC 9300 s.5.1: they exclude each other; a receiver takes the field for a nonce.
	const both = lispFlagNonce | lispFlagMapVersion
	if payload[0]&both == both && !header.NextProtocol {
		e.Notes |= NoteNonceAndVersion
	}
	e.LISP = header
	if header.Instance {
		e.Instance = header.InstanceID
	}
	return DropNone
}

// mergeMarks finds the TTL, DSCP and ECN that the inner packet leaves the tunnel with, or that RFC 6040 drops it. RFC
// 9300 s.5.3: the smaller TTL.
func (e *Encapsulated) mergeMarks(m Marking) DropReason {
	class, notes, ok := m.Inner(e.Header.TrafficClass, e.Outer.TrafficClass)
	e.Notes |= notes
	if !ok {
		return DropECN
	}
	e.ttl, e.class = min(e.Header.TTL, e.Outer.TTL), class
	return DropNone
}
