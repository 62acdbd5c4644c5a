// SPDX-License-Identifier: Apache-2.0

package main_test

// Relays between real sites: an RTR that both sites send to, by static mappings. Real daemons, real packets, both families.

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// newRelayNetwork has routers in the core beside the two sites.
func newRelayNetwork(t *testing.T, relays ...string) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, append([]string{"core", "ms", "xtr1", "xtr2", "host1", "host2"}, relays...)...)
	n.must(n.at["core"].Forward())
	n.plugRouter("ms")
	for _, relay := range relays {
		n.plugRouter(relay)
	}
	n.buildSite(1)
	n.buildSite(2)
	return n
}

// subnets are where routers are in the core: the third number of their IPv4 addresses, and of their IPv6 addresses.
var subnets = map[string]string{"ms": "9", "xtr1": "1", "xtr2": "2", "rtr1": "31", "rtr2": "32", "rtr3": "33", "rtr4": "34", "petr": "35", "pitr": "36", "net": "37"}

// rlocOf is the address of a router in the core.
func rlocOf(router string, ipv6 bool) string {
	if ipv6 {
		return "2001:db8:" + subnets[router] + "::2"
	}
	return "172.16." + subnets[router] + ".2"
}

// plugRouter joins a router to the core, which is its default route.
func (n *lispNetwork) plugRouter(router string) {
	n.t.Helper()
	v4, v6 := "172.16."+subnets[router], "2001:db8:"+subnets[router]
	n.link("core", "to-"+router, router, "core0", v4+".1/30", v4+".2/30", v6+"::1/64", v6+"::2/64")
	n.defaults(router, v4+".1", v6+"::1")
}

// rtr is the configuration of an RTR for some EID-Prefixes, which finds mappings at the Map-Resolver.
func (n *lispNetwork) rtr(name string, eids ...string) string {
	return fmt.Sprintf("interfaces: {core: [core0]}\nitr:\n  map-resolvers: [172.16.9.2]\n"+quickProbing+"rtr: {relay: [{eid-prefixes: [%s]}]}\n", quoted(eids)) + n.common(name)
}

// quoted is a list of texts in YAML.
func quoted(texts []string) string { return "'" + strings.Join(texts, "', '") + "'" }

// xtrBehindRTR is a site's configuration that sends everything for the other site to the RTR.
func (n *lispNetwork) xtrBehindRTR(number int, rlocs string) string {
	other := testSite{3 - number}
	static := fmt.Sprintf("itr: {map-resolvers: [172.16.9.2], map-cache: {mappings: [{eid: %s, rlocs: %s}, {eid: '%s', rlocs: %s}]}}\n", other.eid4(), rlocs, other.eid6(), rlocs)
	return strings.Replace(n.xtr(number), "itr: {map-resolvers: [172.16.9.2]}\n", static, 1)
}

func (n *lispNetwork) dataPlane(name string) api.Counters {
	n.t.Helper()
	c, err := n.client(name).Counters(context.Background())
	n.must(err)
	return c
}

// TestSiteBehindRTR: packets between two sites go by an RTR that finds the mappings itself; it relays nothing that its policy does
// not name, and goes on relaying while its daemon is dead, in the kernel.
func TestSiteBehindRTR(t *testing.T) {
	n := newRelayNetwork(t, "rtr1")
	n.run("ms", n.mappingSystem())
	one, two := testSite{1}, testSite{2}
	n.run("rtr1", n.rtr("rtr1", one.eid4(), one.eid6()))
	rlocs := fmt.Sprintf("[{address: %s}, {address: '%s', priority: 2}]", rlocOf("rtr1", false), rlocOf("rtr1", true))
	n.run("xtr1", n.xtrBehindRTR(1, rlocs))
	n.run("xtr2", n.xtrBehindRTR(2, rlocs))
	n.awaitRegistrations(4)
	n.ping("host1", one.host4(), two.host4(), 20)
	n.ping("host1", one.host6(), two.host6(), 20)
	if c := n.dataPlane("rtr1"); c.DataPlane["relayed_packets_total"] < 80 || c.DataPlane["decapsulated_packets_total"] != 0 {
		t.Errorf("the RTR's counters: %v", c.DataPlane)
	}
	var status api.Status
	n.show("rtr1", &status, "status")
	// It relays although its kernel does not forward.
	if !n.warns("rtr1", "net/ipv4/ip_forward is 0: packets whose TTL ends at this RTR are not answered") {
		t.Errorf("warnings: %q", status.Warnings)
	}
	if strings.Join(status.Roles, " ") != "rtr" || len(status.Warnings) != 2 || len(status.Policies) != 1 || len(status.Policies[0].EIDPrefixes) != 2 {
		t.Errorf("status: %v %+v %q", status.Roles, status.Policies, status.Warnings)
	}

	ping := n.startPinging()
	n.kill("rtr1")
	n.launch("rtr1", "rtr1", "--detach")
	n.awaitReady("rtr1")
	if n.engine == "user" { // it relays while its daemon runs
		close(ping.stop)
		<-ping.sums
		n.awaitPing("host1", one.host4(), two.host4())
	} else {
		sent := ping.end("the restart of the RTR's daemon")
		t.Logf("%d pings during the restart", sent)
	}

	n.must(os.WriteFile(n.file("rtr1"), []byte(n.rtr("rtr1", one.eid6())), 0o600))
	n.must(n.daemons["rtr1"].Process.Signal(syscall.SIGHUP))
	n.await("the RTR relays IPv6 alone", func(context.Context) bool {
		n.show("rtr1", &status, "status")
		return len(status.Policies) == 1 && len(status.Policies[0].EIDPrefixes) == 1
	})
	n.refused("host1", one.host4(), two.host4(), "rtr1", "not-in-policy")
	n.ping("host1", one.host6(), two.host6(), 5)
}

// refused sends echo requests that a router must drop for a reason.
func (n *lispNetwork) refused(from string, source, destination netip.Addr, router, reason string) {
	n.t.Helper()
	before := n.dataPlane(router).Drops[reason]
	const count = 3
	if received := n.tryPing(from, source, destination, count); received != 0 {
		n.t.Errorf("%d of %d requests from %s to %s were answered", received, count, source, destination)
	}
	if after := n.dataPlane(router).Drops[reason]; after-before < count {
		n.t.Errorf("%s dropped %d packets as %s, want %d", router, after-before, reason, count)
		n.tellDrops()
	}
}

// tryPing sends echo requests and says how many were answered.
func (n *lispNetwork) tryPing(from string, source, destination netip.Addr, count int) (received int) {
	n.t.Helper()
	result, err := testnet.Ping{Namespace: n.at[from], Source: source, Destination: destination, Count: count, Timeout: 500 * time.Millisecond}.Run(n.t.Context())
	n.must(err)
	return result.Received
}
