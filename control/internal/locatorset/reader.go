// SPDX-License-Identifier: Apache-2.0

package locatorset

// Fields of the Map-Server's journal, one after the other.

import (
	"encoding/binary"
	"net/netip"
)

// Reader reads fields of the journal until one is missing.
type Reader struct {
	Octets []byte // not read yet
	Short  bool   // a field was missing; what was read since is zero
}

// Take takes so many octets, at most 64 KiB.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Octets) {
		r.Short, r.Octets = true, nil
		return make([]byte, n)
	}
	b := r.Octets[:n]
	r.Octets = r.Octets[n:]
	return b
}

// U8 takes a number of one octet.
func (r *Reader) U8() uint8 { return r.Take(1)[0] }

// U16 takes a number of two octets.
func (r *Reader) U16() uint16 { return binary.BigEndian.Uint16(r.Take(2)) }

// U32 takes a number of four octets.
func (r *Reader) U32() uint32 { return binary.BigEndian.Uint32(r.Take(4)) }

// U64 takes a number of eight octets.
func (r *Reader) U64() uint64 { return binary.BigEndian.Uint64(r.Take(8)) }

// Addr takes an address of one of the families.
func (r *Reader) Addr(is6 bool) netip.Addr {
	if is6 {
		return netip.AddrFrom16([16]byte(r.Take(16)))
	}
	return netip.AddrFrom4([4]byte(r.Take(4)))
}
