// SPDX-License-Identifier: Apache-2.0

package main_test

// Networks of NATs between a site and the server that is its Map-Server, Map-Resolver, RTR, PETR and PITR. Real
// daemons, real packets.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// natPath is such a network. Sites 1 and 2 reach each other in it.
type natPath struct {
	build func(n *lispNetwork)
	ipv6  bool // of the RLOCs
	after func(n *lispNetwork)
}

var natNetworks = map[string]natPath{
	"IPv6 RLOCs": {build: func(n *lispNetwork) {
		n.natBox("nat1", "core", 1)
		n.behindNAT("nat1", 1, 7)
		n.buildSite(2)
	}, ipv6: true, after: seenAs("2001:db8:1::2")},
	"two sites behind one NAT": {build: func(n *lispNetwork) {
		n.natBox("nat1", "core", 1)
		n.behindNAT("nat1", 1, 7)
		n.behindNAT("nat1", 2, 8)
	}, after: func(n *lispNetwork) {
		if received := n.tryPing("xtr1", netip.Addr{}, netip.MustParseAddr("192.168.8.2"), 1); received > 0 {
			n.t.Error("the routers reach each other without their NAT")
		}
	}},
	"two NATs in a row": {build: func(n *lispNetwork) {
		n.natBox("nat2", "core", 1)
		n.natBox("nat1", "nat2", 5)
		n.behindNAT("nat1", 1, 7)
		n.buildSite(2)
	}, after: seenAs("172.16.1.2")},
	"a NAT with two addresses": {build: func(n *lispNetwork) {
		n.natBox("nat1", "core", 1)
		n.behindNAT("nat1", 1, 7)
		n.buildSite(2)
		n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("172.16.201.2/32"), Via: netip.MustParseAddr("172.16.1.2")}))
		n.sendsDataFrom("172.16.1.2")
	}, after: changesItsAddress},
	"hosts outside LISP": {build: func(n *lispNetwork) {
		n.natBox("nat1", "core", 1)
		n.behindNAT("nat1", 1, 7)
		n.buildSite(2)
		n.plugRouter("net") // a host that knows nothing of LISP
		for eids, via := range map[string]string{"10.0.0.0/8": "172.16.9.2", "fd00::/16": "2001:db8:9::2"} {
			n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(eids), Via: netip.MustParseAddr(via)}))
		}
	}, after: reachesOutside},
}

// natBox is a NAT whose outside is 172.16.NUMBER.2.
func (n *lispNetwork) natBox(name, to string, number int) {
	n.t.Helper()
	n.link(to, "to-"+name, name, "outside", fmt.Sprintf("172.16.%d.1/30", number), fmt.Sprintf("172.16.%d.2/30", number),
		fmt.Sprintf("2001:db8:%d::1/64", number), fmt.Sprintf("2001:db8:%d::2/64", number))
	n.defaults(name, fmt.Sprintf("172.16.%d.1", number), fmt.Sprintf("2001:db8:%d::1", number))
	n.must(n.at[name].Forward())
	n.must(testnet.NAT{Namespace: n.at[name], Outside: "outside"}.Start())
}

// behindNAT puts a site behind a NAT, in a network of its own there.
func (n *lispNetwork) behindNAT(nat string, site, network int) {
	n.t.Helper()
	xtr := testSite{site}.name()
	n.link(nat, "to-"+xtr, xtr, "core0", fmt.Sprintf("192.168.%d.1/24", network), fmt.Sprintf("192.168.%d.2/24", network),
		fmt.Sprintf("fd99:%d::1/64", network), fmt.Sprintf("fd99:%d::2/64", network))
	n.defaults(xtr, fmt.Sprintf("192.168.%d.1", network), fmt.Sprintf("fd99:%d::1", network))
	n.must(n.at[xtr].Forward())
	n.plugHost(site)
	// One network of the NAT does not reach the other.
	n.nft(nat, forwarded(`iifname "to-xtr1" oifname "to-xtr2" drop; iifname "to-xtr2" oifname "to-xtr1" drop`))
}

// natProxyServer is the server, which is a PETR and PITR as well.
func (n *lispNetwork) natProxyServer() string {
	const serve = ": {serve: [{eid-prefixes: [10.1.0.0/24, 'fd00:1::/64']}]}\n"
	return "petr" + serve + "pitr" + serve + n.natServer()
}

// overIPv6 is a configuration with RLOCs of that family.
func overIPv6(text string) string {
	return strings.NewReplacer("address-family: ipv4", "address-family: ipv6", "172.16.9.2", "'2001:db8:9::2'").Replace(text)
}

// TestNATNetworks: sites reach each other through NATs of many kinds, by the RTR, in both directions.
func TestNATNetworks(t *testing.T) {
	for name, c := range natNetworks {
		t.Run(name, func(t *testing.T) {
			overEngines(t, func(t *testing.T, engine string) { c.run(t, engine) })
		})
	}
}

func (c natPath) run(t *testing.T, engine string) {
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "xtr2", "host1", "host2", "nat1", "nat2", "net")
	n.engine = engine
	n.must(n.at["core"].Forward())
	n.plugRouter("ms")
	n.must(n.at["ms"].Forward())
	c.build(n)
	family := func(text string) string { return text }
	if c.ipv6 {
		family = overIPv6
	}
	n.run("ms", family(n.natProxyServer()))
	n.run("xtr1", family(n.natXTR(1)))
	n.run("xtr2", family(n.natXTR(2)))
	one, two := testSite{1}, testSite{2}
	n.awaitPing("host2", two.host4(), one.host4())
	n.awaitPing("host1", one.host6(), two.host6())
	n.ping("host1", one.host4(), two.host4(), 3)
	n.ping("host2", two.host6(), one.host6(), 3)
	n.transfer("host2", "host1", two.host4(), one.host4())
	c.after(n)
}

// seenAs asserts from which address the RTR gets packets of site 1.
func seenAs(want string) func(n *lispNetwork) {
	return func(n *lispNetwork) {
		if got := n.natSeen(testSite{1}.eid4()); got != netip.MustParseAddr(want) {
			n.t.Errorf("site 1 is seen as %s, want %s", got, want)
		}
	}
}

// natSeen is the address by which the RTR reaches an EID-Prefix.
func (n *lispNetwork) natSeen(prefix string) netip.Addr {
	n.t.Helper()
	var shown api.NAT
	n.show("ms", &shown, "nat")
	at := slices.IndexFunc(shown.Bindings, func(b api.NATBinding) bool { return b.EIDPrefix.String() == prefix })
	if at < 0 {
		return netip.Addr{}
	}
	seen, err := netip.ParseAddrPort(shown.Bindings[at].RLOCs[0].SeenAs)
	n.must(err)
	return seen.Addr()
}

// sendsDataFrom has the NAT before site 1 give data one of its addresses, and what else leaves from port 4342 the other.
func (n *lispNetwork) sendsDataFrom(address string) {
	n.t.Helper()
	other := map[string]string{"172.16.1.2": "172.16.201.2", "172.16.201.2": "172.16.1.2"}[address]
	n.nft("nat1", `chain addresses { type nat hook postrouting priority srcnat - 1;
		oifname "outside" udp sport 4342 snat ip to `+other+` fully-random
		oifname "outside" meta l4proto udp snat ip to `+address+` fully-random; }`)
}

// changesItsAddress has the NAT forget its bindings, and give others of another address.
func changesItsAddress(n *lispNetwork) {
	for _, address := range []string{"172.16.1.2", "172.16.201.2", "172.16.1.2"} {
		n.sendsDataFrom(address)
		n.must(testnet.NAT{Namespace: n.at["nat1"], Outside: "outside"}.Forget())
		n.awaitWithin(natKeepalive+4*time.Second, "host1 is reached again", func(ctx context.Context) bool {
			result, err := testnet.Ping{Namespace: n.at["host2"], Source: testSite{2}.host4(), Destination: testSite{1}.host4(), Timeout: 200 * time.Millisecond}.Run(ctx)
			return err == nil && result.Received == 1
		})
		seenAs(address)(n)
	}
}

// reachesOutside: packets to a host outside LISP leave at the server, by its PETR, and the answers come back by its PITR.
func reachesOutside(n *lispNetwork) {
	before := n.dataPlane("ms").DataPlane["native_packets_total"]
	n.ping("host1", testSite{1}.host4(), netip.MustParseAddr(rlocOf("net", false)), 3)
	n.ping("host1", testSite{1}.host6(), netip.MustParseAddr(rlocOf("net", true)), 3)
	n.transfer("host1", "net", testSite{1}.host4(), netip.MustParseAddr(rlocOf("net", false)))
	n.transfer("net", "host1", netip.MustParseAddr(rlocOf("net", true)), testSite{1}.host6())
	if after := n.dataPlane("ms").DataPlane["native_packets_total"]; after < before+6 {
		n.t.Errorf("the PETR forwarded %d packets", after-before)
		n.tellDrops()
	}
}
