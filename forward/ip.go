// SPDX-License-Identifier: Apache-2.0

package forward

// Writing IPv4 (RFC 791) and IPv6 (RFC 8200) headers without options. Callers
// answer for lengths that fit their fields.

import (
	"encoding/binary"
	"net/netip"
)

// ipFields are what a header of either family says.
type ipFields struct {
	source, destination  netip.Addr
	class, ttl, protocol uint8
	payload              int    // octets after the header
	dontFragment         bool   // IPv4
	label                uint32 // IPv6: 20 bits
}

func appendIP(dst []byte, f ipFields) []byte {
	if f.destination.Is4() {
		return appendIPv4(dst, f)
	}
	return appendIPv6(dst, f)
}

func appendIPv4(dst []byte, f ipFields) []byte {
	start := len(dst)
	flags := uint16(0)
	if f.dontFragment {
		flags = ipv4DontFragment
	}
	dst = append(dst, 0x45, f.class)
	dst = binary.BigEndian.AppendUint16(dst, uint16(ipv4HeaderOctets+f.payload))
	dst = append(dst, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = append(dst, f.ttl, f.protocol, 0, 0)
	from, to := f.source.As4(), f.destination.As4()
	dst = append(dst, from[:]...)
	dst = append(dst, to[:]...)
	binary.BigEndian.PutUint16(dst[start+10:], Checksum(dst[start:start+ipv4HeaderOctets]))
	return dst
}

func appendIPv6(dst []byte, f ipFields) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 6<<28|uint32(f.class)<<20|f.label&0xfffff)
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.payload))
	dst = append(dst, f.protocol, f.ttl)
	from, to := f.source.As16(), f.destination.As16()
	dst = append(dst, from[:]...)
	return append(dst, to[:]...)
}

// appendUDP appends the headers of a UDP datagram whose UDP checksum is 0; f.payload counts its payload alone.
func appendUDP(dst []byte, f ipFields, sourcePort, destinationPort uint16) []byte {
	f.protocol = protocolUDP
	f.payload += udpHeaderOctets
	dst = appendIP(dst, f)
	dst = binary.BigEndian.AppendUint16(dst, sourcePort)
	dst = binary.BigEndian.AppendUint16(dst, destinationPort)
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.payload))
	return append(dst, 0, 0)
}
