// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/health"
	"loci/lisp"
)

// TestDownLocatorsAreNotHidden: unconfirmed locators, however many, leave room for those that are down.
func TestDownLocatorsAreNotHidden(t *testing.T) {
	const unconfirmed, down = healthListed + 5, healthListed + 2
	a := answersTo(t, t.Context(), "interfaces: {site: [lan0], core: [wan0]}\nitr: {map-resolvers: [192.0.2.1]}\netr: {local-eids: [{eid: 10.1.0.0/16}]}\n", func(node *control.Node) {
		now := time.Now()
		var entries []control.MapCacheEntry
		var states []control.SetLocatorState
		for i := range unconfirmed + down {
			rloc, state := lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})), control.LocatorUnconfirmed
			if i >= unconfirmed {
				state = control.LocatorDown
			}
			entries = append(entries, control.MapCacheEntry{
				Mapping: lisp.Mapping{
					Prefix: lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i)), TTLMinutes: 60,
					Locators: lisp.LocatorSet{{RLOC: rloc, Priority: 1, Weight: 1, Reachable: true}},
				}, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
			})
			states = append(states, control.SetLocatorState{RLOC: rloc, State: state})
		}
		node.AdoptMapCache(now, entries)
		node.AdoptLocatorStates(now, states)
	})
	var f health.Facts
	if err := a.addBadLocators(t.Context(), &f); err != nil {
		t.Fatal(err)
	}
	listed := map[control.LocatorState]int{}
	for _, l := range f.Locators {
		listed[l.State]++
	}
	if listed[control.LocatorDown] != healthListed || listed[control.LocatorUnconfirmed] != healthListed || f.MoreDown != 2 || f.MoreUnconfirmed != 5 {
		t.Errorf("listed %v, beyond %d down and %d unconfirmed", listed, f.MoreDown, f.MoreUnconfirmed)
	}
}
