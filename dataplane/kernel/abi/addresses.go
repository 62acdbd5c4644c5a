// SPDX-License-Identifier: Apache-2.0

// This file translates addresses between Go's types and the octets of the ABI, where an IPv4 address has the first four.

package abi

import (
	"encoding/binary"
	"net/netip"

	"loci/lisp"
)

// Family is the family of an address as the ABI has it: 4 or 6.
func Family(a netip.Addr) uint8 {
	if a.Is4() {
		return 4
	}
	return 6
}

// AddressOctets is how many octets an address of a family has.
func AddressOctets(family uint8) int {
	if family == 4 {
		return 4
	}
	return 16
}

// Octets returns an address as the ABI has it: an IPv4 address in the first four.
func Octets(a netip.Addr) (octets [16]byte) {
	copy(octets[:], a.AsSlice())
	return octets
}

// Addr is the inverse of Octets.
func Addr(family uint8, octets [16]byte) netip.Addr {
	a, _ := netip.AddrFromSlice(octets[:AddressOctets(family)])
	return a
}

// KeyOf is the key of maps that are about an RLOC.
func KeyOf(r lisp.RLOC) RLOCKey {
	return RLOCKey{Address: Octets(r.Addr()), Family: Family(r.Addr())}
}

// NetworkOrder is a number as a field of type __be16 holds it.
func NetworkOrder(number uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, number))
}

// RLOC is the inverse of KeyOf, whose port it ignores.
func RLOC(k RLOCKey) lisp.RLOC {
	return lisp.RLOCFromAddr(Addr(k.Family, k.Address))
}
