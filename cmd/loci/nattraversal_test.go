// SPDX-License-Identifier: Apache-2.0

package main_test

// Routers behind NATs, and one server that is Map-Server, Map-Resolver, RTR and PETR at one address. Real daemons,
// real packets.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// natNetwork has two sites; the routers of some are behind a NAT each, all at the same private address.
func natNetwork(t *testing.T, engine string, behind ...int) (n *lispNetwork, boxes map[int]testnet.NAT) {
	t.Helper()
	return natNetworkWith(t, engine, nil, behind...)
}

// natNetworkWith has RTRs in the core besides.
func natNetworkWith(t *testing.T, engine string, rtrs []string, behind ...int) (n *lispNetwork, boxes map[int]testnet.NAT) {
	t.Helper()
	roles := append([]string{"core", "ms", "xtr1", "xtr2", "host1", "host2"}, rtrs...)
	for _, i := range behind {
		roles = append(roles, fmt.Sprintf("nat%d", i))
	}
	n = newEmptyNetwork(t, roles...)
	n.engine = engine
	n.must(n.at["core"].Forward())
	n.plugRouter("ms")
	n.must(n.at["ms"].Forward())
	for _, rtr := range rtrs {
		n.plugRouter(rtr)
		n.must(n.at[rtr].Forward())
	}
	boxes = map[int]testnet.NAT{}
	for i := 1; i <= 2; i++ {
		nat := fmt.Sprintf("nat%d", i)
		if n.at[nat] == nil {
			n.buildSite(i)
			continue
		}
		xtr := fmt.Sprintf("xtr%d", i)
		n.link("core", "to-"+nat, nat, "outside",
			fmt.Sprintf("172.16.%d.1/30", i), fmt.Sprintf("172.16.%d.2/30", i), fmt.Sprintf("2001:db8:%d::1/64", i), fmt.Sprintf("2001:db8:%d::2/64", i))
		n.defaults(nat, fmt.Sprintf("172.16.%d.1", i), fmt.Sprintf("2001:db8:%d::1", i))
		n.must(n.at[nat].Forward())
		n.link(nat, "inside", xtr, "core0", "192.168.7.1/24", "192.168.7.2/24", "fd99::1/64", "fd99::2/64")
		n.defaults(xtr, "192.168.7.1", "fd99::1")
		n.must(n.at[xtr].Forward())
		n.plugHost(i)
		boxes[i] = testnet.NAT{Namespace: n.at[nat], Outside: "outside"}
		n.must(boxes[i].Start())
	}
	return n, boxes
}

// awaitEvents waits until a router has reported events of these kinds since a time.
func (n *lispNetwork) awaitEvents(router string, since time.Time, kinds ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%s reports %s", router, kinds), func(ctx context.Context) bool {
		ctx, enough := context.WithCancel(ctx)
		defer enough()
		missing := slices.Clone(kinds)
		_ = n.client(router).Events(ctx, api.EventQuery{Kinds: kinds, Since: since}, func(e api.Event) error {
			if missing = slices.DeleteFunc(missing, func(k string) bool { return k == e.Kind }); len(missing) == 0 {
				enough()
			}
			return nil
		}) // ends by the context
		return len(missing) == 0
	})
}

// natServer is the server's configuration.
func (n *lispNetwork) natServer() string {
	const key = "authentication-keys: [{auth-key-value: between-map-server-and-rtr}]"
	text := strings.Replace(n.mappingSystem(), "map-server:\n", "map-server:\n  rtrs: [{address: 172.16.9.2, "+key+"}]\n", 1)
	return "interfaces: {core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\n" +
		"rtr: {nat-traversal: {map-servers: [{ms-address: 172.16.9.2, " + key + "}]}}\n" + text
}

// natXTR is the configuration of a site with an IPv4 RLOC, and a short keepalive.
func (n *lispNetwork) natXTR(number int) string {
	s := testSite{number}
	return strings.NewReplacer("itr: {", "locator-sets: {own: [{interface: core0, address-family: ipv4}]}\nitr: {itr-rlocs: own, ",
		"etr:\n", "etr:\n  nat-traversal: {keepalive: 2s}\n",
		s.eid4()+"}", s.eid4()+", rlocs: own}", s.eid6()+"'}", s.eid6()+"', rlocs: own}").Replace(n.xtr(number))
}

const natKeepalive = 2 * time.Second

func overEngines(t *testing.T, test func(t *testing.T, engine string)) {
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel() // it mostly waits
			test(t, engine)
		})
	}
}

// TestSiteBehindNAT: pings and TCP both ways between a site behind a NAT and another one, by the RTR; after the NAT
// forgot, it is reached again after the next keepalive, though only the other side sends: within a second on an idle
// machine, four here.
func TestSiteBehindNAT(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n, boxes := natNetwork(t, engine, 1)
		began := time.Now()
		n.natSites()
		one, two := testSite{1}, testSite{2}
		n.awaitPing("host2", two.host4(), one.host4())
		n.ping("host1", one.host4(), two.host4(), 5)
		n.ping("host1", one.host6(), two.host6(), 5)
		n.ping("host2", two.host6(), one.host6(), 5)
		for _, tcp := range []testnet.TCP{
			{Client: n.at["host1"], Server: n.at["host2"], Source: one.host4(), Destination: two.host4()},
			{Client: n.at["host2"], Server: n.at["host1"], Source: two.host4(), Destination: one.host4()},
		} {
			tcp.Octets, tcp.Verify = 1<<20, true
			if _, err := tcp.Run(t.Context()); err != nil {
				t.Errorf("TCP from %s: %v", tcp.Source, err)
				n.tellDrops()
			}
		}
		n.showsNAT()
		if kinds := n.problemKinds("ms", "xtr1", "xtr2"); len(kinds) > 0 {
			t.Errorf("problems: %v", kinds)
		}
		n.awaitEvents("xtr1", began, "nat-found", "rtr-chosen", "rtr-confirmed")
		forgot := time.Now()
		n.must(boxes[1].Forget())
		n.awaitWithin(natKeepalive+4*time.Second, "host1 is reached again", func(ctx context.Context) bool {
			result, err := testnet.Ping{Namespace: n.at["host2"], Source: two.host4(), Destination: one.host4(), Timeout: 200 * time.Millisecond}.Run(ctx)
			return err == nil && result.Received == 1
		})
		n.awaitEvents("ms", forgot, "nat-binding-moved")
	})
}

// showsNAT asserts what node and RTR show of each other.
func (n *lispNetwork) showsNAT() {
	n.t.Helper()
	var node, rtr, other api.NAT
	n.show("xtr1", &node, "nat")
	n.show("ms", &rtr, "nat")
	n.show("xtr2", &other, "nat")
	if len(node.Views) != 1 || !node.Views[0].BehindNAT || !strings.HasPrefix(node.Views[0].SeenAs, "172.16.1.2:") ||
		len(node.RTRs) == 0 || node.RTRs[0].Address.String() != "172.16.9.2" || node.RTRs[0].Silent || node.RTRs[0].ConfirmedAt == nil {
		n.t.Errorf("the router behind the NAT shows %+v", node)
	}
	if len(rtr.Bindings) != 2 || !strings.HasPrefix(rtr.Bindings[0].RLOCs[0].SeenAs, "172.16.1.2:") || rtr.Bindings[0].RLOCs[0].Private.String() != "192.168.7.2" {
		n.t.Errorf("the RTR shows %+v", rtr)
	}
	if len(other.Views) != 1 || other.Views[0].BehindNAT || len(other.RTRs) > 0 {
		n.t.Errorf("the router without a NAT shows %+v", other)
	}
	for router, words := range map[string][]string{
		"xtr1": {"behind a NAT", "registered by RTR 172.16.9.2", "knows this router's address"}, "ms": {"FORWARDED TO", "192.168.7.2"}, "xtr2": {"no NAT"},
	} {
		if out, _ := n.loci(router, "show", "nat", "--socket", n.socket(router)); !containsAll(out, words) {
			n.t.Errorf("%s shows\n%s", router, out)
		}
	}
}

// TestSitesBehindTwoNATs reach each other by the RTR, though their routers have one private address.
func TestSitesBehindTwoNATs(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n, _ := natNetwork(t, engine, 1, 2)
		n.natSites()
		one, two := testSite{1}, testSite{2}
		n.awaitPing("host1", one.host4(), two.host4())
		n.ping("host2", two.host4(), one.host4(), 5)
		n.ping("host1", one.host6(), two.host6(), 5)
		tcp := testnet.TCP{Client: n.at["host1"], Server: n.at["host2"], Source: one.host6(), Destination: two.host6(), Octets: 1 << 20, Verify: true}
		if _, err := tcp.Run(t.Context()); err != nil {
			t.Errorf("TCP: %v", err)
			n.tellDrops()
		}
	})
}

// natSites starts the server and the two sites.
func (n *lispNetwork) natSites() {
	n.t.Helper()
	n.run("ms", n.natServer())
	for i := 1; i <= 2; i++ {
		if n.at[fmt.Sprintf("nat%d", i)] != nil {
			n.run(fmt.Sprintf("xtr%d", i), n.natXTR(i))
			continue
		}
		n.run(fmt.Sprintf("xtr%d", i), n.xtr(i))
	}
}
