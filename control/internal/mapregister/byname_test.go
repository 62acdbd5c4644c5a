// SPDX-License-Identifier: Apache-2.0

package mapregister

import (
	"net/netip"
	"testing"

	"loci/control/internal/settings"
	"loci/lisp"
)

// TestLocatorsByNameThatDoNotFit: a set that is full, or has the NAT's address already, is registered as the host and
// the RTR, never with the private RLOC.
func TestLocatorsByNameThatDoNotFit(t *testing.T) {
	own, seen := netip.MustParseAddr("192.168.1.2"), netip.MustParseAddr("198.51.100.1")
	path := []settings.NamedPath{{Local: own, Seen: seen, Name: "host",
		RTRs: []netip.Addr{netip.MustParseAddr("192.0.2.100")}}}
	full := lisp.LocatorSet{lisp.NewLocator(lisp.RLOCFromAddr(own))}
	for i := range lisp.MaxLocators - 1 {
		full = append(full, lisp.NewLocator(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}))))
	}
	twice := lisp.LocatorSet{full[0], lisp.NewLocator(lisp.RLOCFromAddr(seen))}
	for name, set := range map[string]lisp.LocatorSet{"full": full, "NAT's address": twice} {
		if got := LocatorsByName(set, path); name == "full" && len(got) != 2 {
			t.Errorf("%s: %v", name, got)
		} else if _, private := got.Find(lisp.RLOCFromAddr(own)); private {
			t.Errorf("%s: the private RLOC is registered: %v", name, got)
		}
	}
}
