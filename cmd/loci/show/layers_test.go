// SPDX-License-Identifier: Apache-2.0

package show

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// TestShowMapCacheShowsLayers: an RLOC that is an EID has a row of its own below the locators.
func TestShowMapCacheShowsLayers(t *testing.T) {
	rloc := func(s string) lisp.RLOC { return lisp.RLOCFromAddr(netip.MustParseAddr(s)) }
	layer := api.SecondLayer{RLOC: rloc("172.20.0.5"), EIDPrefix: lisp.MustParsePrefix("172.20.0.0/24"), Through: rloc("2001:db8::1")}
	loop := layer
	loop.Problem, loop.LeadsBack = "mapping-loop", true
	for want, l := range map[string]api.SecondLayer{
		"172.20.0.5 is an EID of 172.20.0.0/24, through 2001:db8::1":                                     layer,
		"172.20.0.5 is an EID of 172.20.0.0/24, through 2001:db8::1: dropped, mapping-loop (leads back)": loop,
	} {
		rows := mapCacheRows(time.Now(), api.MapCacheEntry{Locators: []api.Locator{{RLOC: layer.RLOC, Reachable: true}}, SecondLayers: []api.SecondLayer{l}})
		if len(rows) != 2 || strings.TrimSpace(rows[1]) != want {
			t.Errorf("%q, want %q below", rows, want)
		}
	}
}
