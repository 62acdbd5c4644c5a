// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 11, Security Key (RFC 8060 s.4.7; key exchange: RFC 8061 s.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 11   |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Key Count   |      Rsvd3    | Key Algorithm |   Rsvd4     |R|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Key Length          |       Key Material ...        |   Key Count times
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |       Locator Address ...     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
	"math"
)

// SecurityKeyLCAF carries keys beside a locator.
type SecurityKeyLCAF struct {
	Algorithm uint8 // with RFC 8061: the cipher suite
	Revoke    bool  // R: the keys are revoked
	Keys      [][]byte
	Address   Address
}

const (
	keyRevoke        = 0x01
	keyMinimumOctets = 2
	maxKeys          = 255
)

// LCAFType is LCAFSecurityKey.
func (*SecurityKeyLCAF) LCAFType() LCAFType { return LCAFSecurityKey }

// AFI is AFILCAF.
func (*SecurityKeyLCAF) AFI() AFI { return AFILCAF }

// String shows how many keys there are, never a key.
func (a *SecurityKeyLCAF) String() string {
	return fmt.Sprintf("%s(%d keys, algorithm %d)", show(a.Address), len(a.Keys), a.Algorithm)
}

func parseSecurityKey(r *reader) Address {
	count := int(r.u8("Key Count"))
	r.u8("reserved")
	a := &SecurityKeyLCAF{Algorithm: r.u8("Key Algorithm"), Revoke: r.u8("R bit")&keyRevoke != 0}
	if n := r.count(count, keyMinimumOctets, "Key Count"); n > 0 {
		a.Keys = make([][]byte, n)
	}
	for i := range a.Keys {
		a.Keys[i] = r.copied(int(r.u16("Key Length")), "Key Material")
	}
	a.Address = r.address("Security-Key address")
	return a
}

func (a *SecurityKeyLCAF) appendTo(b []byte) ([]byte, error) {
	if len(a.Keys) > maxKeys {
		return b, fmt.Errorf("%d keys: want at most %d", len(a.Keys), maxKeys)
	}
	b, at := beginLCAF(b, LCAFSecurityKey, 0)
	b = append(b, uint8(len(a.Keys)), 0, a.Algorithm, uint8(bit32(a.Revoke, keyRevoke)))
	for _, key := range a.Keys {
		if len(key) > math.MaxUint16 {
			return b, fmt.Errorf("key of %d octets: want at most %d", len(key), math.MaxUint16)
		}
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(key))), key...)
	}
	return endLCAFWith(b, at, a.Address)
}
