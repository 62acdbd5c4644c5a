// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 3, AS Number (RFC 8060 s.4.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 3    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           AS Number                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// ASNumberLCAF names the autonomous system of an address.
type ASNumberLCAF struct {
	ASNumber uint32
	Address  Address
}

// LCAFType is LCAFASNumber.
func (ASNumberLCAF) LCAFType() LCAFType { return LCAFASNumber }

// AFI is AFILCAF.
func (ASNumberLCAF) AFI() AFI { return AFILCAF }

// String is "AS number:address".
func (a ASNumberLCAF) String() string { return fmt.Sprintf("AS%d:%s", a.ASNumber, show(a.Address)) }

func parseASNumber(r *reader) Address {
	return ASNumberLCAF{ASNumber: r.u32("AS Number"), Address: r.address("AS-Number address")}
}

func (a ASNumberLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFASNumber, 0)
	return endLCAFWith(binary.BigEndian.AppendUint32(b, a.ASNumber), at, a.Address)
}
