// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

// TestRegistrationIsToldFirst where no Map-Server has it, or not all of it; one that has is enough.
func TestRegistrationIsToldFirst(t *testing.T) {
	lately, long := time.Now().Add(-time.Minute), time.Now().Add(-expiry)
	lacking := []api.UnacknowledgedEID{{EIDPrefix: lisp.MustParsePrefix("10.1.0.0/24")}}
	registered := api.MapServer{Address: "192.0.2.1:4342", State: "registered"}
	never := api.MapServer{Address: "192.0.2.2:4342", State: "waiting", LackingCount: 1, Lacking: lacking}
	still, expired, partial := never, never, never
	still.LastNotifyAt, expired.LastNotifyAt, partial.State = &lately, &long, "partial"
	for name, c := range map[string]struct {
		servers []api.MapServer
		words   string
	}{
		"no Map-Server":         {nil, ""},
		"registered":            {[]api.MapServer{registered}, ""},
		"at the first":          {[]api.MapServer{registered, never}, ""},
		"at the second":         {[]api.MapServer{never, registered}, ""},
		"never":                 {[]api.MapServer{never}, "this site is not registered"},
		"at neither":            {[]api.MapServer{expired, never}, "this site is not registered"},
		"expired":               {[]api.MapServer{expired}, "this site is not registered"},
		"silent, and not ended": {[]api.MapServer{still}, ""},
		"under way":             {[]api.MapServer{{State: "waiting"}}, ""},
		"partial":               {[]api.MapServer{partial}, "this EID-Prefix is not registered"},
		"partial elsewhere":     {[]api.MapServer{partial, registered}, ""},
	} {
		r := &Report{Verdict: string(OutcomeOK)}
		addRegistration(r.add, c.servers)
		switch {
		case c.words == "" && len(r.Steps) > 0, c.words != "" && len(r.Steps) != 1:
			t.Errorf("%s: %+v", name, r.Steps)
		case c.words != "" && (!r.Failed() || !strings.Contains(r.Steps[0].Reason, c.words) || r.Steps[0].Remedy == ""):
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestIncomplete: what matters was not tried, and nothing failed.
func TestIncomplete(t *testing.T) {
	untried := Step{Name: LegDataPlane, Outcome: OutcomeNotTried}
	r := &Report{Verdict: string(OutcomeOK)}
	r.add(Step{Name: LegPathMTU, Outcome: OutcomeNotTried})
	if r.Incomplete() || r.Failed() {
		t.Errorf("%+v", r)
	}
	if r.addEssential(untried); !r.Incomplete() || r.Failed() {
		t.Errorf("%+v", r)
	}
	if r.add(Step{Outcome: OutcomeFailed}); r.Incomplete() || !r.Failed() {
		t.Errorf("%+v", r)
	}
	if r.addEssential(untried); !r.Failed() {
		t.Errorf("%+v", r)
	}
}
