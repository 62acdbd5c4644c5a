// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 9, Multicast Info (RFC 8060 s.4.5):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 9    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                         Instance ID                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Reserved           | Source MaskLen| Group MaskLen |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |   Source/Subnet Address  ...  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |       Group Address  ...      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// MulticastInfoLCAF is a multicast entry (S,G) in an Instance-ID.
type MulticastInfoLCAF struct {
	InstanceID                  uint32
	SourceMaskLen, GroupMaskLen uint8
	Source, Group               Address
}

// LCAFType is LCAFMulticastInfo.
func (MulticastInfoLCAF) LCAFType() LCAFType { return LCAFMulticastInfo }

// AFI is AFILCAF.
func (MulticastInfoLCAF) AFI() AFI { return AFILCAF }

// String is "[instance](source/bits, group/bits)".
func (a MulticastInfoLCAF) String() string {
	return fmt.Sprintf("[%d](%s/%d, %s/%d)", a.InstanceID, show(a.Source), a.SourceMaskLen, show(a.Group), a.GroupMaskLen)
}

func parseMulticastInfo(r *reader) Address {
	a := MulticastInfoLCAF{InstanceID: r.u32("Instance ID")}
	r.take(2, "reserved")
	a.SourceMaskLen = r.u8("Source MaskLen")
	a.GroupMaskLen = r.u8("Group MaskLen")
	a.Source = r.address("Source/Subnet address")
	a.Group = r.address("Group address")
	return a
}

func (a MulticastInfoLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFMulticastInfo, 0)
	b = append(binary.BigEndian.AppendUint32(b, a.InstanceID), 0, 0, a.SourceMaskLen, a.GroupMaskLen)
	b, err := appendAddress(b, a.Source)
	if err != nil {
		return b, err
	}
	return endLCAFWith(b, at, a.Group)
}
