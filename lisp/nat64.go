// SPDX-License-Identifier: Apache-2.0

package lisp

// IPv6 addresses that stand for IPv4 addresses behind a NAT64 (RFC 6052 s.2.2).

import "net/netip"

// nat64Bits are the lengths that the prefix of a NAT64 may have, the usual one first.
var nat64Bits = [...]int{96, 64, 56, 48, 40, 32}

// NAT64Address is the IPv6 address by which a NAT64 of that prefix leads to an IPv4 address. The prefix is one that
// NAT64Prefix found.
func NAT64Address(p netip.Prefix, v4 netip.Addr) netip.Addr {
	octets, at := p.Masked().Addr().As16(), p.Bits()/8
	for _, o := range v4.As4() {
		if at == 8 { // is zero
			at++
		}
		octets[at] = o
		at++
	}
	return netip.AddrFrom16(octets)
}

// NAT64Prefix is the prefix of the NAT64 by which an IPv6 address leads to an IPv4 address; ok is false where it leads
// elsewhere. IPv6 addresses of the kernel for IPv4 (::ffff:0:0/96) are none.
func NAT64Prefix(v6, v4 netip.Addr) (p netip.Prefix, ok bool) {
	if !v6.Is6() || v6.Is4In6() || !v4.Is4() {
		return p, false
	}
	for _, bits := range nat64Bits {
		p = netip.PrefixFrom(v6, bits).Masked()
		if NAT64Address(p, v4) == v6 {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
