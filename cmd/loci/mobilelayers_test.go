// SPDX-License-Identifier: Apache-2.0

package main_test

// Mobile nodes that visit sites: their RLOCs are EIDs of these, so that packets between them have two layers.

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"loci/internal/testnet"
)

// visited is a site that a mobile node visits, 1 or 5.
type visited struct{ number int }

func (v visited) gateway() string { return fmt.Sprintf("gw%d", v.number) }
func (v visited) node() string    { return map[int]string{1: "mn", 5: "mn5"}[v.number] }
func (v visited) rloc() string    { return fmt.Sprintf("172.20.%d.2", v.number) }

// visitedSites is mn - gw1 - core - gw5 - mn5. The core forwards control messages to EIDs, as a PITR would, and no other
// packets: what the nodes send each other needs a second layer.
func visitedSites(t *testing.T, engine string) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "gw1", "gw5", "mn", "mn5")
	n.engine = engine
	n.must(n.at["core"].Forward())
	n.plugRouter("ms")
	for _, v := range []visited{{1}, {5}} {
		n.link("core", "to-"+v.gateway(), v.gateway(), "core0",
			fmt.Sprintf("172.16.%d.1/30", v.number), fmt.Sprintf("172.16.%d.2/30", v.number),
			fmt.Sprintf("2001:db8:%d::1/64", v.number), fmt.Sprintf("2001:db8:%d::2/64", v.number))
		n.defaults(v.gateway(), fmt.Sprintf("172.16.%d.1", v.number), fmt.Sprintf("2001:db8:%d::1", v.number))
		n.must(n.at[v.gateway()].Forward())
		inside := netip.MustParsePrefix(fmt.Sprintf("172.20.%d.1/24", v.number))
		n.must(testnet.Connect(
			testnet.End{Namespace: n.at[v.gateway()], Name: "site0", Addresses: []netip.Prefix{inside}}, testnet.End{Namespace: n.at[v.node()], Name: "wlan0"}))
		n.ip(v.node(), "link set wlan0 up")
		n.ip(v.node(), "addr add %s/24 dev wlan0", v.rloc())
		n.ip(v.node(), "route add default via %s dev wlan0", inside.Addr())
		n.ip("core", "route add 172.20.%d.0/24 via 172.16.%d.2 table 100", v.number, v.number)
	}
	n.ip("core", "rule add ipproto udp dport 4342 lookup 100 priority 100")
	return n
}

// visitedMappingSystem knows the sites, and the EIDs of the nodes.
func (n *lispNetwork) visitedMappingSystem() string {
	text := n.mobileMappingSystem()
	sites := ""
	for _, v := range []visited{{1}, {5}} {
		sites += fmt.Sprintf("    - name: %s\n      authentication-keys: [{auth-key-value: key-of-%s}]\n      eid-prefixes: [{eid: 172.20.%d.0/24}]\n",
			v.gateway(), v.gateway(), v.number)
	}
	sites += fmt.Sprintf("    - name: mn5\n      authentication-keys: [{auth-key-value: %s}]\n      eid-prefixes: [{eid: 10.5.0.7/32}, {eid: 'fd00:5::7/128'}]\n", siteKey(5))
	return strings.Replace(text, "  sites:\n", "  sites:\n"+sites, 1)
}

// gateway is the configuration of a visited site's router.
func (n *lispNetwork) gateway(v visited) string {
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\n"+
		"etr:\n  map-servers:\n    - ms-address: 172.16.9.2\n      authentication-keys: [{auth-key-value: key-of-%s}]\n"+
		"  local-eids: [{eid: 172.20.%d.0/24, rlocs: [{address: 172.16.%d.2}]}]\n", v.gateway(), v.number, v.number) +
		strings.Replace(n.common(v.gateway()), "datapath:\n", "datapath:\n  recursion-depth: 2\n", 1)
}

// visitor is the configuration of a mobile node, that adds so many layers.
func (n *lispNetwork) visitor(v visited, depth int) string {
	text := strings.NewReplacer("10.1.0.7", fmt.Sprintf("10.%d.0.7", v.number), "fd00:1::7", fmt.Sprintf("fd00:%d::7", v.number),
		siteKey(1), siteKey(v.number), ", wwan0]", "]", "/mn", "/"+v.node()).Replace(n.mobileNode("default-route: true"))
	return strings.Replace(text, "datapath:\n", fmt.Sprintf("datapath:\n  recursion-depth: %d\n", depth), 1)
}

// TestVisitingMobileNodes reach each other's EIDs. The outer layer is added by the ITR of the site, or by the node.
// Four data planes in the kernel take their time: that is for the environment to choose.
func TestVisitingMobileNodes(t *testing.T) {
	t.Parallel() // it mostly waits
	n := visitedSites(t, cmp.Or(os.Getenv(testEngine), "user"))
	n.run("ms", n.visitedMappingSystem())
	n.run("gw1", n.gateway(visited{1}))
	n.run("gw5", n.gateway(visited{5}))
	n.awaitRegistrations(2)
	const byITR, byNode = 1, 2
	n.run("mn", n.visitor(visited{1}, byITR))
	n.run("mn5", n.visitor(visited{5}, byNode))
	n.awaitRegistrations(6)
	five4, five6 := netip.MustParseAddr("10.5.0.7"), netip.MustParseAddr("fd00:5::7")
	n.awaitPing("mn", mobile4, five4)
	n.ping("mn5", five6, mobile6, 3)
	for _, tcp := range []testnet.TCP{
		{Client: n.at["mn"], Server: n.at["mn5"], Destination: five4}, {Client: n.at["mn5"], Server: n.at["mn"], Destination: mobile6},
	} {
		tcp.Octets, tcp.Verify = 1<<18, true
		if _, err := tcp.Run(t.Context()); err != nil {
			t.Errorf("TCP to %s: %v", tcp.Destination, err)
			n.tellDrops()
		}
	}
	if c := n.dataPlane("mn").DataPlane; c["encapsulated_twice"] > 0 {
		t.Errorf("mn adds two layers: %v", c)
	}
	if c := n.dataPlane("mn5").DataPlane; c["encapsulated_twice"] == 0 {
		t.Errorf("mn5 adds one layer: %v", c)
	}
	if c := n.dataPlane("gw1").DataPlane; c["encapsulated_packets_total"] < 10 {
		t.Errorf("gw1 adds no layer: %v", c)
	}
}
