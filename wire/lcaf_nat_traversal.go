// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 7, NAT Traversal (RFC 8060 s.4.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 7    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       MS UDP Port Number      |      ETR UDP Port Number      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |  Global ETR RLOC Address  ... |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |       MS RLOC Address  ...    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          | Private ETR RLOC Address  ... |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |      RTR RLOC Address ...     |   repeated
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// NATTraversalLCAF says in an Info-Reply how an ETR looks from outside its NAT.
type NATTraversalLCAF struct {
	MapServerPort, ETRPort uint16
	GlobalETR              Address
	MapServer              Address
	PrivateETR             Address
	RTRs                   []Address // at most MaxListEntries
}

// LCAFType is LCAFNATTraversal.
func (*NATTraversalLCAF) LCAFType() LCAFType { return LCAFNATTraversal }

// AFI is AFILCAF.
func (*NATTraversalLCAF) AFI() AFI { return AFILCAF }

// String shows the addresses.
func (a *NATTraversalLCAF) String() string {
	return fmt.Sprintf("nat(global %s port %d, map-server %s port %d, private %s, %d RTRs)",
		show(a.GlobalETR), a.ETRPort, show(a.MapServer), a.MapServerPort, show(a.PrivateETR), len(a.RTRs))
}

func parseNATTraversal(r *reader) Address {
	return &NATTraversalLCAF{
		MapServerPort: r.u16("MS UDP port"),
		ETRPort:       r.u16("ETR UDP port"),
		GlobalETR:     r.address("Global ETR RLOC"),
		MapServer:     r.address("MS RLOC"),
		PrivateETR:    r.address("Private ETR RLOC"),
		RTRs:          parseAddresses(r, "RTR RLOC"),
	}
}

func (a *NATTraversalLCAF) appendTo(b []byte) ([]byte, error) {
	b, at := beginLCAF(b, LCAFNATTraversal, 0)
	b = binary.BigEndian.AppendUint16(b, a.MapServerPort)
	b = binary.BigEndian.AppendUint16(b, a.ETRPort)
	b, err := appendAddress(b, a.GlobalETR)
	if err == nil {
		b, err = appendAddress(b, a.MapServer)
	}
	if err == nil {
		b, err = appendAddress(b, a.PrivateETR)
	}
	if err == nil {
		b, err = appendAddresses(b, a.RTRs)
	}
	if err != nil {
		return b, err
	}
	return endLCAF(b, at)
}
