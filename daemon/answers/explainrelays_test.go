// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/dataplane"
)

// TestExplainRelays: what each role makes of a packet, from its source and its destination; an own EID comes before all of them.
func TestExplainRelays(t *testing.T) {
	prefix := func(p string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(p)} }
	rtr := dataplane.RolePolicy{Role: dataplane.RoleRTR, EIDs: prefix("10.2.0.0/16")}
	pitr := dataplane.RolePolicy{Role: dataplane.RolePITR, EIDs: prefix("10.2.0.0/16"), Sources: prefix("198.51.100.0/24")}
	petr := dataplane.RolePolicy{Role: dataplane.RolePETR, EIDs: prefix("10.5.0.0/16")}
	for _, c := range []struct {
		roles   []dataplane.RolePolicy
		query   string
		outcome api.Outcome
		why     string
		takes   string
	}{
		{[]dataplane.RolePolicy{rtr}, "eid=10.1.0.7&from=10.2.0.1", api.OutcomeOwn, "10.1.0.0/16 is an EID-Prefix of this site", ""},
		{[]dataplane.RolePolicy{rtr}, "eid=10.2.0.7", api.OutcomeEncapsulate, "rtr: packets to it that come from the core are relayed", "rtr true"},
		{[]dataplane.RolePolicy{rtr}, "eid=10.9.0.7&from=10.2.0.1", api.OutcomeDrop, "rtr: a packet from 10.2.0.1 that comes from the core is relayed: the policy names the source", "rtr true"},
		{[]dataplane.RolePolicy{rtr}, "eid=10.9.0.7&from=10.8.0.1", api.OutcomeNotInPolicy, "dropped as not-in-policy", "rtr false"},
		{[]dataplane.RolePolicy{rtr}, "eid=10.9.0.7&from=10.1.0.1", api.OutcomeDrop, "rtr: a packet from 10.1.0.1 is not relayed", "rtr false"}, // it is the site's
		{[]dataplane.RolePolicy{rtr}, "eid=10.2.0.7&instance_id=7&from=10.2.0.1", api.OutcomeEncapsulate, "1 of 1 locators", ""},
		{[]dataplane.RolePolicy{pitr}, "eid=10.2.0.7&from=198.51.100.9", api.OutcomeEncapsulate, "pitr: packets of hosts outside LISP to it are encapsulated: the policy names it", "pitr true"},
		{[]dataplane.RolePolicy{pitr}, "eid=10.2.0.7&from=203.0.113.77", api.OutcomeNotInPolicy, "sources does not name it", "pitr false"},
		{[]dataplane.RolePolicy{pitr}, "eid=10.3.0.7&from=198.51.100.9", api.OutcomeNotInPolicy, "go their plain way", "pitr false"},
		{[]dataplane.RolePolicy{petr}, "eid=8.8.8.8&from=10.5.0.1", api.OutcomeNative, "petr: a packet from 10.5.0.1 that comes from the core is forwarded natively", "petr true"},
		{[]dataplane.RolePolicy{petr}, "eid=8.8.8.8&from=10.6.0.1", api.OutcomeNotInPolicy, "petr: a packet from 10.6.0.1 is not forwarded", "petr false"},
		{[]dataplane.RolePolicy{rtr, pitr, petr}, "eid=10.2.0.7&from=10.5.0.1", api.OutcomeEncapsulate, "rtr: packets to it", "rtr true pitr false petr true"},
	} {
		x := newExplained(t)
		settings := x.plane.Settings()
		settings.Roles = c.roles
		if err := settings.CheckRoles(); err != nil {
			t.Fatal(err)
		}
		x.plane.Apply(dataplane.SetSettings{Settings: settings})
		got := x.ask(c.query)
		var takes []string
		for _, r := range got.Roles {
			takes = append(takes, fmt.Sprint(r.Role, " ", r.Takes))
		}
		if text := strings.Join(got.Why, "\n"); got.Outcome != c.outcome || !strings.Contains(text, c.why) || strings.Join(takes, " ") != c.takes {
			t.Errorf("%s: %s, %v\n%s\nwant %s, %s, %q", c.query, got.Outcome, takes, text, c.outcome, c.takes, c.why)
		}
	}
}
