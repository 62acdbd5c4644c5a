// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

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
