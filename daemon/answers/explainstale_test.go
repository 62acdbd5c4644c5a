// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/dataplane"
	"loci/lisp"
)

// TestStaleMappingsAreMarked in the explanation and in the map-cache's document; those within their TTL are not.
func TestStaleMappingsAreMarked(t *testing.T) {
	now := time.Now()
	for _, prefix := range []string{"10.2.0.0/24", "2001:db8:2::/48"} {
		for _, stale := range []bool{true, false} {
			ends, words, others := now.Add(-90*time.Second), "its TTL ended 1m30s ago", "its TTL ends in"
			if !stale {
				ends, words, others = now.Add(90*time.Second), "its TTL ends in 1m30s", "its TTL ended"
			}
			p := lisp.MustParsePrefix(prefix)
			m := lisp.Mapping{Prefix: p, Locators: testLocators(t, "192.0.2.1")}
			known := &control.MapCacheStatus{
				MapCacheEntry: control.MapCacheEntry{Mapping: m, Stale: stale, CreatedAt: now, ExpiresAt: ends},
			}
			x := explainer{
				now: now, query: api.ExplainQuery{EID: p.EID()},
				node:  control.Explanation{ITR: true, Entry: known, Told: m},
				entry: &dataplane.MapCacheEntry{Mapping: m, Stale: stale, CreatedAt: now, ExpiresAt: ends},
			}
			answer := x.explain()
			if why := strings.Join(answer.Why, "\n"); !strings.Contains(why, words) || strings.Contains(why, others) {
				t.Errorf("%s, stale %v: %s\nwant %q", prefix, stale, why, words)
			}
			if answer.DataPlane == nil || answer.DataPlane.Stale != stale {
				t.Errorf("%s, stale %v: the data plane has %+v", prefix, stale, answer.DataPlane)
			}
			text, err := json.Marshal(mapCacheDocument(*x.entry))
			if want := fmt.Sprintf(`"stale":%v`, stale); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: the map-cache's document has no %s: %s, %v", prefix, want, text, err)
			}
		}
	}
}
