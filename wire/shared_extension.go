// SPDX-License-Identifier: Apache-2.0

package wire

// Shared Extension Message (RFC 9304 s.3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Type=15|        Sub-type       |   extension-specific          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                     extension-specific                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The format ends with the sub-type; the rest is kept as octets.

import (
	"encoding/binary"
	"fmt"
)

// SharedExtension is a message of type 15. Sub-types 0 to 1023 are by standards
// action, the rest first come first served.
type SharedExtension struct {
	SubType uint16 // 12 bits
	Data    []byte
}

const sharedSubTypeMask = 0x0fff

// Type is TypeSharedExtension.
func (*SharedExtension) Type() MessageType { return TypeSharedExtension }

func parseSharedExtension(r *reader) *SharedExtension {
	m := &SharedExtension{SubType: r.u16("sub-type") & sharedSubTypeMask}
	m.Data = r.copied(r.remaining(), "extension-specific")
	return m
}

// AppendTo appends the encoded message to b.
func (m *SharedExtension) AppendTo(b []byte) ([]byte, error) {
	if m.SubType > sharedSubTypeMask {
		return b, fmt.Errorf("Shared Extension: sub-type %d: want 12 bits", m.SubType)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(TypeSharedExtension)<<12|m.SubType)
	return append(b, m.Data...), nil
}
