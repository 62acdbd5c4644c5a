// SPDX-License-Identifier: Apache-2.0

package control

// Several sites in one ETR, each with its keys and Map-Servers (RFC 9301 s.5.6: a
// pre-shared key is unique per site), and mappings that Map-Requests bring along (s.5.3).

import (
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

func twoSitesInOneETR(t *testing.T) (*testNetwork, *testNode, *testNode) {
	n := newNetwork(t)
	north, south := secret(1), Key{ID: 1, Secret: []byte("another site's secret")}
	cfg := mapServerConfig("10.1.0.0/16", "10.2.0.0/16 [7]10.1.0.0/16")
	cfg.MapServer.Sites[1].Keys = []Key{south}
	ms := n.add("ms", cfg, "192.0.2.100")
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16", "10.2.0.0/16", "[7]10.1.0.0/16")
	c.ETR.MapServers = []MapServerPeer{
		{Address: addrPort("192.0.2.100"), Site: "north", Key: north, WantMapNotify: true},
		{Address: addrPort("192.0.2.100"), Site: "south", Key: south, WantMapNotify: true},
	}
	for i, site := range []string{"north", "south", "south"} {
		c.ETR.Database[i].Site = site
	}
	x := n.add("x", c, "192.0.2.1")
	n.run(time.Second)
	return n, x, ms
}

func TestSeveralSitesInOneETR(t *testing.T) {
	n, x, ms := twoSitesInOneETR(t)
	if got := len(ms.registered()); got != 3 {
		t.Fatalf("%d registrations, want 3", got)
	}
	for s := range x.MapServers() {
		want := map[string]int{"north": 1, "south": 2}[s.Site]
		if s.State != MapServerRegistered || s.Prefixes != want {
			t.Errorf("site %s is %s with %d EID-Prefixes, want %d", s.Site, s.State, s.Prefixes, want)
		}
	}
	// One site's change is no affair of the other's Map-Server.
	c := x.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database[:2]...)
	c.ETR = &etr
	before := len(x.sent)
	x.configure(c)
	n.run(500 * time.Millisecond)
	if got := len(ms.registered()); got != 2 {
		t.Errorf("%d registrations after one was taken away", got)
	}
	for _, m := range sentMessages[*wire.MapRegister](x)[before:] {
		if p, _ := m.Records[0].Prefix(); p == lisp.MustParsePrefix("10.1.0.0/16") {
			t.Error("the site that did not change registered anew")
		}
	}
}

func TestPrefixThatMovesToAnotherSite(t *testing.T) {
	n, x, ms := twoSitesInOneETR(t)
	ms.configure(func() Config {
		c := mapServerConfig("10.1.0.0/16 [7]10.1.0.0/16", "10.2.0.0/16")
		c.MapServer.Sites[1].Keys = []Key{{ID: 1, Secret: []byte("another site's secret")}}
		return c
	}())
	c := x.config
	etr := *c.ETR
	etr.Database = append([]DatabaseMapping(nil), etr.Database...)
	etr.Database[2].Site = "north"
	c.ETR = &etr
	x.configure(c)
	n.run(time.Second)
	got := map[string]string{}
	for _, r := range ms.registered() {
		got[r.Prefix.String()] = r.Site
	}
	if got["[7]10.1.0.0/16"] != "site 10.1.0.0/16 [7]10.1.0.0/16" {
		t.Errorf("registered: %v", got)
	}
}

func TestShutdownWithdrawsEachSite(t *testing.T) {
	n, x, ms := twoSitesInOneETR(t)
	c := x.config
	etr := *c.ETR
	etr.WithdrawOnShutdown = true
	c.ETR = &etr
	x.configure(c)
	n.run(time.Second)
	x.Shutdown(n.now)
	x.drain()
	n.run(time.Second)
	if got := ms.registered(); len(got) != 0 {
		t.Errorf("%d registrations are left", len(got))
	}
}

// piggybackingRequest is a Map-Request for one of x2's EIDs that brings a mapping along.
func piggybackingRequest(nonce uint64, mapping lisp.Mapping) []byte {
	record := wire.RecordOf(mapping)
	m := wire.MapRequest{
		MapDataPresent: true, MapReplyRecord: &record, Nonce: nonce, SourceEID: wire.EIDAddress(0, mapping.Prefix.EID()),
		ITRRLOCs: []wire.Address{wire.RLOCAddress(rloc("192.0.2.66"))},
		Records:  []wire.RequestRecord{{EID: wire.EIDAddress(0, eid("10.2.0.9")), MaskLen: 32}},
	}
	b, err := m.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return b
}

// Shows RFC 9301 s.5.3 (6).
func TestPiggybackedMappingIsVerified(t *testing.T) {
	n, _, x2, _ := twoSites(t)
	n.run(time.Second)
	lie := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), TTLMinutes: 10, Authoritative: true, Locators: locators("192.0.2.66")}
	x2.inject("192.0.2.2:4342", "192.0.2.66:4342", piggybackingRequest(1, lie))
	n.run(time.Second)
	if len(x2.cache) != 0 || x2.counter(counter.MapRequestSent) != 0 {
		t.Error("a piggybacked mapping was looked at, which is off by default")
	}
	c := x2.config
	etr := *c.ETR
	etr.VerifyPiggybacked = true
	c.ETR = &etr
	x2.configure(c)
	for i := range uint64(20) {
		x2.inject("192.0.2.2:4342", "192.0.2.66:4342", piggybackingRequest(2+i, lie))
	}
	n.run(time.Second)
	x2.wantCached("10.1.0.0/16", "192.0.2.1", "2001:db8:f::1") // the mapping system's word, not the sender's
	x2.wantCounter(counter.VerifyingMapRequestSent, uint64(DefaultLimits().SMRInvoked.Burst))
	own := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.7.0/24"), TTLMinutes: 10, Locators: locators("192.0.2.66")}
	x2.inject("192.0.2.2:4342", "192.0.2.66:4342", piggybackingRequest(99, own))
	x2.wantCounter(counter.RefusedPiggybacked, 1)
}
