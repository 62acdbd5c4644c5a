// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"net/netip"
	"slices"
	"testing"

	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/network"
)

// A router that lost the core and cannot find out may go on to call its locators reachable. One that can may not.
func TestWhatARouterCannotKnowIsNotDemanded(t *testing.T) {
	for name, c := range map[string]struct {
		notified, sends, native, intact, noticed bool
		unreachable                              []bool // of each set that is right: whether the locator is
	}{
		"nothing says so":            {unreachable: []bool{true, false}},
		"only native packets":        {sends: true, native: true, unreachable: []bool{true, false}},
		"it gets Map-Notifies":       {notified: true, unreachable: []bool{true}},
		"its hosts send":             {sends: true, unreachable: []bool{true}},
		"the link is known as down":  {noticed: true, unreachable: []bool{true, true}},
		"the core is not lost":       {intact: true, unreachable: []bool{false}},
		"Map-Notifies and no losses": {intact: true, notified: true, unreachable: []bool{false}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := &Plan{}
			s := &Site{plan: plan, Siblings: true, Notify: c.notified}
			x := &Router{Plan: plan, Site: s}
			s.XTRs = []*Router{x}
			p := &SitePrefix{Site: s, policy: []locatorPolicy{{1, 50}}}
			x.Station.Links = []network.Link{{Addr: netip.AddrFrom4([4]byte{172, 16, 0, 1})}}
			if c.noticed {
				x.Station.Links[0].Noticed = 1
			}
			if !c.intact {
				x.CoreLost = 1
			}
			if c.sends {
				plan.Flows = []*Flow{{From: x, Outside: c.native}}
			}
			sets := p.RightLocators()
			if len(sets) != len(c.unreachable) {
				t.Fatalf("%d sets are right, want %d: %s", len(sets), len(c.unreachable), sets)
			}
			for i, set := range sets {
				if set[0].Reachable == c.unreachable[i] {
					t.Errorf("set %d has %s, want reachable: %t", i, set[0], !c.unreachable[i])
				}
			}
			cached := lisp.LocatorSet{sets[0][0]}
			cached[0].Reachable = true
			if right := slices.Contains(c.unreachable, false); p.IsUsed(cached, &mirror.View{}) != right {
				t.Errorf("a mapping with the locator reachable is right: %t, want %t", !right, right)
			}
		})
	}
}
