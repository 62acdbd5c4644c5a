// SPDX-License-Identifier: Apache-2.0

package forward

// Outer packets that the system put together from fragments (RFC 9300 s.5.2, s.7): it hands over what UDP carries, and says
// what the header was.

import (
	"encoding/binary"
	"net/netip"
)

// Reassembled is what the system says of an outer packet that it put together.
type Reassembled struct {
	Source, Destination netip.AddrPort // of one family
	TTL                 uint8          // of its first fragment
	Class               uint8          // DSCP and ECN, the latter of all fragments (RFC 3168 s.5.3)
}

// AppendReassembled appends the outer packet whose UDP payload is given, as if it had come in one piece. Its checksum is 0: it
// was verified before.
func AppendReassembled(dst []byte, r Reassembled, payload []byte) []byte {
	source, destination := r.Source, r.Destination
	octets := udpHeaderOctets + len(payload)
	if source.Addr().Is4() {
		dst = appendIPv4(dst, ipv4Fields{class: r.Class, ttl: r.TTL, protocol: protocolUDP, payload: octets}, source.Addr(), destination.Addr())
	} else {
		dst = appendIPv6(dst, ipv6Fields{class: r.Class, hopLimit: r.TTL, next: protocolUDP, payload: octets}, source.Addr(), destination.Addr())
	}
	dst = binary.BigEndian.AppendUint16(dst, source.Port())
	dst = binary.BigEndian.AppendUint16(dst, destination.Port())
	dst = binary.BigEndian.AppendUint16(dst, uint16(octets))
	dst = append(dst, 0, 0)
	return append(dst, payload...)
}
