// SPDX-License-Identifier: Apache-2.0

package packettrace

import (
	"slices"
	"testing"
)

func TestFramesWithAndWithoutTags(t *testing.T) {
	addresses := make([]byte, 12)
	ip := []byte{0x45, 0, 0, 20}
	for name, c := range map[string]struct {
		behind []byte // the addresses
		beside int
		vlan   int
		packet []byte
	}{
		"untagged":                  {append([]byte{0x08, 0x00}, ip...), 0, 0, ip},
		"IPv6":                      {append([]byte{0x86, 0xDD}, ip...), 0, 0, ip},
		"a tag beside":              {append([]byte{0x08, 0x00}, ip...), 10, 10, ip},
		"a tag within":              {append([]byte{0x81, 0x00, 0xE0, 0x14, 0x08, 0x00}, ip...), 0, 20, ip},
		"a tag beside, and another": {append([]byte{0x81, 0x00, 0x00, 0x14, 0x08, 0x00}, ip...), 10, 0, nil},
		"two tags within":           {append([]byte{0x81, 0x00, 0x00, 0x14, 0x81, 0x00, 0x00, 0x0A, 0x08, 0x00}, ip...), 0, 0, nil},
		"half a tag":                {[]byte{0x81, 0x00, 0x00}, 0, 0, nil},
		"no IP":                     {append([]byte{0x08, 0x06}, ip...), 0, 0, nil},
	} {
		packet, vlan := takeApart(append(slices.Clone(addresses), c.behind...), c.beside)
		if vlan != c.vlan || !slices.Equal(packet, c.packet) {
			t.Errorf("%s: VLAN %d, packet %x, want %d, %x", name, vlan, packet, c.vlan, c.packet)
		}
	}
	if vlan := tagBeside([]byte{1, 2, 3}); vlan != 0 {
		t.Errorf("VLAN %d from octets that tell none", vlan)
	}
}
