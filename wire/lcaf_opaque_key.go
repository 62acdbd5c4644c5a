// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 6, Opaque Key (RFC 8060 s.5.2, experimental):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 6    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Key Field Num |      Key Wildcard Fields      |   Key . . .   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// OpaqueKeyLCAF is a lookup key of equally long fields.
type OpaqueKeyLCAF struct {
	KeyFieldNumber uint8  // the number of fields, minus 1
	WildcardFields uint16 // bit 0, the low-order one: the low-order field does not count
	Key            string // octets; a string, so that addresses compare
}

// LCAFType is LCAFOpaqueKey.
func (OpaqueKeyLCAF) LCAFType() LCAFType { return LCAFOpaqueKey }

// AFI is AFILCAF.
func (OpaqueKeyLCAF) AFI() AFI { return AFILCAF }

// String shows the key in hexadecimal.
func (a OpaqueKeyLCAF) String() string {
	return fmt.Sprintf("key(%x, %d fields, wildcards 0x%04x)", a.Key, int(a.KeyFieldNumber)+1, a.WildcardFields)
}

func parseOpaqueKey(r *reader) Address {
	return OpaqueKeyLCAF{
		KeyFieldNumber: r.u8("Key Field Num"),
		WildcardFields: r.u16("Key Wildcard Fields"),
		Key:            string(r.take(r.remaining(), "Key")),
	}
}

func (a OpaqueKeyLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFOpaqueKey, 0)
	b = binary.BigEndian.AppendUint16(append(b, a.KeyFieldNumber), a.WildcardFields)
	return endLCAF(append(b, a.Key...), at)
}
