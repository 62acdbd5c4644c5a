// SPDX-License-Identifier: Apache-2.0

package main_test

// A site with two xTRs and two providers: what one of them does for the other. Times are
// printed; what fails the test is a flow that is lost, or traffic that goes astray.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// coreFamily is over what the routers of a sibling network meet: addresses of one family at the core.
type coreFamily struct {
	name                          string // as in address-family
	mapServer, xtr1, xtr3, remote string // remote is xtr2
	sibling1, sibling3            string // addresses at the site, the one for control messages first
}

var coreFamilies = []coreFamily{
	{"ipv4", "172.16.9.2", "172.16.1.2", "172.16.3.2", "172.16.2.2", "10.1.0.1, 'fd00:1::1'", "10.1.0.2, 'fd00:1::2'"},
	{"ipv6", "2001:db8:9::2", "2001:db8:1::2", "2001:db8:3::2", "2001:db8:2::2", "'fd00:1::1', 10.1.0.1", "'fd00:1::2', 10.1.0.2"},
}

// first is the first of a sibling's addresses.
func first(addresses string) string {
	address, _, _ := strings.Cut(addresses, ",")
	return strings.Trim(address, "'")
}

// overEach runs a test with RLOCs of either family.
func overEach(t *testing.T, test func(*testing.T, coreFamily)) {
	t.Parallel() // it mostly waits
	for _, over := range coreFamilies {
		t.Run(over.name, func(t *testing.T) {
			t.Parallel()
			test(t, over)
		})
	}
}

// newSiblingNetwork is the usual network with another router, xtr3, at site 1. The two
// have a provider each, isp1 and isp3, and meet the host at a switch.
func newSiblingNetwork(t *testing.T) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "xtr3", "isp1", "isp3", "lan", "xtr2", "host1", "host2")
	for _, role := range []string{"core", "isp1", "isp3"} {
		n.must(n.at[role].Forward())
	}
	n.link("core", "to-ms", "ms", "core0", "172.16.9.1/30", "172.16.9.2/30", "2001:db8:9::1/64", "2001:db8:9::2/64")
	n.defaults("ms", "172.16.9.1", "2001:db8:9::1")
	n.buildSite(2)
	for i, router := range []int{1, 3} {
		isp, xtr := fmt.Sprintf("isp%d", router), fmt.Sprintf("xtr%d", router)
		n.link("core", "to-"+isp, isp, "core0",
			fmt.Sprintf("172.16.2%d.1/30", router), fmt.Sprintf("172.16.2%d.2/30", router), fmt.Sprintf("2001:db8:2%d::1/64", router), fmt.Sprintf("2001:db8:2%d::2/64", router))
		n.link(isp, "to-"+xtr, xtr, "core0",
			fmt.Sprintf("172.16.%d.1/30", router), fmt.Sprintf("172.16.%d.2/30", router), fmt.Sprintf("2001:db8:%d::1/64", router), fmt.Sprintf("2001:db8:%d::2/64", router))
		n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(fmt.Sprintf("172.16.%d.0/30", router)), Via: netip.MustParseAddr(fmt.Sprintf("172.16.2%d.2", router))}))
		n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::/64", router)), Via: netip.MustParseAddr(fmt.Sprintf("2001:db8:2%d::2", router))}))
		n.defaults(isp, fmt.Sprintf("172.16.2%d.1", router), fmt.Sprintf("2001:db8:2%d::1", router))
		n.must(n.at[isp].SetSysctl("net.ipv6.conf.all.keep_addr_on_down", "1")) // as IPv4 does
		n.must(n.at[xtr].Forward())
		n.defaults(xtr, fmt.Sprintf("172.16.%d.1", router), fmt.Sprintf("2001:db8:%d::1", router))
		n.plugLAN(xtr, "site0", fmt.Sprintf("10.1.0.%d/24", i+1), fmt.Sprintf("fd00:1::%d/64", i+1))
	}
	n.plugLAN("host1", "eth0", "10.1.0.10/24", "fd00:1::10/64")
	n.defaults("host1", "10.1.0.1", "fd00:1::1")
	n.must(n.at["lan"].AddBridge("switch", "to-xtr1", "to-xtr3", "to-host1"))
	return n
}

// plugLAN joins a namespace to the switch of site 1.
func (n *lispNetwork) plugLAN(role, link string, addresses ...string) {
	n.t.Helper()
	end := testnet.End{Namespace: n.at[role], Name: link}
	for _, a := range addresses {
		end.Addresses = append(end.Addresses, netip.MustParsePrefix(a))
	}
	n.must(testnet.Connect(testnet.End{Namespace: n.at["lan"], Name: "to-" + role}, end))
}

const quickProbing = "  rloc-probing: {interval: 1s, retries: 2, retries-interval: 200ms}\n"

// siblingXTR is the configuration of router 1 or 3 of site 1. Both register the same
// locators: xtr1's with weight 10, xtr3's with 15.
func (n *lispNetwork) siblingXTR(router int, over coreFamily) string {
	own, other, sibling := 10, fmt.Sprintf("address: '%s', weight: 15", over.xtr3), over.sibling3
	if router == 3 {
		own, other, sibling = 15, fmt.Sprintf("address: '%s', weight: 10", over.xtr1), over.sibling1
	}
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\nlisp-router-id: {xtr-id: %032d, site-id: 1}\n"+
		"locator-sets: {both: [{interface: core0, address-family: %s, weight: %d}, {%s}]}\n"+
		"itr:\n  map-resolvers: ['%s']\n"+quickProbing+
		"etr:\n  map-servers:\n    - ms-address: '%s'\n      authentication-keys: [{auth-key-value: %s}]\n"+
		"  siblings: [{addresses: [%s]}]\n"+
		"  local-eids: [{eid: 10.1.0.0/24, rlocs: both}, {eid: 'fd00:1::/64', rlocs: both}]\n",
		router, over.name, own, other, over.mapServer, over.mapServer, siteKey(1), sibling) + n.common(fmt.Sprintf("xtr%d", router))
}

// remoteXTR is the configuration of the other site's router.
func (n *lispNetwork) remoteXTR(over coreFamily) string {
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\nlocator-sets: {own: [{interface: core0, address-family: %s}]}\n"+
		"itr:\n  map-resolvers: ['%s']\n"+quickProbing+
		"etr:\n  map-servers:\n    - ms-address: '%s'\n      authentication-keys: [{auth-key-value: %s}]\n"+
		"  local-eids: [{eid: %s, rlocs: own}, {eid: '%s', rlocs: own}]\n",
		over.name, over.mapServer, over.mapServer, siteKey(2), testSite{2}.eid4(), testSite{2}.eid6()) + n.common("xtr2")
}

// runSiblings starts everything, with traffic in both directions. xtr1 is one process, or
// one for each plane.
func (n *lispNetwork) runSiblings(over coreFamily, split bool) {
	n.t.Helper()
	n.runSiblingsWith(n.siblingXTR(1, over), over, split)
}

// runSiblingsWith does so with a configuration of xtr1.
func (n *lispNetwork) runSiblingsWith(one string, over coreFamily, split bool) {
	n.t.Helper()
	n.run("ms", n.mappingSystem())
	if split {
		n.runSplit(one)
	} else {
		n.run("xtr1", one)
	}
	n.run("xtr3", n.siblingXTR(3, over))
	n.run("xtr2", n.remoteXTR(over))
	n.await("both routers of site 1 are registered", func(ctx context.Context) bool {
		list, err := n.client("ms").Registrations(ctx)
		return err == nil && len(list) == 6
	})
	n.await("the siblings know each other", func(ctx context.Context) bool {
		one, err1 := n.client("xtr1").Siblings(ctx)
		three, err3 := n.client("xtr3").Siblings(ctx)
		return err1 == nil && err3 == nil && one.Siblings[len(one.Siblings)-1].Answers && three.Siblings[0].Answers
	})
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.await("the locators answer", func(ctx context.Context) bool {
		list, err := n.client("xtr2").Locators(ctx)
		up := 0
		for _, l := range list {
			if !l.Local && l.State == "up" {
				up++
			}
		}
		return err == nil && up == 2
	})
}

// forwardingSibling is who gets the packets that a router takes from the site, "" for LISP.
func (n *lispNetwork) forwardingSibling(ctx context.Context, name string) string {
	s, err := n.client(name).Siblings(ctx)
	if err != nil {
		return err.Error()
	}
	return s.ForwardingSibling
}

// usable are the locators that a router's map-cache has for an EID, those with R set.
func (n *lispNetwork) usable(ctx context.Context, name string, eid netip.Addr) (rlocs []string) {
	list, err := n.client(name).MapCache(ctx)
	if err != nil {
		return nil
	}
	for _, e := range list {
		if !e.EIDPrefix.Netip().Contains(eid) {
			continue
		}
		for _, l := range e.Locators {
			if l.Reachable {
				rlocs = append(rlocs, l.RLOC.String())
			}
		}
	}
	return rlocs
}

// longestGap is the longest time without an answered echo request.
func longestGap(r testnet.PingResult, interval time.Duration) time.Duration {
	longest, gap := 0, 0
	for _, trip := range r.RoundTrips {
		if gap++; trip >= 0 {
			gap = 0
		}
		longest = max(longest, gap)
	}
	return time.Duration(longest) * interval
}

// traffic is what runs while a provider dies.
type traffic struct {
	n     *lispNetwork
	pings chan testnet.PingResult
	tcps  chan error
}

const pingEvery = time.Millisecond

// startTraffic pings a thousand times a second, and transfers in both directions.
func (n *lispNetwork) startTraffic(duration time.Duration) *traffic {
	tr := &traffic{n: n, pings: make(chan testnet.PingResult, 1), tcps: make(chan error, 4)}
	one, two := testSite{1}, testSite{2}
	go func() {
		result, err := testnet.Ping{
			Namespace: n.at["host1"], Source: one.host4(), Destination: two.host4(), Count: int(duration / pingEvery), Interval: pingEvery, Timeout: 3 * time.Second,
		}.Run(n.t.Context())
		if err != nil {
			n.t.Error(err)
		}
		tr.pings <- result
	}()
	transfer := func(from, to string, source, destination netip.Addr) {
		_, err := testnet.TCP{
			Client: n.at[from], Source: source, Server: n.at[to], Destination: destination, Duration: duration, Verify: true, Timeout: time.Minute,
		}.Run(n.t.Context())
		tr.tcps <- err
	}
	go transfer("host1", "host2", one.host4(), two.host4())
	go transfer("host2", "host1", two.host4(), one.host4())
	go transfer("host1", "host2", one.host6(), two.host6())
	go transfer("host2", "host1", two.host6(), one.host6())
	return tr
}

// end fails the test when a flow was lost and returns the longest gap.
func (tr *traffic) end() time.Duration {
	tr.n.t.Helper()
	for range cap(tr.tcps) {
		if err := <-tr.tcps; err != nil {
			tr.n.t.Errorf("a flow was lost: %v", err)
		}
	}
	return longestGap(<-tr.pings, pingEvery)
}

// TestSiblingTakesOverWhenALinkDies, and gives back when it lives again. The router is two
// processes here: the data plane takes the sibling path when the control plane tells it to.
func TestSiblingTakesOverWhenALinkDies(t *testing.T) { overEach(t, siblingTakesOverWhenALinkDies) }

func siblingTakesOverWhenALinkDies(t *testing.T, over coreFamily) {
	n := newSiblingNetwork(t)
	n.runSiblings(over, true)
	traffic := n.startTraffic(4 * time.Second)
	time.Sleep(time.Second)
	n.must(n.at["isp1"].SetUp("to-xtr1", false))
	n.await("xtr1 takes the sibling path", func(ctx context.Context) bool { return n.forwardingSibling(ctx, "xtr1") == first(over.sibling3) })
	n.await("the other site uses xtr3 alone", func(ctx context.Context) bool {
		return slices.Equal(n.usable(ctx, "xtr2", testSite{1}.host4()), []string{over.xtr3})
	})
	t.Logf("longest gap in 1,000 pings a second: %s", traffic.end())
	if states := n.ownRLOCs(t.Context(), "xtr1"); states[over.xtr1] != "down" {
		t.Errorf("own RLOCs of xtr1: %v", states)
	}
	n.awaitProblem("xtr1", "own-rloc-down", over.xtr1)
	n.awaitProblem("xtr1", "sibling-path", first(over.sibling3))
	n.ping("xtr1", testSite{1}.router4(), testSite{2}.host4(), 3) // its own EIDs too
	n.ping("xtr1", testSite{1}.router6(), testSite{2}.host6(), 3)
	n.must(n.at["isp1"].SetUp("to-xtr1", true))
	n.await("xtr1 works again", func(ctx context.Context) bool { return n.forwardingSibling(ctx, "xtr1") == "" })
	n.await("the other site uses both", func(ctx context.Context) bool { return len(n.usable(ctx, "xtr2", testSite{1}.host4())) == 2 })
	n.ping("host1", testSite{1}.host4(), testSite{2}.host4(), 5)
	n.ping("host2", testSite{2}.host6(), testSite{1}.host6(), 5)
}

// TestSiblingTakesOverWhenAPathDies silently, behind a link that stays up. It is xtr3's
// path this time: its sibling gets its packets, and it the sibling's none.
func TestSiblingTakesOverWhenAPathDies(t *testing.T) { overEach(t, siblingTakesOverWhenAPathDies) }

func siblingTakesOverWhenAPathDies(t *testing.T, over coreFamily) {
	n := newSiblingNetwork(t)
	n.runSiblings(over, false)
	for _, c := range []struct{ isp, xtr, sibling, left string }{
		{"isp1", "xtr1", first(over.sibling3), over.xtr3}, {"isp3", "xtr3", first(over.sibling1), over.xtr1},
	} {
		if c.xtr == "xtr3" { // who has no traffic notices nothing
			n.must(n.at["host1"].Netlink().RouteReplace(defaultRoute4("10.1.0.2")))
			n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
			n.awaitLocatorUp(c.xtr, over.remote)
		}
		n.awaitPing("host1", testSite{1}.host6(), testSite{2}.host6()) // by xtr1, which may not know yet that its path is back
		traffic := n.startTraffic(6 * time.Second)
		time.Sleep(time.Second)
		n.pass(c.isp, "0")
		n.await(c.xtr+" takes the sibling path", func(ctx context.Context) bool { return n.forwardingSibling(ctx, c.xtr) == c.sibling })
		n.await("the other site uses its sibling alone", func(ctx context.Context) bool {
			return slices.Equal(n.usable(ctx, "xtr2", testSite{1}.host4()), []string{c.left})
		})
		t.Logf("%s: longest gap in 1,000 pings a second: %s; a probe interval is 1s", c.xtr, traffic.end())
		n.pass(c.isp, "1")
		n.await(c.xtr+" works again", func(ctx context.Context) bool { return n.forwardingSibling(ctx, c.xtr) == "" })
		n.await("the other site uses both", func(ctx context.Context) bool { return len(n.usable(ctx, "xtr2", testSite{1}.host4())) == 2 })
		n.awaitLocatorUp("xtr2", over.xtr1)
		n.awaitLocatorUp("xtr2", over.xtr3)
	}
}

// pass makes a provider pass packets on, or drop them silently.
func (n *lispNetwork) pass(isp, value string) {
	n.t.Helper()
	n.must(n.at[isp].SetSysctl("net.ipv4.ip_forward", value))
	n.must(n.at[isp].SetSysctl("net.ipv6.conf.all.forwarding", value))
}

func (n *lispNetwork) awaitLocatorUp(name, rloc string) {
	n.t.Helper()
	n.await(name+" finds "+rloc+" up", func(ctx context.Context) bool {
		list, err := n.client(name).Locators(ctx)
		return err == nil && slices.ContainsFunc(list, func(l api.LocatorState) bool { return l.RLOC.String() == rloc && l.State == "up" })
	})
}

// TestRefreshesOfSiblingsAreQuiet: the two register the same set again and again, each with its own locator marked
// local. The Map-Server tells no router of a change.
func TestRefreshesOfSiblingsAreQuiet(t *testing.T) { overEach(t, refreshesOfSiblingsAreQuiet) }

func refreshesOfSiblingsAreQuiet(t *testing.T, over coreFamily) {
	n := newSiblingNetwork(t)
	n.run("ms", n.mappingSystem())
	for router, name := range map[int]string{1: "xtr1", 3: "xtr3"} {
		n.run(name, strings.Replace(n.siblingXTR(router, over), "  siblings:", "      registration-interval: 1s\n  siblings:", 1))
	}
	n.await("the siblings know each other", func(ctx context.Context) bool {
		one, err1 := n.client("xtr1").Siblings(ctx)
		three, err3 := n.client("xtr3").Siblings(ctx)
		return err1 == nil && err3 == nil && one.Siblings[0].Answers && three.Siblings[0].Answers
	})
	refreshed := func(times uint64) {
		t.Helper()
		before := n.counter("ms", "registration_accepted_total")
		n.await("registrations are refreshed", func(context.Context) bool {
			return n.counter("ms", "registration_accepted_total") >= before+times*4
		})
	}
	refreshed(2) // what the start made the siblings change is registered
	told := n.counter("ms", "map_notify_unsolicited_sent_total")
	refreshed(5)
	if now := n.counter("ms", "map_notify_unsolicited_sent_total"); now != told {
		t.Errorf("%d unsolicited Map-Notifies though nothing changed", now-told)
	}
	n.awaitHealthy("ms", "xtr1", "xtr3")
	for _, r := range n.registrations() {
		if len(r.Locators) != 2 || len(r.Answered) > 0 {
			t.Errorf("%s registered %v, and something else is answered: %v", r.ETR, r.Locators, r.Answered)
		}
	}
}

// TestTrafficSplitsByWeight: 10 to 15 is 40 to 60.
func TestTrafficSplitsByWeight(t *testing.T) { overEach(t, trafficSplitsByWeight) }

func trafficSplitsByWeight(t *testing.T, over coreFamily) {
	n := newSiblingNetwork(t)
	n.runSiblings(over, false)
	for _, c := range []struct {
		flows  int
		points float64
	}{{1000, 5}, {20000, 1.5}} {
		before := [2]uint64{n.decapsulated("xtr1"), n.decapsulated("xtr3")}
		n.sendFlows(c.flows)
		var share float64
		n.await("the flows are counted", func(context.Context) bool {
			one, three := n.decapsulated("xtr1")-before[0], n.decapsulated("xtr3")-before[1]
			share = 100 * float64(one) / float64(one+three)
			return int(one+three) >= c.flows
		})
		t.Logf("%d flows: %.2f %% by xtr1", c.flows, share)
		if share < 40-c.points || share > 40+c.points {
			t.Errorf("%d flows: %.2f %% by xtr1, want 40 within %.1f points", c.flows, share, c.points)
		}
	}
}

func (n *lispNetwork) decapsulated(name string) uint64 {
	n.t.Helper()
	return n.dataPlaneCounter(name, "decapsulated_packets_total")
}

func (n *lispNetwork) encapsulated(name string) uint64 {
	n.t.Helper()
	return n.dataPlaneCounter(name, "encapsulated_packets_total")
}

func (n *lispNetwork) dataPlaneCounter(name, counter string) uint64 {
	n.t.Helper()
	counters, err := n.client(name).Counters(n.t.Context())
	n.must(err)
	return counters.DataPlane[counter]
}

// sendFlows sends a datagram of each of many flows, of random ports, from host2.
func (n *lispNetwork) sendFlows(flows int) {
	n.t.Helper()
	random := rand.New(rand.NewPCG(uint64(flows), 1))
	const flowsOfSocket = 1000
	for port := uint16(20000); flows > 0; port++ {
		conn, err := n.at["host2"].ListenUDP(netip.AddrPortFrom(testSite{2}.host4(), port))
		n.must(err)
		for _, to := range random.Perm(50000)[:min(flows, flowsOfSocket)] {
			_, err := conn.WriteToUDPAddrPort([]byte("one"), netip.AddrPortFrom(testSite{1}.host4(), uint16(to+1024)))
			n.must(err)
		}
		flows -= min(flows, flowsOfSocket)
		conn.Close()
	}
}
