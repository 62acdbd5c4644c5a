// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// TestShowMapCacheSourcePort: a locator whose packets leave from one port says so.
func TestShowMapCacheSourcePort(t *testing.T) {
	now := time.Now()
	e := api.MapCacheEntry{EIDPrefix: lisp.MustParsePrefix("10.2.0.0/24"), CreatedAt: now}
	for _, l := range []api.Locator{{SourcePort: 4341, Reachable: true}, {SourcePort: 4342}, {Reachable: true}} {
		l.RLOC, l.Priority, l.Weight = lisp.RLOCFromAddr(lisp.MustParsePrefix("2001:db8::1").EID().Addr()), 1, 100
		e.Locators = append(e.Locators, l)
	}
	rows := strings.Join(mapCacheRows(now, e), "\n")
	for _, want := range []string{"\t2001:db8::1 1/100 from port 4341\t", "\t2001:db8::1 1/100 from port 4342 unreachable\t", "\t2001:db8::1 1/100\t"} {
		if !strings.Contains(rows, want) {
			t.Errorf("%q is not in %q", want, rows)
		}
	}
}

// TestShowMapCacheMarks: a mapping that is used past its TTL, or was gleaned, says so behind its first locator.
func TestShowMapCacheMarks(t *testing.T) {
	now := time.Now()
	rloc := lisp.MustParsePrefix("192.0.2.1").EID().Addr()
	for _, prefix := range []string{"10.2.0.0/24", "2001:db8:2::/48"} {
		for want, e := range map[string]api.MapCacheEntry{
			"192.0.2.1 1/100":           {},
			"192.0.2.1 1/100 (stale)":   {Stale: true},
			"192.0.2.1 1/100 (gleaned)": {Gleaned: true},
		} {
			ended := now.Add(-time.Minute)
			e.EIDPrefix, e.CreatedAt, e.ExpiresAt = lisp.MustParsePrefix(prefix), ended, &ended
			e.Locators = []api.Locator{{RLOC: lisp.RLOCFromAddr(rloc), Priority: 1, Weight: 100, Reachable: true}}
			rows := mapCacheRows(now, e)
			if len(rows) != 1 || !strings.HasPrefix(rows[0], prefix+"\t"+want+"\t1m0s\t0s\t") {
				t.Errorf("%+v is shown as %q, want %q", e, rows, want)
			}
		}
	}
}
