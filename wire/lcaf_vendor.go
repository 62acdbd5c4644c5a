// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 255, Vendor Specific (RFC 9306 s.4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 255  |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|      Rsvd3    |    Organizationally Unique Identifier (OUI)   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Internal format...                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import (
	"encoding/binary"
	"fmt"
)

// VendorLCAF is an address in a vendor's own format. A receiver that does not
// know the vendor refuses the message: see Parser.KnownOUIs.
type VendorLCAF struct {
	OUI  OUI
	Body string // the vendor's octets; a string, so that addresses compare
}

// LCAFType is LCAFVendor.
func (VendorLCAF) LCAFType() LCAFType { return LCAFVendor }

// AFI is AFILCAF.
func (VendorLCAF) AFI() AFI { return AFILCAF }

// String names the vendor and the size.
func (a VendorLCAF) String() string {
	return fmt.Sprintf("vendor-%06x(%d octets)", uint32(a.OUI), len(a.Body))
}

func parseVendor(r *reader, field string) Address {
	start := r.at
	a := VendorLCAF{OUI: OUI(r.u32("OUI") & 0xffffff)}
	if !r.failed() && !r.knows(a.OUI) {
		r.failAt(start+1, field+" OUI", ReasonUnknownOUI, fmt.Sprintf("%06x", uint32(a.OUI)))
	}
	a.Body = string(r.take(r.remaining(), "vendor format"))
	return a
}

func (a VendorLCAF) appendTo(b []byte) ([]byte, error) {
	if a.OUI > 0xffffff {
		return b, fmt.Errorf("OUI 0x%x: want 24 bits", uint32(a.OUI))
	}
	b, at := beginLCAF(b, LCAFVendor, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(a.OUI))
	return endLCAF(append(b, a.Body...), at)
}
