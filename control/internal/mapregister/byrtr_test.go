// SPDX-License-Identifier: Apache-2.0

package mapregister

import (
	"net/netip"
	"testing"

	"loci/control/internal/settings"
	"loci/lisp"
)

// TestBehindNATWithoutRTR: an RLOC behind a NAT that no RTR reaches is registered as unreachable and unused, beside one
// that is reached by an RTR. A public one stays as it is.
func TestBehindNATWithoutRTR(t *testing.T) {
	by, without, public := netip.MustParseAddr("192.168.1.2"), netip.MustParseAddr("192.168.2.2"), netip.MustParseAddr("203.0.113.7")
	var set lisp.LocatorSet
	for _, a := range []netip.Addr{by, without, public} {
		l := lisp.NewLocator(lisp.RLOCFromAddr(a))
		l.Reachable = true
		set = append(set, l)
	}
	paths := []settings.RTRPath{{RTR: netip.MustParseAddr("192.0.2.101"), Local: by}}
	got := LocatorsByRTRs(set, paths, []netip.Addr{by, without})
	for _, a := range []netip.Addr{by, without, public} {
		l := got[indexOf(got, a)]
		if l.Reachable != (a == public) || (l.Priority == lisp.PriorityUnused) != (a == without) {
			t.Errorf("%s: reachable %t, priority %d", a, l.Reachable, l.Priority)
		}
	}
}
