// SPDX-License-Identifier: Apache-2.0

package wire

// LCAF type 16, Encapsulation Format (RFC 8060 s.5.6, experimental):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           AFI = 16387         |     Rsvd1     |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Type = 16   |     Rsvd2     |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        Reserved-for-Future-Encapsulations       |U|G|N|v|V|l|L|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|              AFI = x          |         Address  ...          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+

import "fmt"

// EncapsulationFormatLCAF says which encapsulations a locator accepts.
type EncapsulationFormatLCAF struct {
	Encapsulations Encapsulations
	Address        Address
}

// Encapsulations is a set of encapsulations.
type Encapsulations uint8

// The encapsulations of RFC 8060 s.5.6 with their UDP ports.
const (
	EncapsulationLISP     Encapsulations = 0x01 // L: 4341
	EncapsulationL2LISP   Encapsulations = 0x02 // l: 8472
	EncapsulationVXLAN    Encapsulations = 0x04 // V: 4789
	EncapsulationVXLANGPE Encapsulations = 0x08 // v: 4790
	EncapsulationNVGRE    Encapsulations = 0x10 // N: IP protocol 47
	EncapsulationGeneve   Encapsulations = 0x20 // G: 6081
	EncapsulationGUE      Encapsulations = 0x40 // U: 6080

	encapsulationMask = 0x7f
)

// LCAFType is LCAFEncapsulationFormat.
func (EncapsulationFormatLCAF) LCAFType() LCAFType { return LCAFEncapsulationFormat }

// AFI is AFILCAF.
func (EncapsulationFormatLCAF) AFI() AFI { return AFILCAF }

// String shows the bits after the address.
func (a EncapsulationFormatLCAF) String() string {
	return fmt.Sprintf("%s(encapsulations 0x%02x)", show(a.Address), uint8(a.Encapsulations))
}

func parseEncapsulationFormat(r *reader) Address {
	return EncapsulationFormatLCAF{
		Encapsulations: Encapsulations(r.u32("encapsulations") & encapsulationMask),
		Address:        r.address("Encapsulation-Format address"),
	}
}

func (a EncapsulationFormatLCAF) appendTo(b []byte) ([]byte, error) {
	if a.Encapsulations&^encapsulationMask != 0 {
		return b, fmt.Errorf("encapsulations 0x%02x: want 7 bits", uint8(a.Encapsulations))
	}
	b, at := beginLCAF(b, LCAFEncapsulationFormat, 0)
	return endLCAFWith(append(b, 0, 0, 0, uint8(a.Encapsulations)), at, a.Address)
}
