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

const (
	rtrRLOC4 = "172.16.7.2"
	rtrRLOC6 = "2001:db8:7::2"
)

// newRelayNetwork has a router in the core beside the two sites.
func newRelayNetwork(t *testing.T) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "xtr2", "host1", "host2", "rtr")
	n.must(n.at["core"].Forward())
	n.link("core", "to-ms", "ms", "core0", "172.16.9.1/30", "172.16.9.2/30", "2001:db8:9::1/64", "2001:db8:9::2/64")
	n.defaults("ms", "172.16.9.1", "2001:db8:9::1")
	n.link("core", "to-rtr", "rtr", "core0", "172.16.7.1/30", rtrRLOC4+"/30", "2001:db8:7::1/64", rtrRLOC6+"/64")
	n.must(n.at["rtr"].Forward())
	n.defaults("rtr", "172.16.7.1", "2001:db8:7::1")
	n.buildSite(1)
	n.buildSite(2)
	return n
}

// rtr is the configuration of an RTR for some EID-Prefixes, which finds mappings at the Map-Resolver.
func (n *lispNetwork) rtr(eids ...string) string {
	for i, e := range eids {
		eids[i] = "'" + e + "'"
	}
	return fmt.Sprintf("interfaces: {core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\nrtr: {relay: [{eid-prefixes: [%s]}]}\n", strings.Join(eids, ", ")) + n.common("rtr")
}

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
// not name, and goes on relaying while its daemon is dead.
func TestSiteBehindRTR(t *testing.T) {
	n := newRelayNetwork(t)
	n.run("ms", n.mappingSystem())
	one, two := testSite{1}, testSite{2}
	n.run("rtr", n.rtr(one.eid4(), one.eid6()))
	rlocs := "[{address: " + rtrRLOC4 + "}, {address: '" + rtrRLOC6 + "', priority: 2}]"
	n.run("xtr1", n.xtrBehindRTR(1, rlocs))
	n.run("xtr2", n.xtrBehindRTR(2, rlocs))
	n.awaitRegistrations(4)
	n.ping("host1", one.host4(), two.host4(), 20)
	n.ping("host1", one.host6(), two.host6(), 20)
	if c := n.dataPlane("rtr"); c.DataPlane["relayed_packets_total"] < 80 || c.DataPlane["decapsulated_packets_total"] != 0 {
		t.Errorf("the RTR's counters: %v", c.DataPlane)
	}
	var status api.Status
	n.show("rtr", &status, "status")
	if strings.Join(status.Roles, " ") != "rtr" || len(status.Policies) != 1 || len(status.Policies[0].EIDPrefixes) != 2 {
		t.Errorf("status: %v %+v", status.Roles, status.Policies)
	}

	ping := n.startPinging()
	n.kill("rtr")
	n.launch("rtr", "rtr", "--detach")
	n.awaitReady("rtr")
	sent := ping.end("the restart of the RTR's daemon")
	t.Logf("%d pings during the restart", sent)

	n.must(os.WriteFile(n.file("rtr"), []byte(n.rtr(one.eid6())), 0o600))
	n.must(n.daemons["rtr"].Process.Signal(syscall.SIGHUP))
	n.await("the RTR relays IPv6 alone", func(context.Context) bool {
		n.show("rtr", &status, "status")
		return len(status.Policies) == 1 && len(status.Policies[0].EIDPrefixes) == 1
	})
	n.refused("host1", one.host4(), two.host4(), "rtr", "not-in-policy")
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
