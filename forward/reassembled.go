// SPDX-License-Identifier: Apache-2.0

package forward

// Outer packets that the system put together from fragments (RFC 9300 s.5.2, s.7): it hands over what UDP carries, and says
// what the header was.

import "net/netip"

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
