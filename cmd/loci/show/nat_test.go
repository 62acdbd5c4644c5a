// SPDX-License-Identifier: Apache-2.0

package show

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
)

// TestNATText: octets of the last hour and the last keepalive stand in it.
func TestNATText(t *testing.T) {
	ago := func(d time.Duration) *time.Time {
		at := time.Now().Add(-d)
		return &at
	}
	for _, c := range []struct {
		rtr  *api.NATRTR
		want string
	}{
		{nil, "in the last hour: 4321 octets"},
		{&api.NATRTR{KeepaliveSeconds: 25, Since: ago(time.Hour), ConfirmedAt: ago(time.Minute), LastKeepaliveAt: ago(9 * time.Second)}, "keepalive 25s, last 9s ago"},
		{&api.NATRTR{KeepaliveSeconds: 25, Since: ago(time.Second)}, "has not answered yet; binding lost 0 times; keepalive 25s, none yet"},
		{&api.NATRTR{Since: ago(time.Hour), LastKeepaliveAt: ago(9 * time.Second), Silent: true}, "it is silent; binding lost 0 times; no keepalives"},
	} {
		var rtrs []api.NATRTR
		if c.rtr != nil {
			c.rtr.Address = netip.MustParseAddr("192.0.2.1")
			rtrs = []api.NATRTR{{Address: netip.MustParseAddr("192.0.2.7"), Since: ago(time.Hour)}, *c.rtr}
		}
		var out strings.Builder
		if err := printNAT(&out, api.NAT{Views: []api.NATView{{MapServer: "192.0.2.1:4342"}}, OctetsSent: 4321, RTRs: rtrs}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) {
			t.Errorf("no %q in\n%s", c.want, out.String())
		}
	}
}
