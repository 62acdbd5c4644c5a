// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

func TestStatusLine(t *testing.T) {
	for want, h := range map[string]api.Health{
		"healthy (itr, etr)\n":                              {Verdict: api.VerdictHealthy},
		"healthy, notices: 1 (itr, etr)\n":                  {Verdict: api.VerdictHealthy, Notices: 1},
		"problems: 1, critical: 0 (itr, etr)\n":             {Verdict: api.VerdictProblems, Warnings: 1},
		"problems: 3, critical: 1, notices: 2 (itr, etr)\n": {Verdict: api.VerdictProblems, Critical: 1, Warnings: 2, Notices: 2},
	} {
		h.Roles = []string{"itr", "etr"}
		var out bytes.Buffer
		if err := printHealth(&out, h); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", &out, err, want)
		}
	}
}

// TestStatusSaysThatNoRLOCIsUp beside ready, which keeps its meaning.
func TestStatusSaysThatNoRLOCIsUp(t *testing.T) {
	for want, own := range map[string][]api.OwnRLOC{
		"ready, up": {{State: "down"}, {State: "up"}}, "ready, no RLOC up, up": {{State: "down"}, {State: "down"}}, "ready, up 0s": nil,
	} {
		var out bytes.Buffer
		if err := printStatus(&out, api.Status{Ready: true, StartedAt: time.Now()}, own); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %s, %v", own, &out, err)
		}
	}
}
