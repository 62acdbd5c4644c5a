// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// policedServer is a Map-Server with a policy for the first of its sites.
func policedServer(t *testing.T, p SitePolicy) (*testNetwork, *testNode) {
	t.Helper()
	n := newNetwork(t)
	c := mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.1.64.0/18")
	c.MapServer.Sites[0].Policy = p
	ms := n.add("ms", c, "192.0.2.100", "2001:db8:f::100")
	n.run(serverStart)
	return n, ms
}

// ask sends a Map-Request and returns the record of the answer, if there is one.
func ask(t *testing.T, ms *testNode, asked string, itrs ...string) (wire.Record, bool) {
	t.Helper()
	ms.sent = nil
	local, from := "192.0.2.100:4342", "192.0.2.9:4342"
	if !netip.MustParseAddr(itrs[0]).Is4() {
		local, from = "[2001:db8:f::100]:4342", "[2001:db8:f::9]:4342"
	}
	ms.inject(local, from, encapsulated(t, wire.MapRequest{Nonce: 1}, asked, itrs...))
	replies := sentMessages[*wire.MapReply](ms)
	if len(replies) == 0 {
		return wire.Record{}, false
	}
	return replies[0].Records[0], true
}

func TestPolicyByRequester(t *testing.T) {
	core4, core6 := netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:c::/48")
	inside := []netip.Prefix{core4, core6}
	for _, c := range []struct {
		name   string
		policy SitePolicy
		itrs   []string
		denied bool
	}{
		{"no policy", SitePolicy{}, []string{"203.0.113.1"}, false},
		{"allowed", SitePolicy{AllowedITRs: inside}, []string{"198.51.100.7"}, false},
		{"allowed, IPv6", SitePolicy{AllowedITRs: inside}, []string{"2001:db8:c::7"}, false},
		{"allowed, both", SitePolicy{AllowedITRs: inside}, []string{"198.51.100.7", "2001:db8:c::7"}, false},
		{"not among the allowed", SitePolicy{AllowedITRs: inside}, []string{"203.0.113.1"}, true},
		{"not among the allowed, IPv6", SitePolicy{AllowedITRs: inside}, []string{"2001:db8:d::7"}, true},
		{"one not allowed", SitePolicy{AllowedITRs: inside}, []string{"198.51.100.7", "203.0.113.1"}, true},
		{"denied", SitePolicy{DeniedITRs: inside}, []string{"198.51.100.7"}, true},
		{"not denied", SitePolicy{DeniedITRs: inside}, []string{"203.0.113.1"}, false},
		{"denied among the allowed", SitePolicy{AllowedITRs: inside, DeniedITRs: []netip.Prefix{netip.MustParsePrefix("198.51.100.7/32")}}, []string{"198.51.100.7"}, true},
	} {
		for _, registered := range []bool{true, false} {
			_, ms := policedServer(t, c.policy)
			if registered {
				ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.ProxyReply = true }, "10.1.0.0/16", "2001:db8:1::/48"))
			}
			for _, asked := range []string{"10.1.0.9/32", "2001:db8:1::9/128"} {
				record, ok := ask(t, ms, asked, c.itrs...)
				if !ok || (record.Action == lisp.ActionDropPolicyDenied) != c.denied || (len(record.Locators) > 0) != (registered && !c.denied) {
					t.Errorf("%s, registered %v, %s: %v %+v", c.name, registered, asked, ok, record)
				}
			}
			if denied := ms.counter(counter.MapRequestDenied) == 2; denied != c.denied {
				t.Errorf("%s: %d denied", c.name, ms.counter(counter.MapRequestDenied))
			}
		}
	}
}

// TestDenialCoversNoOtherSite: the answer stops at the EID-Prefixes of other sites.
func TestDenialCoversNoOtherSite(t *testing.T) {
	everybody := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, c := range []struct {
		policy SitePolicy
		ttl    uint32
		action lisp.Action
	}{
		{SitePolicy{DeniedITRs: everybody}, 15, lisp.ActionDropPolicyDenied},
		{SitePolicy{DeniedITRs: everybody, DenialTTLMinutes: 3}, 3, lisp.ActionDropPolicyDenied},
		{SitePolicy{DeniedITRs: everybody, TemporaryDenial: true, DenialTTLMinutes: 3}, 1, lisp.ActionSendMapRequest},
	} {
		_, ms := policedServer(t, c.policy)
		for asked, hole := range map[string]string{"10.1.0.9/32": "10.1.0.0/18", "10.1.200.1/32": "10.1.128.0/17", "2001:db8:1::1/128": "2001:db8:1::/48"} {
			record, _ := ask(t, ms, asked, "203.0.113.1")
			p, err := record.Prefix()
			if err != nil || p.String() != hole || record.TTLMinutes != c.ttl || record.Action != c.action || record.Authoritative {
				t.Errorf("the answer for %s is about %s, %+v", asked, p, record)
			}
		}
		record, _ := ask(t, ms, "10.1.64.1/32", "203.0.113.1") // the other site's
		if record.Action != lisp.ActionNativelyForward {
			t.Errorf("the policy of one site was applied to another: %+v", record)
		}
	}
}

func TestAuthFailureIsAnsweredWhereWanted(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		n, ms := policedServer(t, SitePolicy{AnswerAuthFailure: wanted})
		record, _ := ask(t, ms, "10.1.0.9/32", "203.0.113.1")
		if record.Action != lisp.ActionNativelyForward {
			t.Errorf("before any failure: %+v", record)
		}
		n.run(4 * time.Second)
		forged := register(t, nil, "10.1.0.0/16")
		forged[20]++
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", forged)
		record, _ = ask(t, ms, "10.1.0.9/32", "203.0.113.1")
		if (record.Action == lisp.ActionDropAuthFailure) != wanted || record.TTLMinutes != 1 {
			t.Errorf("wanted %v: %+v", wanted, record)
		}
		n.run(4 * time.Second)
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.ProxyReply = true }, "10.1.0.0/16"))
		if record, _ = ask(t, ms, "10.1.0.9/32", "203.0.113.1"); len(record.Locators) == 0 {
			t.Errorf("a forged Map-Register hides a registration: %+v", record)
		}
		n.run(10 * time.Minute)
		record, _ = ask(t, ms, "10.1.0.9/32", "203.0.113.1")
		if record.Action != lisp.ActionNativelyForward {
			t.Errorf("long after the failure: %+v", record)
		}
	}
}

func TestProxyReplyTTL(t *testing.T) {
	for _, ttl := range []uint32{0, 3, 60} {
		_, ms := policedServer(t, SitePolicy{ProxyReplyTTLMinutes: ttl})
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.ProxyReply = true }, "10.1.0.0/16", "2001:db8:1::/48"))
		want := ttl
		if ttl == 0 {
			want = 10
		}
		for _, asked := range []string{"10.1.0.9/32", "2001:db8:1::9/128"} {
			if record, _ := ask(t, ms, asked, "203.0.113.1"); record.TTLMinutes != want {
				t.Errorf("TTL %d for %s, want %d", record.TTLMinutes, asked, want)
			}
		}
	}
}

func TestLimitsOfASite(t *testing.T) {
	n, ms := policedServer(t, SitePolicy{MaxRegistrations: 3, MapRegisters: Rate{PerSecond: 1, Burst: 5}})
	for i := range 10 {
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342",
			register(t, func(m *wire.MapRegister) { m.Nonce = uint64(i) + 1 }, fmt.Sprintf("10.1.%d.0/24", i)))
	}
	ms.wantCounter(counter.RefusedSiteTable, 2)
	ms.wantCounter(counter.RefusedSiteRate, 5)
	if got := len(ms.registered()); got != 3 {
		t.Errorf("%d registrations", got)
	}
	n.run(2 * time.Second)
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce = 20 }, "10.1.0.0/24"))
	ms.wantCounter(counter.RefusedSiteRate, 5)
	// Another site has its own limits.
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce = 21 }, "10.1.64.0/24"))
	if !slices.ContainsFunc(ms.registered(), func(r Registration) bool { return r.Site == "site 10.1.64.0/18" }) {
		t.Error("one site's limits were applied to another")
	}
}

func TestRefusedSitePolicies(t *testing.T) {
	for _, p := range []SitePolicy{
		{AllowedITRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}, {DeniedITRs: []netip.Prefix{{}}},
		{MaxRegistrations: -1}, {MapRegisters: Rate{PerSecond: 5}},
	} {
		c := mapServerConfig("10.1.0.0/16")
		c.MapServer.Sites[0].Policy = p
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}
