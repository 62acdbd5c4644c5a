// SPDX-License-Identifier: Apache-2.0

package forward

// Outer packets that the system put together from fragments (RFC 9300 s.5.2, s.7): it hands over what UDP carries, and says
// what the header was.

import (
	"encoding/binary"
	"net/netip"
)

// AppendReassembled appends the outer packet whose UDP payload is given, as if it had come in one piece. Source and
// destination are of one family; ttl and class are those of its first fragment, the class with the ECN field of all of them
// (RFC 3168 s.5.3). Its checksum is 0: it was verified before.
func AppendReassembled(dst []byte, source, destination netip.AddrPort, ttl, class uint8, payload []byte) []byte {
	octets := udpHeaderOctets + len(payload)
	if source.Addr().Is4() {
		dst = appendIPv4(dst, ipv4Fields{class: class, ttl: ttl, protocol: protocolUDP, payload: octets}, source.Addr(), destination.Addr())
	} else {
		dst = appendIPv6(dst, ipv6Fields{class: class, hopLimit: ttl, next: protocolUDP, payload: octets}, source.Addr(), destination.Addr())
	}
	dst = binary.BigEndian.AppendUint16(dst, source.Port())
	dst = binary.BigEndian.AppendUint16(dst, destination.Port())
	dst = binary.BigEndian.AppendUint16(dst, uint16(octets))
	dst = append(dst, 0, 0)
	return append(dst, payload...)
}
