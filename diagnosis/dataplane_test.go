// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/lisp"
)

// TestLossesAreJudged: by answers first, then by counters, and not by counters that are not there.
func TestLossesAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		error *echoError
		with  counts
		want  string
		drops bool
	}{
		"the host is away":        {&echoError{from: netip.MustParseAddr("10.2.0.1"), what: "host unreachable"}, counts{}, "host unreachable (10.2.0.1)", false},
		"this router refuses":     {&echoError{from: netip.MustParseAddr("10.1.0.1"), what: "filtered"}, counts{}, "this router refuses them: filtered", false},
		"nothing leaves":          {nil, counts{}, "this router encapsulates nothing", false},
		"nothing leaves, dropped": {nil, counts{after: api.Counters{Drops: map[string]uint64{"no-route": 3}}}, "this router encapsulates nothing", true},
		"nothing comes back":      {nil, counts{after: api.Counters{DataPlane: map[string]uint64{"encapsulated_packets_total": 3}}}, "nothing comes back", false},
		"no counters": {
			nil, counts{after: api.Counters{Drops: map[string]uint64{"no-route": 3}}, err: errors.New("no daemon answers")},
			"the echo requests are lost, and the daemon does not tell its counters: no daemon answers", false,
		},
	} {
		p := &pinging{counts: c.with, found: true, mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/24")}, report: &PingReport{}}
		var s Step
		p.judgeLoss([]*echo{{error: c.error}}, nil, &s)
		if !strings.Contains(s.Reason, c.want) || s.Remedy == "" || strings.Contains(s.Detail, "no-route 3") != c.drops {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
