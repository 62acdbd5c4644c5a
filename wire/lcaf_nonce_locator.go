// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 8, Nonce Locator (RFC 8060 s.5.3, experimental):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 8    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Reserved    |                  Nonce                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// NonceLocatorLCAF is a locator with the nonce that packets to it shall carry.
type NonceLocatorLCAF struct {
	Nonce   uint32 // 24 bits
	Address Address
}

// LCAFType is LCAFNonceLocator.
func (NonceLocatorLCAF) LCAFType() LCAFType { return LCAFNonceLocator }

// AFI is AFILCAF.
func (NonceLocatorLCAF) AFI() AFI { return AFILCAF }

// String shows the nonce after the address.
func (a NonceLocatorLCAF) String() string {
	return fmt.Sprintf("%s(nonce 0x%06x)", show(a.Address), a.Nonce)
}

func parseNonceLocator(r *reader) Address {
	return NonceLocatorLCAF{Nonce: r.u32("nonce") & 0xffffff, Address: r.address("Nonce-Locator address")}
}

func (a NonceLocatorLCAF) appendTo(b []byte) ([]byte, error) {
	if a.Nonce > 0xffffff {
		return b, fmt.Errorf("nonce 0x%x: want 24 bits", a.Nonce)
	}
	b, at := beginLCAF(b, LCAFNonceLocator, 0)
	return endLCAFWith(binary.BigEndian.AppendUint32(b, a.Nonce), at, a.Address)
}
