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
		{&api.NATRTR{Protocol: "ermagan", KeepaliveSeconds: 25, Since: ago(time.Second)}, "192.0.2.1 (ermagan) since 1s: it has not answered yet; binding lost 0 times; keepalive 25s, none yet"},
		{&api.NATRTR{Since: ago(time.Hour), LastKeepaliveAt: ago(9 * time.Second), Silent: true}, "it is silent; binding lost 0 times; no keepalives"},
		{&api.NATRTR{Protocol: "simple", Since: ago(time.Hour), ConfirmedAt: ago(time.Minute)},
			"192.0.2.1 (simple) since 1h0m: it answered 1m0s ago; no keepalives"},
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

// TestHostsOfAnRTR: hosts stand below bindings, their names as Go quotes them, and how many more there are.
func TestHostsOfAnRTR(t *testing.T) {
	heard := time.Now().Add(-9 * time.Second)
	var out strings.Builder
	if err := printNAT(&out, api.NAT{HostCount: 3, Hosts: []api.NATHost{{Name: "home\x1b[2J", Protocol: "simple",
		SeenAs: "198.51.100.1:40007", HeardAt: &heard, Mappings: 2, Moves: 5}}}); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(out.String()), " ")
	if want := `HOST FORWARDED TO PROTOCOL MAPPINGS MOVES HEARD "home\x1b[2J" 198.51.100.1:40007 simple 2 5 9s ago and 2 more`; words != want {
		t.Errorf("%s\nwant %s", words, want)
	}
}

// TestBindingsOfAnRTR: a router has a row for each of its RLOCs, with its priority, and is one of the EID-Prefixes.
func TestBindingsOfAnRTR(t *testing.T) {
	at := time.Now().Add(-9 * time.Second)
	b := api.NATBinding{
		Protocol: "ermagan", EIDPrefix: lisp.MustParsePrefix("10.1.0.0/16"),
		MapServer: netip.MustParseAddr("192.0.2.1"), VerifiedAt: &at, Moves: 3,
		RLOCs: []api.NATRLOC{
			{SeenAs: "198.51.100.1:40007", Private: netip.MustParseAddr("192.168.1.2"), Priority: 1},
			{SeenAs: "198.51.100.2:40009", Private: netip.MustParseAddr("192.168.2.2"), Priority: 255},
		},
	}
	var out strings.Builder
	if err := printNAT(&out, api.NAT{BindingCount: 3, Bindings: []api.NATBinding{b}}); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(out.String()), " ")
	want := "EID-PREFIX FORWARDED TO PRIVATE RLOC PRIORITY PROTOCOL MAP-SERVER MOVES VERIFIED " +
		"10.1.0.0/16 198.51.100.1:40007 192.168.1.2 1 ermagan 192.0.2.1 3 9s ago " +
		"10.1.0.0/16 198.51.100.2:40009 192.168.2.2 255 ermagan 192.0.2.1 3 9s ago and 2 more"
	if words != want {
		t.Errorf("%s\nwant %s", words, want)
	}
}
