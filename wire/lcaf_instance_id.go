// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 2, Instance ID (RFC 8060 s.4.1):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 2    | IID mask-len  |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                         Instance ID                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// InstanceIDLCAF puts an address into an Instance-ID. It is how EIDs of
// Instance-IDs other than 0 travel.
type InstanceIDLCAF struct {
	InstanceID uint32
	MaskLen    uint8 // with NoAddress: the high bits that make a range of Instance-IDs; else 0
	Address    Address
}

// LCAFType is LCAFInstanceID.
func (InstanceIDLCAF) LCAFType() LCAFType { return LCAFInstanceID }

// AFI is AFILCAF.
func (InstanceIDLCAF) AFI() AFI { return AFILCAF }

// String is "[instance]address".
func (a InstanceIDLCAF) String() string {
	if a.MaskLen != 0 {
		return fmt.Sprintf("[%d/%d]%s", a.InstanceID, a.MaskLen, show(a.Address))
	}
	return fmt.Sprintf("[%d]%s", a.InstanceID, show(a.Address))
}

func parseInstanceID(r *reader, maskLen uint8) Address {
	return InstanceIDLCAF{MaskLen: maskLen, InstanceID: r.u32("Instance ID"), Address: r.address("Instance-ID address")}
}

func (a InstanceIDLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFInstanceID, a.MaskLen)
	return endLCAFWith(binary.BigEndian.AppendUint32(b, a.InstanceID), at, a.Address)
}
