// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 0, Null Body (RFC 8060 s.3): no body at all.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 0    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

// NullLCAF is an LCAF without a body.
type NullLCAF struct{}

// LCAFType is LCAFNull.
func (NullLCAF) LCAFType() LCAFType { return LCAFNull }

// AFI is AFILCAF.
func (NullLCAF) AFI() AFI { return AFILCAF }

// String is "null".
func (NullLCAF) String() string { return "null" }

func (NullLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFNull, 0)
	return endLCAF(b, at)
}
