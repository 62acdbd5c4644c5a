// SPDX-License-Identifier: Apache-2.0

package control

// simple-nat (draft-farinacci-lisp-lispers-net-nat) as lispers.net's code has it, and as the draft does.

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// encoded is a message's octets.
func encoded(t *testing.T, m wire.Message) []byte {
	t.Helper()
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestInfoRequestsOfSimpleNAT: a Map-Server answers both forms, with its RTRs of IPv4; in that of lispers.net's code
// it says where they came from.
func TestInfoRequestsOfSimpleNAT(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	const outside = "198.51.100.1:40007"
	rtrs := []wire.Address{wire.IPv4(netip.MustParseAddr(natServer).As4())}
	none := wire.NoAddress{}
	for _, c := range []struct {
		name string
		ask  *wire.InfoRequest
		want *wire.NATTraversalLCAF
	}{
		{"code", &wire.InfoRequest{Nonce: 7, EID: none, HostName: "home"},
			&wire.NATTraversalLCAF{ETRPort: 40007, GlobalETR: wire.IPv4{198, 51, 100, 1}, MapServer: none, PrivateETR: wire.DistinguishedName("home"), RTRs: rtrs}},
		{"code without a name", &wire.InfoRequest{Nonce: 7, EID: none},
			&wire.NATTraversalLCAF{ETRPort: 40007, GlobalETR: wire.IPv4{198, 51, 100, 1}, MapServer: none, PrivateETR: none, RTRs: rtrs}},
		{"draft", &wire.InfoRequest{Nonce: 7, EID: wire.DistinguishedName("home")},
			&wire.NATTraversalLCAF{GlobalETR: none, MapServer: none, PrivateETR: none, RTRs: rtrs}},
	} {
		server.sent = nil
		server.inject(natServer+":4342", outside, encoded(t, c.ask))
		if len(server.sent) != 1 || server.sent[0].Remote.String() != outside || server.sent[0].Local.Port() != wire.ControlPort {
			t.Fatalf("%s: sent %v", c.name, server.sent)
		}
		want := &wire.InfoReply{InfoRequest: wire.InfoRequest{Nonce: 7, EID: c.ask.EID}, NAT: c.want}
		if got, err := wire.Parse(server.sent[0].Payload); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: answered %+v, %v\nwant %+v", c.name, got, err, want)
		}
	}
	authenticated := &wire.InfoRequest{Nonce: 7, KeyID: 1, AlgorithmID: 2, Authentication: make([]byte, 32), EID: none, HostName: "home"}
	server.sent = nil
	server.inject(natServer+":4342", outside, encoded(t, authenticated))
	server.inject("["+natServer6+"]:4342", "[2001:db8:99::1]:40007", encoded(t, &wire.InfoRequest{EID: none, HostName: "home"}))
	if len(server.sent) != 0 {
		t.Errorf("answered: %v", server.sent)
	}
	server.wantCounter(counter.RefusedEID, 1)
	server.wantCounter(counter.RefusedFamily, 1)
}

// TestInfoRequestFloodOfSimpleNAT: the answers are limited by source, and others get theirs.
func TestInfoRequestFloodOfSimpleNAT(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	ask := encoded(t, &wire.InfoRequest{EID: wire.NoAddress{}, HostName: "home"})
	for range 5000 {
		server.inject(natServer+":4342", "203.0.113.66:1", ask)
	}
	if sent := server.counter(counter.InfoReplySent); sent != 200 {
		t.Errorf("%d answers to one address at once", sent)
	}
	server.wantCounter(counter.RefusedInfoLimit, 4800)
	server.inject(natServer+":4342", "198.51.100.1:40007", ask)
	server.wantCounter(counter.InfoReplySent, 201)
	x1 := n.add("x1", xtrConfig(1, natServer, []string{"192.0.2.1"}, "10.1.0.0/16"), "192.0.2.1")
	x1.inject("192.0.2.1:4342", "198.51.100.1:40007", ask)
	x1.wantCounter(counter.RefusedRole, 1)
	x1.wantCounter(counter.InfoReplySent, 0)
}

// namedLocator is a locator as simple-nat registers it.
func namedLocator(address, name string, priority uint8) lisp.Locator {
	l := lisp.NewLocator(rloc(address))
	b, err := wire.AppendAddress(nil, wire.NamedRLOC(l.RLOC, wire.DistinguishedName(name)))
	if err != nil {
		panic(err)
	}
	l.Address, l.Priority = string(b), priority
	return l
}

// TestPartialRLOCSets: of what an xTR registered by simple-nat ITRs find the RTRs, and those the global RLOCs; what
// another xTR registered is told to all.
func TestPartialRLOCSets(t *testing.T) {
	n := newNetwork(t)
	n.add("server", natServerConfig(nil, "10.1.0.0/16", "10.2.0.0/16"), natServer, natServer6)
	c := xtrConfig(1, natServer, []string{"192.168.1.2"}, "10.1.0.0/16", "10.2.0.0/16")
	c.ETR.MapServers[0].ProxyReply = true
	rtr := lisp.NewLocator(rloc("192.0.2.50"))
	rtr.Priority, rtr.Weight = 254, 0
	set, err := lisp.NewLocatorSet(namedLocator("198.51.100.1", "home-eth0", 1), namedLocator("192.168.1.2", "home-eth0", 1), rtr)
	if err != nil {
		t.Fatal(err)
	}
	c.ETR.Database[0].Locators = set
	last := lisp.NewLocator(rloc("192.0.2.51"))
	last.Priority = 254
	if c.ETR.Database[1].Locators, err = lisp.NewLocatorSet(lisp.NewLocator(rloc("198.51.100.1")), last); err != nil {
		t.Fatal(err)
	}
	n.add("x1", c, "192.168.1.2")
	itr := n.add("itr", xtrConfig(3, natServer, []string{"192.0.2.3"}, "10.3.0.0/16"), "192.0.2.3")
	relay := n.add("rtr", xtrConfig(4, natServer, []string{"192.0.2.50"}, "10.4.0.0/16"), "192.0.2.50")
	n.run(time.Second)
	for _, d := range []*testNode{itr, relay} {
		d.miss("10.3.0.1", "10.1.0.1")
		d.miss("10.3.0.1", "10.2.0.1")
	}
	n.run(time.Second)
	itr.wantCached("10.1.0.0/16", "192.0.2.50")
	itr.wantCached("10.2.0.0/16", "192.0.2.51", "198.51.100.1")
	relay.wantCached("10.1.0.0/16", "198.51.100.1")
	relay.wantCached("10.2.0.0/16", "192.0.2.51", "198.51.100.1")
	replies := slices.DeleteFunc(sentMessages[*wire.MapReply](n.nodes[0]), func(m *wire.MapReply) bool {
		name, ok := wire.HostNameOf(m.Records[0].Locators[0].Address)
		return !ok || name != "home-eth0"
	})
	if len(replies) != 1 {
		t.Errorf("%d Map-Replies have the name", len(replies))
	}
}
