// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 4, Application Data (RFC 8060 s.5.1, experimental):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 4    |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       IP TOS, IPv6 TC, or Flow Label          |    Protocol   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|    Local Port (lower-range)   |    Local Port (upper-range)   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Remote Port (lower-range)   |   Remote Port (upper-range)   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// ApplicationDataLCAF limits an address to the flows of an application.
type ApplicationDataLCAF struct {
	TrafficClass                  uint32 // 24 bits: TOS, traffic class or flow label
	Protocol                      uint8
	LocalPortLow, LocalPortHigh   uint16
	RemotePortLow, RemotePortHigh uint16
	Address                       Address
}

// LCAFType is LCAFApplicationData.
func (ApplicationDataLCAF) LCAFType() LCAFType { return LCAFApplicationData }

// AFI is AFILCAF.
func (ApplicationDataLCAF) AFI() AFI { return AFILCAF }

// String shows the flow after the address.
func (a ApplicationDataLCAF) String() string {
	return fmt.Sprintf("%s(protocol %d, local %d-%d, remote %d-%d)", show(a.Address), a.Protocol,
		a.LocalPortLow, a.LocalPortHigh, a.RemotePortLow, a.RemotePortHigh)
}

func parseApplicationData(r *reader) Address {
	return ApplicationDataLCAF{
		TrafficClass:   r.u24("IP TOS"),
		Protocol:       r.u8("protocol"),
		LocalPortLow:   r.u16("local port"),
		LocalPortHigh:  r.u16("local port"),
		RemotePortLow:  r.u16("remote port"),
		RemotePortHigh: r.u16("remote port"),
		Address:        r.address("Application-Data address"),
	}
}

func (a ApplicationDataLCAF) appendTo(b []byte) ([]byte, error) {
	if a.TrafficClass > 0xffffff {
		return b, fmt.Errorf("traffic class or flow label 0x%x: want 24 bits", a.TrafficClass)
	}
	b, at := beginLCAF(b, LCAFApplicationData, 0)
	b = binary.BigEndian.AppendUint32(b, a.TrafficClass<<8|uint32(a.Protocol))
	for _, port := range [...]uint16{a.LocalPortLow, a.LocalPortHigh, a.RemotePortLow, a.RemotePortHigh} {
		b = binary.BigEndian.AppendUint16(b, port)
	}
	return endLCAFWith(b, at, a.Address)
}
