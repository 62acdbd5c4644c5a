// SPDX-License-Identifier: Apache-2.0

// Package addresses gives out the RLOCs of a simulated network, and knows who has which.
package addresses

import (
	"encoding/binary"
	"net/netip"
)

// What RLOCs begin with.
const firstOctetV4, secondOctetV4, firstOctetV6 = 172, 16, 0xfd

// Book says who has which address; the zero value is empty.
type Book[T any] struct {
	given  int
	owners []owned[T] // by the number of the address
}

// owned is an address with who has it, the zero value for none.
type owned[T any] struct {
	addr netip.Addr
	by   T
}

// New is an RLOC that no router had yet.
func (b *Book[T]) New(v4 bool) netip.Addr {
	b.given++
	n := b.given
	if v4 {
		return netip.AddrFrom4([4]byte{firstOctetV4, byte(secondOctetV4 + n>>16), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0: firstOctetV6, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
}

// numberOf is the number that New made an address from; false for another.
func numberOf(a netip.Addr) (number int, known bool) {
	b := a.As16()
	v4 := a.Is4()
	if v4 && b[12] != firstOctetV4 || !v4 && b[0] != firstOctetV6 {
		return 0, false
	}
	if v4 {
		b[12], b[13] = 0, b[13]-secondOctetV4
	}
	return int(binary.BigEndian.Uint32(b[12:])), true
}

// SetOwner gives an address to a router.
func (b *Book[T]) SetOwner(a netip.Addr, by T) {
	if number, known := numberOf(a); known {
		b.owners = append(b.owners, make([]owned[T], max(0, number+1-len(b.owners)))...)
		b.owners[number] = owned[T]{a, by}
	}
}

// Owner is who has an address, the zero value for none.
func (b *Book[T]) Owner(a netip.Addr) (by T) {
	if number, known := numberOf(a); known && number < len(b.owners) && b.owners[number].addr == a {
		by = b.owners[number].by
	}
	return by
}
