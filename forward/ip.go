// SPDX-License-Identifier: Apache-2.0

package forward

// Writing IPv4 (RFC 791) and IPv6 (RFC 8200) headers without options. Callers
// answer for lengths that fit their fields.

import (
	"encoding/binary"
	"net/netip"
)

type ipv4Fields struct {
	class, ttl, protocol uint8
	payload              int // octets after the header
	dontFragment         bool
}

func appendIPv4(dst []byte, f ipv4Fields, source, destination netip.Addr) []byte {
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
	from, to := source.As4(), destination.As4()
	dst = append(dst, from[:]...)
	dst = append(dst, to[:]...)
	binary.BigEndian.PutUint16(dst[start+10:], Checksum(dst[start:start+ipv4HeaderOctets]))
	return dst
}

// Quoted is the beginning of a packet that ICMP would quote: its IP headers and the
// eight octets behind them (RFC 792).
func (h *Header) Quoted(packet []byte) []byte {
	return packet[:min(h.PayloadOffset+quotedOctets, h.Length, len(packet))]
}

const quotedOctets = 8

type ipv6Fields struct {
	class, hopLimit, next uint8
	payload               int    // octets after the header
	label                 uint32 // 20 bits
}

func appendIPv6(dst []byte, f ipv6Fields, source, destination netip.Addr) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 6<<28|uint32(f.class)<<20|f.label&0xfffff)
	dst = binary.BigEndian.AppendUint16(dst, uint16(f.payload))
	dst = append(dst, f.next, f.hopLimit)
	from, to := source.As16(), destination.As16()
	dst = append(dst, from[:]...)
	return append(dst, to[:]...)
}
