// SPDX-License-Identifier: Apache-2.0

package mapsock

// Octets → message: the header and the addresses. Parse takes any octets and gives a
// message or an error that names field and offset; it never panics and allocates in
// proportion to what it was given.

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"loci/lisp"
)

// Frame finds the first message of a datagram by its length. When that is not
// possible the length is 0, and nothing behind it can be found either. A message of
// another version has a length, too, and an error.
func Frame(b []byte) (length int, err *FormatError) {
	if len(b) < offsetType {
		return 0, &FormatError{"header", len(b), fmt.Sprintf("%d octets are not a message", len(b)), unix.EBADMSG}
	}
	length = int(order.Uint16(b[offsetLength:]))
	if length < HeaderSize || length > len(b) || length%Alignment != 0 {
		err = &FormatError{"length", offsetLength,
			fmt.Sprintf("%d with %d octets there: want a multiple of %d from %d on", length, len(b), Alignment, HeaderSize), unix.EBADMSG}
		length = 0
	}
	if version := b[offsetVersion]; version != Version {
		err = &FormatError{"version", offsetVersion, fmt.Sprintf("%d, want %d", version, Version), unix.EPROTONOSUPPORT}
	}
	return length, err
}

// Parse reads the first message of b and returns its length, which is 0 when the
// next message cannot be found. After an error m has the header's type, flags, PID
// and seq, as far as they were there. Unknown attributes that are not mandatory are
// left out. The error is a *FormatError.
func (m *Message) Parse(b []byte) (length int, err error) {
	m.Reset(0)
	length, problem := Frame(b)
	if problem != nil {
		m.ParseHeader(b)
		return length, problem
	}
	if problem = parseWhole(m, b[:length]); problem != nil {
		return length, problem
	}
	return length, nil
}

// TypeOf is the type of a message that Frame has found.
func TypeOf(message []byte) Type { return Type(message[offsetType]) }

// LengthOf is the length in octets of the first of messages that were found or written.
func LengthOf(messages []byte) int { return int(order.Uint16(messages)) }

// ParseHeader takes what an answer to a broken message needs.
func (m *Message) ParseHeader(b []byte) {
	if len(b) > offsetType {
		m.Type = Type(b[offsetType])
	}
	if len(b) >= offsetErrno {
		m.Flags = Flags(order.Uint32(b[offsetFlags:]))
		m.PID, m.Seq = int32(order.Uint32(b[offsetPID:])), order.Uint32(b[offsetSeq:])
	}
}

func parseWhole(m *Message, b []byte) *FormatError {
	m.ParseHeader(b)
	if unknown := m.Flags &^ knownFlags; unknown != 0 {
		return malformed("flags", offsetFlags, "unknown bits %#x", uint32(unknown))
	}
	m.MapVersion = order.Uint16(b[offsetMapVersion:])
	if m.MapVersion > 0xFFF || m.MapVersion != 0 && m.Flags&FlagVersioning == 0 {
		return malformed("map-version", offsetMapVersion, "%#x: it has 12 bits and needs the flag VERSIONING", m.MapVersion)
	}
	errno := order.Uint32(b[offsetErrno:])
	if errno > 4095 {
		return malformed("errno", offsetErrno, "%d", errno)
	}
	m.Errno = unix.Errno(errno)
	if reserved := order.Uint16(b[offsetReserved:]); reserved != 0 {
		return malformed("reserved", offsetReserved, "%#x, want 0", reserved)
	}
	at, problem := parseAddresses(m, b)
	if problem != nil {
		return problem
	}
	if attributes := int(order.Uint16(b[offsetAttributes:])); attributes != at {
		return malformed("attributes", offsetAttributes, "begin at %d, but the addresses end at %d", attributes, at)
	}
	return parseAttributes(m, b, at)
}

// parseAddresses reads EID, mask and locators and returns where they end.
func parseAddresses(m *Message, b []byte) (at int, problem *FormatError) {
	bits := order.Uint16(b[offsetAddresses:])
	count := order.Uint32(b[offsetLocatorCount:])
	switch {
	case bits&^(addressEID|addressEIDMask|addressRLOC) != 0:
		return 0, malformed("addrs", offsetAddresses, "unknown bits in %#x", bits)
	case bits&(addressEID|addressEIDMask) == addressEIDMask:
		return 0, malformed("addrs", offsetAddresses, "a mask without EID")
	case count > MaxLocators:
		return 0, malformed("rloc_count", offsetLocatorCount, "%d locators, at most %d are allowed", count, MaxLocators)
	case (bits&addressRLOC != 0) != (count > 0):
		return 0, malformed("rloc_count", offsetLocatorCount, "%d does not go with addrs %#x", count, bits)
	}
	at = HeaderSize
	if bits&addressEID != 0 {
		if at, problem = parseEID(m, b, bits&addressEIDMask != 0); problem != nil {
			return 0, problem
		}
	}
	for range count {
		if at, problem = parseLocator(m, b, at); problem != nil {
			return 0, problem
		}
	}
	return at, nil
}

// parseSockaddr reads an address. What has no meaning here must be 0, so that it can
// get one.
func parseSockaddr(b []byte, at int, field string) (a netip.Addr, end int, problem *FormatError) {
	if len(b) < at+2 {
		return a, 0, malformed(field, at, "the message ends")
	}
	size := 0
	switch family := order.Uint16(b[at:]); family {
	case familyIPv4:
		size = sockaddrIPv4Size
	case familyIPv6:
		size = sockaddrIPv6Size
	default:
		problem = malformed(field, at, "address family %d, want %d or %d", family, familyIPv4, familyIPv6)
		problem.Errno = unix.EAFNOSUPPORT
		return a, 0, problem
	}
	if len(b) < at+size {
		return a, 0, malformed(field, at, "%d octets of %d", len(b)-at, size)
	}
	s := b[at : at+size]
	rest, tail := s[2:4], s[8:]
	if size == sockaddrIPv4Size {
		a = netip.AddrFrom4([4]byte(s[4:8]))
	} else {
		a = netip.AddrFrom16([16]byte(s[8:24]))
		rest, tail = s[2:8], s[24:]
	}
	if !zero(rest) || !zero(tail) {
		return a, 0, malformed(field, at, "port, flow, scope and padding of %s are not 0", a)
	}
	if a.Is4In6() {
		return a, 0, malformed(field, at, "%s: IPv4 addresses have their own family", a)
	}
	return a, at + size, nil
}

func zero(b []byte) bool {
	for _, octet := range b {
		if octet != 0 {
			return false
		}
	}
	return true
}

func parseEID(m *Message, b []byte, masked bool) (at int, problem *FormatError) {
	eid, at, problem := parseSockaddr(b, HeaderSize, "EID")
	if problem != nil {
		return 0, problem
	}
	m.HasEID, m.HasMask = true, masked
	m.Prefix = lisp.HostPrefix(0, lisp.EIDFromAddr(eid))
	if !masked {
		return at, nil
	}
	mask, end, problem := parseSockaddr(b, at, "mask")
	if problem != nil {
		return 0, problem
	}
	bits, ok := maskLength(mask)
	if !ok || mask.BitLen() != eid.BitLen() {
		return 0, malformed("mask", at, "%s is not a mask for %s", mask, eid)
	}
	m.Prefix, _ = lisp.PrefixFrom(0, m.Prefix.EID(), bits) // bits fit by the line above
	if m.Prefix.EID().Addr() != eid {
		return 0, malformed("EID", HeaderSize, "%s has host bits set: did you mean %s?", eid, m.Prefix)
	}
	return end, nil
}

// maskLength is the length of a mask; false when it has holes.
func maskLength(mask netip.Addr) (bits int, ok bool) {
	octets := mask.AsSlice()
	for bits < 8*len(octets) && octets[bits/8]&(0x80>>(bits%8)) != 0 {
		bits++
	}
	for i := bits; i < 8*len(octets); i++ {
		if octets[i/8]&(0x80>>(i%8)) != 0 {
			return 0, false
		}
	}
	return bits, true
}
