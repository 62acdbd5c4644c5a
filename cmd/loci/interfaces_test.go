// SPDX-License-Identifier: Apache-2.0

package main_test

// Interfaces that come late, vanish, come back, lose their carrier or get other
// addresses, seen from outside.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// unplug removes an interface, and with it the other end of its link.
func (n *lispNetwork) unplug(role, link string) {
	n.t.Helper()
	found, err := n.at[role].Netlink().LinkByName(link)
	n.must(err)
	n.must(n.at[role].Netlink().LinkDel(found))
}

// plugCore makes a core interface of site 1 with addresses of a subnet, and routes.
func (n *lispNetwork) plugCore(link string, subnet string) {
	n.t.Helper()
	n.link("core", "to-"+link, "xtr1", link, "172.16."+subnet+".1/30", "172.16."+subnet+".2/30",
		"2001:db8:"+subnet+"::1/64", "2001:db8:"+subnet+"::2/64")
}

// ownRLOCs asks a daemon for its own RLOCs; state by RLOC.
func (n *lispNetwork) ownRLOCs(ctx context.Context, name string) map[string]string {
	answer, err := n.client(name).Interfaces(ctx)
	if err != nil {
		return nil
	}
	states := map[string]string{}
	for _, r := range answer.RLOCs {
		states[r.RLOC.String()] = r.State
	}
	return states
}

func TestDaemonWaitsForItsInterfaces(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.unplug("xtr1", "core0")
	n.run("ms", n.mappingSystem())
	n.run("xtr2", n.xtr(2))
	n.must(os.WriteFile(n.file("xtr1"), []byte(n.xtr(1)), 0o600))
	n.launch("xtr1", "xtr1", "--detach")
	var status api.Status
	n.await("the daemon says what it waits for", func(ctx context.Context) (told bool) {
		var err error
		status, err = n.client("xtr1").Status(ctx)
		return err == nil && slices.ContainsFunc(status.Waiting, func(w string) bool { return strings.Contains(w, "core0 does not exist") })
	})
	if status.Ready || !strings.Contains(n.logs["xtr1"].String(), "waiting for it") {
		t.Errorf("waits without saying so: %+v", status)
	}
	if out, code := n.loci("xtr1", "show", "interfaces", "--socket", n.socket("xtr1")); code != 0 || !strings.Contains(out, "not there") || !strings.Contains(out, "waiting:") {
		t.Errorf("loci show interfaces: %d, %s", code, out)
	}
	n.plugCore("core0", "1")
	n.defaults("xtr1", "172.16.1.1", "2001:db8:1::1")
	n.awaitReady("xtr1")
	n.awaitRegistrations(4)
	// The peers may have asked while the new link had no carrier yet.
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.awaitPing("host2", testSite{2}.host6(), testSite{1}.host6())
	n.ping("host1", testSite{1}.host4(), testSite{2}.host4(), 3)
	n.ping("host2", testSite{2}.host6(), testSite{1}.host6(), 3)
}

// TestInterfacesVanishAndComeBack, the one to the core and the one to the site.
func TestInterfacesVanishAndComeBack(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	n.unplug("xtr1", "core0")
	n.await("the RLOCs are down", func(ctx context.Context) bool {
		states := n.ownRLOCs(ctx, "xtr1")
		return states[one.rloc4()] == "down" && states["2001:db8:1::2"] == "down"
	})
	var database []api.DatabaseEntry
	n.show("xtr1", &database, "database")
	if len(database) != 2 || slices.ContainsFunc(database[0].Locators, func(l api.Locator) bool { return l.Reachable }) {
		t.Errorf("the Database without an interface: %+v", database)
	}
	n.plugCore("core0", "1")
	n.defaults("xtr1", "172.16.1.1", "2001:db8:1::1")
	n.await("the RLOCs are up", func(ctx context.Context) bool {
		states := n.ownRLOCs(ctx, "xtr1")
		return states[one.rloc4()] == "up" && states["2001:db8:1::2"] == "up"
	})
	n.awaitPing("host1", one.host4(), two.host4())
	n.awaitPing("host2", two.host6(), one.host6())

	n.unplug("xtr1", "site0")
	n.link("xtr1", "site0", "host1", "eth0", "10.1.0.1/24", "10.1.0.10/24", "fd00:1::1/64", "fd00:1::10/64")
	n.defaults("host1", "10.1.0.1", "fd00:1::1")
	n.awaitPing("host1", one.host4(), two.host4())
	n.awaitPing("host2", two.host6(), one.host6())
}

// awaitPing waits until an echo request is answered.
func (n *lispNetwork) awaitPing(from string, source, destination netip.Addr) {
	n.t.Helper()
	n.await(from+" is answered", func(ctx context.Context) bool {
		result, err := testnet.Ping{Namespace: n.at[from], Source: source, Destination: destination, Timeout: 200 * time.Millisecond}.Run(ctx)
		return err == nil && result.Received == 1
	})
}

// TestRLOCChangesDuringTransfer renumbers a router while TCP runs in both families.
func TestRLOCChangesDuringTransfer(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	type transfer struct {
		result testnet.TCPResult
		err    error
	}
	transfers := make(chan transfer, 2)
	for _, pair := range [][2]netip.Addr{{one.host4(), two.host4()}, {two.host6(), one.host6()}} {
		from, to := "host1", "host2"
		if pair[0] == two.host6() {
			from, to = to, from
		}
		go func() {
			result, err := testnet.TCP{
				Client: n.at[from], Source: pair[0], Server: n.at[to], Destination: pair[1], Duration: 4 * time.Second, Verify: true, Timeout: time.Minute,
			}.Run(t.Context())
			transfers <- transfer{result, err}
		}()
	}
	time.Sleep(time.Second)
	n.renumber(1)
	renumbered := time.Now()
	n.await("xtr2 has the new RLOCs", func(ctx context.Context) bool {
		list, err := n.client("xtr2").MapCache(ctx)
		return err == nil && len(list) == 2 && hasLocator(list[0], "172.16.101.2") && hasLocator(list[1], "2001:db8:101::2")
	})
	t.Logf("the other site had the new RLOCs after %s", time.Since(renumbered).Round(time.Millisecond))
	for range 2 {
		if done := <-transfers; done.err != nil || done.result.Octets == 0 {
			t.Errorf("transfer: %+v, %v", done.result, done.err)
		}
	}
	n.ping("host1", one.host4(), two.host4(), 3)
}

func hasLocator(e api.MapCacheEntry, rloc string) bool {
	return slices.ContainsFunc(e.Locators, func(l api.Locator) bool { return l.RLOC.String() == rloc && l.Reachable })
}

// renumber gives core0 of a site other addresses, as a provider does: 172.16.N.2 becomes 172.16.10N.2, 2001:db8:N::2 2001:db8:10N::2.
func (n *lispNetwork) renumber(number int) {
	n.t.Helper()
	xtr := testSite{number}.name()
	for _, end := range []struct{ role, link, host string }{{"core", "to-" + xtr, "1"}, {xtr, "core0", "2"}} {
		for _, address := range []string{"172.16.%d." + end.host + "/30", "2001:db8:%d::" + end.host + "/64"} {
			link, err := n.at[end.role].Netlink().LinkByName(end.link)
			n.must(err)
			old, err := netlink.ParseAddr(fmt.Sprintf(address, number))
			n.must(err)
			n.must(n.at[end.role].Netlink().AddrDel(link, old))
			n.must(n.at[end.role].AddAddress(end.link, netip.MustParsePrefix(fmt.Sprintf(address, 100+number))))
		}
	}
	// IPv6 keeps a route whose gateway's network is gone.
	routes, err := n.at[xtr].Netlink().RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Dst: nil}, netlink.RT_FILTER_DST)
	n.must(err)
	for _, route := range routes {
		n.must(n.at[xtr].Netlink().RouteDel(&route))
	}
	n.defaults(xtr, fmt.Sprintf("172.16.%d.1", 100+number), fmt.Sprintf("2001:db8:%d::1", 100+number))
}

// TestOneRouterWithTwoProviders that drop what has the other's source (BCP 38): each
// RLOC leaves by its interface, and when a link dies the other RLOC is used.
func TestOneRouterWithTwoProviders(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.plugCore("core1", "11")
	n.must(n.at["xtr1"].Netlink().RouteAdd(&netlink.Route{Gw: netip.MustParseAddr("172.16.11.1").AsSlice(), Priority: 100}))
	n.must(n.at["xtr1"].Netlink().RouteAdd(&netlink.Route{Gw: netip.MustParseAddr("2001:db8:11::1").AsSlice(), Priority: 2000}))
	n.must(n.at["core"].SetReversePathFilter(1))
	n.run("ms", n.mappingSystem())
	n.run("xtr1", strings.Replace(n.xtr(1), "core: [core0]", "core: [core0, core1]", 1))
	n.run("xtr2", n.xtr(2))
	n.awaitRegistrations(4)
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 5)
	for _, c := range []struct{ state, first string }{{"down", "172.16.11.2"}, {"up", one.rloc4()}} {
		n.must(n.at["core"].SetUp("to-xtr1", c.state == "up"))
		n.await("core0 is "+c.state, func(ctx context.Context) bool { return n.ownRLOCs(ctx, "xtr1")[one.rloc4()] == c.state })
		status, err := n.client("xtr1").Status(t.Context())
		n.must(err)
		if status.LocalRLOCs[0].String() != c.first {
			t.Errorf("core0 %s: own RLOCs %v, want %s first", c.state, status.LocalRLOCs, c.first)
		}
		n.awaitPing("host1", one.host4(), two.host4())
		n.awaitPing("host2", two.host4(), one.host4())
		n.ping("host1", one.host4(), two.host4(), 5)
	}
	n.expectFilterTold()
}

// expectFilterTold starts xtr1 anew without source routes and with a strict reverse path filter, which together lose what
// servers answer to one RLOC: the router says so, before anything was lost and after, and no longer when the filter is loose.
func (n *lispNetwork) expectFilterTold() {
	n.t.Helper()
	const foretold, seen = "net.ipv4.conf.core1.rp_filter is strict: answers of 172.16.9.2 to 172.16.11.2 are dropped", "reverse path filter dropped packets just now"
	warned := func(ctx context.Context, text string) bool {
		s, err := n.client("xtr1").Status(ctx)
		return err == nil && slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, text) })
	}
	filter := func(value string) { n.must(n.at["xtr1"].SetSysctl("net.ipv4.conf.core1.rp_filter", value)) }
	look := func(number int) { // an address that comes makes the router look at its host
		n.must(n.at["xtr1"].AddAddress("site0", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(number)}), 24)))
	}
	n.kill("xtr1")
	filter("1")
	configuration := strings.Replace(n.xtr(1), "core: [core0]", "core: [core0, core1]", 1)
	n.run("xtr1", strings.Replace(configuration, "datapath:\n", "datapath:\n  source-routes: false\n", 1))
	n.await("the loss is foretold", func(ctx context.Context) bool { return warned(ctx, foretold) })
	look(101)
	n.await("the loss is seen", func(ctx context.Context) bool {
		result, err := testnet.Ping{Namespace: n.at["ms"], Destination: netip.MustParseAddr("172.16.11.2"), Timeout: 50 * time.Millisecond}.Run(ctx)
		if err == nil && result.Received > 0 {
			n.t.Fatal("nothing is filtered")
		}
		counters, err := n.client("xtr1").Counters(ctx)
		return err == nil && counters.Control["reverse_path_filtered_packets_total"] > 0 && warned(ctx, seen)
	})
	filter("2")
	look(102)
	n.await("nothing is lost any more", func(ctx context.Context) bool { return !warned(ctx, foretold) })
}

func defaultRoute4(via string) *netlink.Route {
	return &netlink.Route{Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Gw: netip.MustParseAddr(via).AsSlice()}
}
