// SPDX-License-Identifier: Apache-2.0

// The network of `loci bench failover`: two routers and a host at one switch, a provider for each router, a core without any
// route to an EID, another site, and a mapping system. Configurations are as docs/multihoming.md shows them.

package forwarding

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

var (
	failoverHost1 = netip.MustParseAddr("10.1.0.10")
	failoverHost2 = netip.MustParseAddr("10.2.0.10")
	failoverRLOC1 = netip.MustParseAddr("172.16.1.2")
	failoverRLOC3 = netip.MustParseAddr("172.16.3.2")
)

type failoverNetwork struct {
	at               map[string]*testnet.Namespace
	xtr1, xtr2, xtr3 *testbed.Process
}

// failoverLinks are veth pairs: namespace, interface, address, at both ends.
var failoverLinks = [][2][3]string{
	{{"core", "to-ms", "172.16.9.1/30"}, {"ms", "core0", "172.16.9.2/30"}},
	{{"core", "to-isp1", "172.16.21.1/30"}, {"isp1", "core0", "172.16.21.2/30"}},
	{{"core", "to-isp3", "172.16.23.1/30"}, {"isp3", "core0", "172.16.23.2/30"}},
	{{"core", "to-xtr2", "172.16.2.1/30"}, {"xtr2", "core0", "172.16.2.2/30"}},
	{{"isp1", "to-xtr1", "172.16.1.1/30"}, {"xtr1", "core0", "172.16.1.2/30"}},
	{{"isp3", "to-xtr3", "172.16.3.1/30"}, {"xtr3", "core0", "172.16.3.2/30"}},
	{{"lan", "to-xtr1", ""}, {"xtr1", "site0", "10.1.0.1/24"}},
	{{"lan", "to-xtr3", ""}, {"xtr3", "site0", "10.1.0.2/24"}},
	{{"lan", "to-host1", ""}, {"host1", "eth0", "10.1.0.10/24"}},
	{{"xtr2", "site0", "10.2.0.1/24"}, {"host2", "eth0", "10.2.0.10/24"}},
}

// failoverRoutes are namespace, destination, gateway.
var failoverRoutes = [][3]string{
	{"ms", "0.0.0.0/0", "172.16.9.1"}, {"xtr2", "0.0.0.0/0", "172.16.2.1"}, {"host2", "0.0.0.0/0", "10.2.0.1"},
	{"isp1", "0.0.0.0/0", "172.16.21.1"}, {"isp3", "0.0.0.0/0", "172.16.23.1"},
	{"core", "172.16.1.0/30", "172.16.21.2"}, {"core", "172.16.3.0/30", "172.16.23.2"},
	{"xtr1", "0.0.0.0/0", "172.16.1.1"}, {"xtr3", "0.0.0.0/0", "172.16.3.1"}, {"host1", "0.0.0.0/0", "10.1.0.1"},
}

func buildFailover(ctx context.Context, b *testbed.Run) (*failoverNetwork, error) {
	n := &failoverNetwork{at: map[string]*testnet.Namespace{}}
	if err := errors.Join(n.makeNamespaces(b.Network), n.connect()); err != nil {
		return nil, err
	}
	if err := n.at["lan"].AddBridge("switch", "to-xtr1", "to-xtr3", "to-host1"); err != nil {
		return nil, err
	}
	for i := 1; i < pingTargets; i++ {
		if err := n.at["host2"].AddAddress("eth0", netip.PrefixFrom(pingTarget(i), 24)); err != nil {
			return nil, err
		}
	}
	// A host that believes ICMP redirects would leave the first router for good after the sibling forwarded once.
	for _, name := range []string{"all", "eth0"} {
		if err := n.at["host1"].SetSysctl("net.ipv4.conf."+name+".accept_redirects", "0"); err != nil {
			return nil, err
		}
	}
	return n, n.start(ctx, b)
}

func (n *failoverNetwork) makeNamespaces(network *testnet.Network) error {
	for _, role := range []string{"core", "ms", "isp1", "isp3", "xtr1", "xtr2", "xtr3", "lan", "host1", "host2"} {
		ns, err := network.Namespace(role)
		if err != nil {
			return err
		}
		n.at[role] = ns
	}
	for _, role := range []string{"core", "isp1", "isp3", "xtr1", "xtr2", "xtr3"} {
		if err := n.at[role].Forward(); err != nil {
			return err
		}
	}
	return nil
}

func (n *failoverNetwork) connect() error {
	for _, l := range failoverLinks {
		var ends [2]testnet.End
		for i, e := range l {
			ends[i] = testnet.End{Namespace: n.at[e[0]], Name: e[1]}
			if e[2] != "" {
				ends[i].Addresses = []netip.Prefix{netip.MustParsePrefix(e[2])}
			}
		}
		if err := testnet.Connect(ends[0], ends[1]); err != nil {
			return err
		}
	}
	for _, r := range failoverRoutes {
		route := testnet.Route{Destination: netip.MustParsePrefix(r[1]), Via: netip.MustParseAddr(r[2])}
		if err := n.at[r[0]].AddRoute(route); err != nil {
			return err
		}
	}
	return nil
}

func (n *failoverNetwork) start(ctx context.Context, b *testbed.Run) (err error) {
	if _, err := b.StartDaemon(ctx, n.at["ms"], failoverMappingSystem); err != nil {
		return err
	}
	first := failoverRouter(1, "{interface: core0, weight: 10}, {address: 172.16.3.2, weight: 15}", "10.1.0.2")
	if n.xtr1, err = b.StartDaemon(ctx, n.at["xtr1"], first); err != nil {
		return err
	}
	second := failoverRouter(3, "{interface: core0, weight: 15}, {address: 172.16.1.2, weight: 10}", "10.1.0.1")
	if n.xtr3, err = b.StartDaemon(ctx, n.at["xtr3"], second); err != nil {
		return err
	}
	n.xtr2, err = b.StartDaemon(ctx, n.at["xtr2"], failoverRouter(2, "{interface: core0}", ""))
	return err
}

const failoverMappingSystem = "map-resolver: {}\nmap-server:\n  sites:\n" +
	"    - {name: site1, authentication-keys: [{auth-key-value: key-of-site-1}], eid-prefixes: [{eid: 10.1.0.0/24}]}\n" +
	"    - {name: site2, authentication-keys: [{auth-key-value: key-of-site-2}], eid-prefixes: [{eid: 10.2.0.0/24}]}\ncontrol:\n"

// failoverRouter is a router's configuration; without a sibling it is the other site's.
func failoverRouter(number int, rlocs, sibling string) string {
	site, siblings := 1, fmt.Sprintf("  siblings: [{addresses: [%s]}]\n", sibling)
	if sibling == "" {
		site, siblings = 2, ""
	}
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\nlisp-router-id: {xtr-id: %032d, site-id: %d}\n"+
		"itr:\n  map-resolvers: [172.16.9.2]\n  rloc-probing: {interval: %d, retries: 2, retries-interval: 200ms}\n"+
		"etr:\n  map-servers: [{ms-address: 172.16.9.2, authentication-keys: [{auth-key-value: key-of-site-%d}]}]\n"+siblings+
		"  local-eids: [{eid: 10.%d.0.0/24, rlocs: [%s]}]\ncontrol:\n",
		number, site, int(probeInterval.Seconds()), site, site, rlocs)
}
