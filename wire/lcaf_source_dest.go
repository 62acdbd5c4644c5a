// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 12, Source/Dest Key (RFC 8060 s.4.8):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 12   |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Reserved           |   Source-ML   |    Dest-ML    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Source-Prefix ...     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = y          |     Destination-Prefix ...    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import "fmt"

// SourceDestLCAF is a lookup key of two prefixes.
type SourceDestLCAF struct {
	SourceMaskLen, DestinationMaskLen uint8
	Source, Destination               Address
}

// LCAFType is LCAFSourceDest.
func (SourceDestLCAF) LCAFType() LCAFType { return LCAFSourceDest }

// AFI is AFILCAF.
func (SourceDestLCAF) AFI() AFI { return AFILCAF }

// String is "source/bits -> destination/bits".
func (a SourceDestLCAF) String() string {
	return fmt.Sprintf("(%s/%d -> %s/%d)", show(a.Source), a.SourceMaskLen, show(a.Destination), a.DestinationMaskLen)
}

func parseSourceDest(r *reader) Address {
	r.take(2, "reserved")
	return SourceDestLCAF{
		SourceMaskLen:      r.u8("Source-ML"),
		DestinationMaskLen: r.u8("Dest-ML"),
		Source:             r.address("Source-Prefix"),
		Destination:        r.address("Destination-Prefix"),
	}
}

func (a SourceDestLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFSourceDest, 0)
	b, err := appendAddress(append(b, 0, 0, a.SourceMaskLen, a.DestinationMaskLen), a.Source)
	if err != nil {
		return b, err
	}
	return endLCAFWith(b, at, a.Destination)
}
