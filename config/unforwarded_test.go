// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"testing"

	"loci/forward"
)

// TestUnforwardedIsWhatForwardRefuses walks along the borders of all blocks: an address is in one if, and only if, the data plane refuses it.
func TestUnforwardedIsWhatForwardRefuses(t *testing.T) {
	refused := func(a netip.Addr) bool {
		for _, p := range unforwarded {
			if p.Netip().Contains(a) {
				return true
			}
		}
		return false
	}
	for _, p := range unforwarded {
		for _, a := range bordersOf(p.Netip()) {
			if got, want := refused(a), !forward.RoutableUnicast(a); a.IsValid() && got != want {
				t.Errorf("%v of %v: in a block %t, refused by the data plane %t", a, p, got, want)
			}
		}
	}
}

// bordersOf are the first and the last address of a prefix and their neighbours, which are not valid where there are none.
func bordersOf(p netip.Prefix) []netip.Addr {
	octets := p.Addr().AsSlice()
	for bit := p.Bits(); bit < p.Addr().BitLen(); bit++ {
		octets[bit/8] |= 0x80 >> (bit % 8)
	}
	first := p.Masked().Addr()
	last, _ := netip.AddrFromSlice(octets)
	return []netip.Addr{first.Prev(), first, last, last.Next()}
}
