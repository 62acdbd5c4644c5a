// SPDX-License-Identifier: Apache-2.0

package packets

// Addresses of hosts, in sites and outside LISP (RFC 6832), and the Instance-ID of a LISP data packet.

import (
	"net/netip"

	"loci/lisp"
	"loci/wire"
)

// Outsiders are the hosts that every PITR takes packets of; one that is not limited takes those of all others, too.
var Outsiders = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/25"), netip.MustParsePrefix("2001:db8:ffff::/64")}

// Outsider is a host outside LISP, one that PITRs serve or one that they may not.
func Outsider(v4, served bool, n int) netip.Addr {
	a := Outsiders[1].Addr()
	if v4 {
		a = Outsiders[0].Addr()
	}
	if !served && v4 {
		n += 128
	}
	if a = Offset(a, n); !served && !v4 {
		b := a.As16()
		b[4] = 1
		a = netip.AddrFrom16(b)
	}
	return a
}

// Offset is the address n behind the first of a prefix.
func Offset(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	b[len(b)-1] += byte(n)
	moved, _ := netip.AddrFromSlice(b)
	return moved
}

// InstanceOf is the Instance-ID in the header of a LISP data packet.
func InstanceOf(packet []byte) lisp.InstanceID {
	header, _, err := wire.ParseDataHeader(packet[len(packet)-len(Inner(packet))-wire.DataHeaderOctets:])
	if err != nil || !header.Instance {
		return 0
	}
	return header.InstanceID
}
