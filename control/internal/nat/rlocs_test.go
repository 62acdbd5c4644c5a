// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// TestRLOCsBeyondTheLimit: one that comes after as many others as an RTR keeps takes no place.
func TestRLOCsBeyondTheLimit(t *testing.T) {
	var list []lisp.Locator
	for i := range settings.NATRLOCs + 1 {
		l := lisp.NewLocator(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 168, byte(i), 2})))
		l.Reachable = false
		list = append(list, l)
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	rec := record{prefix: lisp.MustParsePrefix("10.1.0.0/16"), lifetime: time.Minute, locals: policiesOf(set)}
	var b binding
	for round := range 3 {
		for i := range set {
			p := pending{private: set[i].RLOC.Addr(), from: netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 4000)}
			if keeps := rec.hasRoomFor(&p); keeps != (i < settings.NATRLOCs) {
				t.Errorf("RLOC %d: %v", i, keeps)
			} else if keeps {
				b.merge(&p, &rec, timing.Instant(time.Second))
			}
		}
		if len(b.rlocs) != settings.NATRLOCs {
			t.Errorf("round %d: %d RLOCs", round, len(b.rlocs))
		}
	}
}
