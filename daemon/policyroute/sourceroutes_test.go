// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/config"
	"loci/daemon/hostnet"
	"loci/internal/testnet"
)

// twoProviders is a router with a site and two providers; the main table prefers the
// first one.
func twoProviders(t *testing.T) (*testnet.Namespace, Policy) {
	t.Helper()
	network := testnet.ForTest(t)
	at := map[string]*testnet.Namespace{}
	for _, role := range []string{"xtr", "host", "isp0", "isp1"} {
		ns, err := network.Namespace(role)
		if err != nil {
			t.Fatal(err)
		}
		at[role] = ns
	}
	for _, l := range []struct{ link, peer, own4, peer4, own6, peer6 string }{
		{"site0", "host", "10.1.0.1/24", "10.1.0.10/24", "fd00:1::1/64", "fd00:1::10/64"},
		{"core0", "isp0", "192.0.2.1/24", "192.0.2.254/24", "2001:db8:a::1/64", "2001:db8:a::fe/64"},
		{"core1", "isp1", "198.51.100.1/24", "198.51.100.254/24", "2001:db8:b::1/64", "2001:db8:b::fe/64"},
	} {
		if err := testnet.Connect(
			testnet.End{Namespace: at["xtr"], Name: l.link, Addresses: []netip.Prefix{netip.MustParsePrefix(l.own4), netip.MustParsePrefix(l.own6)}},
			testnet.End{Namespace: at[l.peer], Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix(l.peer4), netip.MustParsePrefix(l.peer6)}},
		); err != nil {
			t.Fatal(err)
		}
	}
	ns := at["xtr"]
	if err := ns.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "loci0"}}); err != nil {
		t.Fatal(err)
	}
	for metric, gateways := range [][]string{{"192.0.2.254", "2001:db8:a::fe"}, {"198.51.100.254", "2001:db8:b::fe"}} {
		for _, gateway := range gateways {
			a := netip.MustParseAddr(gateway)
			route := &netlink.Route{Dst: hostnet.NetOf(hostnet.Everything(hostnet.FamilyOf(a))), Gw: a.AsSlice(), Priority: 10 + metric}
			if err := ns.Netlink().RouteAdd(route); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ns, Policy{
		protocol: 143, table: 4341, priority: 4341, fallbackPriority: 43410, link: "loci0", notes: t.TempDir() + "/sysctl",
		sources: sourceRoutes{
			table: 4342, priority: 4330, core: []config.InterfaceRef{{Name: "core0"}, {Address: netip.MustParseAddr("198.51.100.1")}, {Name: "core9"}},
			rlocs: addrs("192.0.2.1", "198.51.100.1", "2001:db8:a::1", "2001:db8:b::1", "203.0.113.9"),
		},
	}
}

// look gives the routes a fresh view of the host, then puts them in force.
func (r *Policy) look() error {
	view, err := hostnet.Look()
	if err != nil {
		return err
	}
	r.sources.view = view
	return r.put()
}

// leavesBy fails the test unless packets between two addresses leave by a link.
func leavesBy(t *testing.T, ns *testnet.Namespace, source, destination, want string) {
	t.Helper()
	apply(t, ns, func() error {
		options := netlink.RouteGetOptions{SrcAddr: netip.MustParseAddr(source).AsSlice()}
		routes, err := netlink.RouteGetWithOptions(netip.MustParseAddr(destination).AsSlice(), &options)
		if err != nil {
			return err
		}
		link, err := netlink.LinkByIndex(routes[0].LinkIndex)
		if err == nil && link.Attrs().Name != want {
			t.Errorf("%s -> %s leaves by %s, want %s", source, destination, link.Attrs().Name, want)
		}
		return err
	})
}

func TestEachRLOCLeavesByItsInterface(t *testing.T) {
	ns, r := twoProviders(t)
	leavesBy(t, ns, "198.51.100.1", "203.0.113.1", "core0") // without source routes
	apply(t, ns, r.look)
	for _, c := range []struct{ source, destination, link string }{
		{"192.0.2.1", "203.0.113.1", "core0"},
		{"198.51.100.1", "203.0.113.1", "core1"},
		{"2001:db8:a::1", "2001:db8:f::1", "core0"},
		{"2001:db8:b::1", "2001:db8:f::1", "core1"},
		{"198.51.100.1", "198.51.100.7", "core1"},
		{"198.51.100.1", "10.1.0.10", "site0"},
		{"2001:db8:b::1", "fd00:1::10", "site0"},
		{"198.51.100.1", "192.0.2.7", "core0"}, // a network of this host's own
	} {
		leavesBy(t, ns, c.source, c.destination, c.link)
	}
	rules, routes := ownState(t, ns, r)
	if len(rules) != 12 || len(routes) != 8 {
		t.Errorf("%d rules, %d routes: %+v, %+v", len(rules), len(routes), rules, routes)
	}
	apply(t, ns, r.look)
	if again, same := ownState(t, ns, r); len(again) != 12 || len(same) != 8 {
		t.Errorf("a second time: %+v, %+v", again, same)
	}
}

func TestSourceRoutesFollowTheGateway(t *testing.T) {
	ns, r := twoProviders(t)
	apply(t, ns, r.look)
	for _, gateway := range []string{"198.51.100.253", "2001:db8:b::fd"} {
		a := netip.MustParseAddr(gateway)
		route := &netlink.Route{Dst: hostnet.NetOf(hostnet.Everything(hostnet.FamilyOf(a))), Gw: a.AsSlice(), Priority: 11}
		if err := ns.Netlink().RouteReplace(route); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, ns, r.look)
	_, routes := ownState(t, ns, r)
	found := 0
	for _, route := range routes {
		if route.table == 4343 && route.destination.Bits() == 0 {
			found++
			if g := route.gateway.String(); g != "198.51.100.253" && g != "2001:db8:b::fd" {
				t.Errorf("the old gateway: %+v", route)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d default routes of the second provider: %+v", found, routes)
	}
	if err := ns.SetUp("core1", false); err != nil { // takes routes along
		t.Fatal(err)
	}
	apply(t, ns, r.look)
	r.sources.core = nil
	apply(t, ns, r.put)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) != 0 {
		t.Errorf("switched off: %+v, %+v", rules, routes)
	}
}

// One default route by both providers, as for ECMP: it stays when one link goes down, with a next hop that no packet may use.
func TestSourceRoutesWithoutDeadNextHops(t *testing.T) {
	ns, r := twoProviders(t)
	for _, gateways := range [][]string{{"192.0.2.254", "198.51.100.254"}, {"2001:db8:a::fe", "2001:db8:b::fe"}} {
		route := &netlink.Route{Dst: hostnet.NetOf(hostnet.Everything(hostnet.FamilyOf(netip.MustParseAddr(gateways[0])))), Priority: 1}
		for i, gateway := range gateways {
			link, err := ns.Netlink().LinkByName([]string{"core0", "core1"}[i])
			if err != nil {
				t.Fatal(err)
			}
			route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: link.Attrs().Index, Gw: netip.MustParseAddr(gateway).AsSlice()})
		}
		if err := ns.Netlink().RouteAdd(route); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, ns, r.look)
	if err := ns.SetUp("core0", false); err != nil {
		t.Fatal(err)
	}
	apply(t, ns, r.look)
	leavesBy(t, ns, "198.51.100.1", "203.0.113.1", "core1")
	leavesBy(t, ns, "2001:db8:b::1", "2001:db8:f::1", "core1")
	_, routes := ownState(t, ns, r)
	for _, route := range routes {
		if route.table == 4342 {
			t.Errorf("by a link that is down: %+v", route)
		}
	}
}
