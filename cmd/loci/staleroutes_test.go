// SPDX-License-Identifier: Apache-2.0

package main_test

// Default routes that an address left behind: Linux keeps `default via` a gateway whose network
// is gone, and lets no process make another route by it. All other routes and rules are in force.

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// staleAt1 are the warnings of xtr1 after moveAddresses.
var staleAt1 = []string{"the default route via 172.16.1.1 at core0 is stale", "the default route via 2001:db8:1::1 at core0 is stale"}

// TestStaleDefaultRoute while running, at a reload and at a start: told once, shown while it is there, no reason for anything else
// not to work.
func TestStaleDefaultRoute(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	n.moveAddresses()
	n.forgetCopies() // as at a host where the route was stale before Loci came
	n.awaitStale(true)
	since := n.awaitProblem("xtr1", "stale-default-route", "core0").Since
	n.expectCopies()
	n.lookAgain(201)
	n.reconfigure("xtr1", strings.Replace(n.xtr(1), "level: debug", "level: info", 1))
	n.lookAgain(202)
	if again := n.awaitProblem("xtr1", "stale-default-route", "core0").Since; !again.Equal(*since) {
		t.Errorf("it stands since %s, and after a reload since %s", since, again)
	}
	n.expectToldOnce("xtr1", 0)
	if out, code := n.loci("xtr1", "show", "status", "--socket", n.socket("xtr1")); code != 0 || !strings.Contains(out, staleAt1[0]) || !strings.Contains(out, staleAt1[1]) {
		t.Errorf("loci show status: %d, %s", code, out)
	}

	n.kill("xtr1")
	n.forgetCopies()
	before := len(n.logs["xtr1"].String())
	n.start("xtr1")
	n.awaitStale(true)
	n.expectCopies()
	n.lookAgain(203)
	n.expectToldOnce("xtr1", before)

	n.healRoutes()
	n.awaitStale(false)
	for _, stale := range staleAt1 {
		n.await("the log says that it is over: "+stale, func(context.Context) bool {
			return strings.Contains(n.logs["xtr1"].String()[before:], "over: "+stale)
		})
	}
	n.awaitPing("host1", testSite{1}.host4(), testSite{2}.host4())
	n.awaitPing("host2", testSite{2}.host6(), testSite{1}.host6())
	n.awaitHealthy("xtr1")
}

// moveAddresses gives core0 of xtr1 other addresses before it takes the old ones, so that the old default routes stay.
func (n *lispNetwork) moveAddresses() {
	n.t.Helper()
	for _, a := range []struct{ role, link, old, fresh string }{
		{"core", "to-xtr1", "172.16.1.1/30", "172.16.101.1/30"}, {"core", "to-xtr1", "2001:db8:1::1/64", "2001:db8:101::1/64"},
		{"xtr1", "core0", "172.16.1.2/30", "172.16.101.2/30"}, {"xtr1", "core0", "2001:db8:1::2/64", "2001:db8:101::2/64"},
	} {
		n.must(n.at[a.role].AddAddress(a.link, netip.MustParsePrefix(a.fresh)))
		link, err := n.at[a.role].Netlink().LinkByName(a.link)
		n.must(err)
		old, err := netlink.ParseAddr(a.old)
		n.must(err)
		n.must(n.at[a.role].Netlink().AddrDel(link, old))
	}
	n.await("xtr1 has its new RLOCs", func(ctx context.Context) bool {
		states := n.ownRLOCs(ctx, "xtr1")
		return len(states) == 2 && states["172.16.101.2"] != "" && states["2001:db8:101::2"] != ""
	})
}

// copiesAt are the routes of xtr1's table for core0.
func (n *lispNetwork) copiesAt(family int) []netlink.Route {
	n.t.Helper()
	routes, err := n.at["xtr1"].Netlink().RouteListFiltered(family, &netlink.Route{Table: 4342}, netlink.RT_FILTER_TABLE)
	n.must(err)
	return routes
}

// forgetCopies removes them.
func (n *lispNetwork) forgetCopies() {
	n.t.Helper()
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		for _, route := range n.copiesAt(family) {
			_ = n.at["xtr1"].Netlink().RouteDel(&route) // the daemon may be at it
		}
	}
}

// expectCopies waits until the table has the new networks, and packets from the new RLOCs use it.
func (n *lispNetwork) expectCopies() {
	n.t.Helper()
	for family, network := range map[int]string{unix.AF_INET: "172.16.101.0/30", unix.AF_INET6: "2001:db8:101::/64"} {
		n.await("the source route to "+network, func(context.Context) bool {
			rules, err := n.at["xtr1"].Netlink().RuleList(family)
			n.must(err)
			return slices.ContainsFunc(n.copiesAt(family), func(r netlink.Route) bool { return r.Dst != nil && r.Dst.String() == network }) &&
				slices.ContainsFunc(rules, func(r netlink.Rule) bool {
					return r.Table == 4342 && r.Src != nil && netip.MustParsePrefix(network).Contains(netip.MustParseAddr(r.Src.IP.String()))
				})
		})
	}
}

func (n *lispNetwork) awaitStale(stale bool) {
	n.t.Helper()
	n.await("the stale routes are told, or no more", func(ctx context.Context) bool {
		s, err := n.client("xtr1").Status(ctx)
		return err == nil && s.Ready && !slices.ContainsFunc(staleAt1, func(text string) bool {
			return stale != slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, text) })
		})
	})
}

// lookAgain makes xtr1 look at its host, and waits until it has.
func (n *lispNetwork) lookAgain(number byte) {
	n.t.Helper()
	address := netip.AddrFrom4([4]byte{10, 1, 0, number})
	n.must(n.at["xtr1"].AddAddress("site0", netip.PrefixFrom(address, 24)))
	n.await("xtr1 has looked at its host", func(ctx context.Context) bool {
		answer, err := n.client("xtr1").Interfaces(ctx)
		return err == nil && slices.Contains(answer.Interfaces[0].Addresses, address)
	})
}

// expectToldOnce fails the test unless the log of a daemon has each warning once since some place, and no error.
func (n *lispNetwork) expectToldOnce(name string, since int) {
	n.t.Helper()
	log := n.logs[name].String()[since:]
	for _, stale := range staleAt1 {
		if told := strings.Count(log, stale); told != 1 {
			n.t.Errorf("%s: told %d times", stale, told)
		}
	}
	if strings.Contains(log, "level=ERROR") {
		n.t.Errorf("the log has errors: %s", log)
	}
}

// healRoutes replaces the stale routes of xtr1.
func (n *lispNetwork) healRoutes() {
	n.t.Helper()
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := n.at["xtr1"].Netlink().RouteListFiltered(family, &netlink.Route{Dst: nil}, netlink.RT_FILTER_DST)
		n.must(err)
		for _, route := range routes {
			n.must(n.at["xtr1"].Netlink().RouteDel(&route))
		}
	}
	n.defaults("xtr1", "172.16.101.1", "2001:db8:101::1")
}
