// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 14, JSON Data Model (RFC 8060 s.5.4, experimental):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 14   |    Rsvd2    |B|            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           JSON length         | JSON binary/text encoding ... |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |       Optional Address ...    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
	"math"
)

// JSONLCAF carries JSON beside an address. The JSON is not looked at.
type JSONLCAF struct {
	Binary  bool   // B: encoded in binary
	JSON    string // octets; a string, so that addresses compare
	Address Address
}

const jsonBinary = 0x01

// LCAFType is LCAFJSON.
func (JSONLCAF) LCAFType() LCAFType { return LCAFJSON }

// AFI is AFILCAF.
func (JSONLCAF) AFI() AFI { return AFILCAF }

// String shows the JSON after the address.
func (a JSONLCAF) String() string { return fmt.Sprintf("%s(json %q)", show(a.Address), a.JSON) }

func parseJSON(r *reader, rsvd2 uint8) Address {
	a := JSONLCAF{Binary: rsvd2&jsonBinary != 0}
	a.JSON = string(r.take(int(r.u16("JSON length")), "JSON"))
	a.Address = r.address("JSON address")
	return a
}

func (a JSONLCAF) appendTo(b []byte) ([]byte, error) {
	if len(a.JSON) > math.MaxUint16 {
		return b, fmt.Errorf("JSON of %d octets: want at most %d", len(a.JSON), math.MaxUint16)
	}
	b, at := beginLCAF(b, LCAFJSON, uint8(bit32(a.Binary, jsonBinary)))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(a.JSON))), a.JSON...)
	return endLCAFWith(b, at, a.Address)
}
