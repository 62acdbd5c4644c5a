// SPDX-License-Identifier: Apache-2.0

package main_test

// A router with IPv6 alone, behind a NAT64, and a server that is Map-Server and RTR with IPv4 alone. Real daemons, real
// packets.

import (
	"net/netip"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lisp"
)

// nat64Prefix stands for all of IPv4 behind the NAT64. tayga refuses private addresses with 64:ff9b::/96.
var nat64Prefix = netip.MustParsePrefix("2001:db8:64::/96")

// nat64Network has two sites: the router of the first has IPv6 alone. Its NAT64 gives it an IPv4 address, which a NAT
// translates to the only one of the box.
func nat64Network(t *testing.T, engine string) (n *lispNetwork, box testnet.NAT) {
	t.Helper()
	n = newEmptyNetwork(t, "core", "ms", "nat1", "xtr1", "xtr2", "host1", "host2")
	n.engine = engine
	for _, role := range []string{"core", "ms", "nat1", "xtr1"} {
		n.must(n.at[role].Forward())
	}
	n.plugRouter("ms")
	n.ip("ms", "-6 route del default")
	n.ip("ms", "-6 addr flush dev core0 scope global")
	n.buildSite(2)
	one := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
	n.must(testnet.Connect(
		testnet.End{Namespace: n.at["core"], Name: "to-nat1", Addresses: one("172.16.1.1/30")},
		testnet.End{Namespace: n.at["nat1"], Name: "outside", Addresses: one("172.16.1.2/30")}))
	n.must(testnet.Connect(
		testnet.End{Namespace: n.at["nat1"], Name: "inside", Addresses: one("fd99::1/64")},
		testnet.End{Namespace: n.at["xtr1"], Name: "core0", Addresses: one("fd99::2/64")}))
	n.ip("nat1", "route add default via 172.16.1.1")
	n.ip("xtr1", "-6 route add default via fd99::1")
	n.plugHost(1)
	testnet.NAT64{Namespace: n.at["nat1"], Prefix: nat64Prefix, Pool: netip.MustParsePrefix("192.168.255.0/24")}.Start(t)
	box = testnet.NAT{Namespace: n.at["nat1"], Outside: "outside"}
	n.must(box.Start())
	return n, box
}

// behindNAT64 is a configuration whose servers are reached by the NAT64.
func behindNAT64(configuration string) string {
	server := lisp.NAT64Address(nat64Prefix, netip.MustParseAddr("172.16.9.2")).String()
	return strings.NewReplacer("[172.16.9.2]", "['"+server+"']", "ms-address: 172.16.9.2", "ms-address: '"+server+"'",
		"etr:\n", "etr:\n  nat-traversal: {keepalive: 2s}\n").Replace(configuration)
}

// TestSiteBehindNAT64: a site whose router has IPv6 alone, and one whose router has IPv4, reach each other by an RTR
// with IPv4 alone, also after the NAT forgot. The RTR is registered by the address that others know.
func TestSiteBehindNAT64(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n, box := nat64Network(t, engine)
		n.run("ms", n.natServer())
		n.run("xtr2", n.xtr(2))
		n.run("xtr1", behindNAT64(n.xtr(1)))
		one, two := testSite{1}, testSite{2}
		n.awaitPing("host2", two.host4(), one.host4())
		n.showsNAT64()
		n.expectAllTraffic()
		if kinds := n.problemKinds("ms", "xtr1", "xtr2"); len(kinds) > 0 {
			t.Errorf("problems: %v", kinds)
		}
		n.must(box.Forget())
		n.awaitPing("host2", two.host4(), one.host4())
		n.expectAllTraffic()
	})
}

// expectAllTraffic fails the test unless the hosts of both sites reach each other, by both families of EIDs.
func (n *lispNetwork) expectAllTraffic() {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host6(), two.host6(), 5)
	n.ping("host2", two.host6(), one.host6(), 5)
	n.ping("host1", one.host4(), two.host4(), 5)
	for _, tcp := range []testnet.TCP{
		{Client: n.at["host1"], Server: n.at["host2"], Source: one.host4(), Destination: two.host4()},
		{Client: n.at["host2"], Server: n.at["host1"], Source: two.host4(), Destination: one.host4()},
		{Client: n.at["host2"], Server: n.at["host1"], Source: two.host6(), Destination: one.host6()},
	} {
		tcp.Octets, tcp.Verify = 1<<20, true
		if _, err := tcp.Run(n.t.Context()); err != nil {
			n.t.Errorf("TCP from %s: %v", tcp.Source, err)
			n.tellDrops()
		}
	}
}

// showsNAT64 asserts what node and Map-Server show of the NAT64.
func (n *lispNetwork) showsNAT64() {
	n.t.Helper()
	var node api.NAT
	n.show("xtr1", &node, "nat")
	server := netip.MustParseAddr("172.16.9.2")
	if len(node.Views) != 1 || node.Views[0].NAT64Prefix != nat64Prefix.String() || !node.Views[0].BehindNAT ||
		len(node.RTRs) != 1 || node.RTRs[0].Address != lisp.NAT64Address(nat64Prefix, server) || node.RTRs[0].IPv4 == nil || *node.RTRs[0].IPv4 != server {
		n.t.Errorf("the router behind the NAT64 shows %+v", node)
	}
	if out, _ := n.loci("xtr1", "show", "nat", "--socket", n.socket("xtr1")); !containsAll(out, []string{"behind a NAT64", "172.16.9.2 by NAT64"}) {
		n.t.Errorf("it shows\n%s", out)
	}
	if out, _ := n.loci("xtr1", "explain", testSite{2}.host4().String(), "--socket", n.socket("xtr1")); !containsAll(out, []string{"behind a NAT64", "172.16.9.2 by NAT64"}) {
		n.t.Errorf("it explains\n%s", out)
	}
	for eid, list := range n.registrationsOf(n.t.Context()) {
		for _, r := range list {
			for _, l := range r.Locators {
				if nat64Prefix.Contains(l.RLOC.Addr()) {
					n.t.Errorf("%s is registered at %+v, which others do not reach", eid, l)
				}
			}
		}
	}
}
