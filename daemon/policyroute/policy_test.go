// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/config"
	"loci/daemon/hostnet"
	"loci/internal/testnet"
)

// routedHost is a namespace with a LISP interface and EIDs of both families.
func routedHost(t *testing.T) (*testnet.Namespace, Policy) {
	t.Helper()
	network := testnet.ForTest(t)
	ns, err := network.Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []netlink.Link{
		&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "loci0"}}, // any link will do
		&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "site0"}},
	} {
		if err := ns.Netlink().LinkAdd(link); err != nil {
			t.Fatal(err)
		}
		if err := ns.SetUp(link.Attrs().Name, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{"10.1.0.1/24", "2001:db8:1::1/64"} {
		if err := ns.AddAddress("site0", netip.MustParsePrefix(address)); err != nil {
			t.Fatal(err)
		}
	}
	return ns, Policy{
		protocol: 143, table: 4341, priority: 4341, fallbackPriority: 43410, link: "loci0", notes: t.TempDir() + "/sysctl",
		prefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("2001:db8:1::/64")},
	}
}

func ownState(t *testing.T, ns *testnet.Namespace, r Policy) (rules []ruleKey, routes []routeKey) {
	t.Helper()
	err := ns.Do(func() (err error) {
		if rules, err = r.ownRules(); err != nil {
			return err
		}
		routes, err = r.ownRoutes()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rules, routes
}

func apply(t *testing.T, ns *testnet.Namespace, f func() error) {
	t.Helper()
	if err := ns.Do(f); err != nil {
		t.Fatal(err)
	}
}

// put is apply without warnings, which a test that can write everything has none of.
func (r Policy) put() error {
	warnings, err := r.apply()
	if len(warnings) > 0 {
		err = errors.Join(err, errors.New(strings.Join(warnings, "; ")))
	}
	return err
}

func TestPolicyRoutesFollowThePrefixes(t *testing.T) {
	ns, r := routedHost(t)
	apply(t, ns, r.put)
	apply(t, ns, r.put) // as a second start does
	rules, routes := ownState(t, ns, r)
	if len(rules) != 8 {
		t.Errorf("rules %+v, want two a prefix and one a family", rules)
	}
	if ways := defaults(routes); len(routes) != 5 || len(ways) != 2 || ways[0].source.String() != "10.1.0.1" || ways[1].source.String() != "2001:db8:1::1" {
		t.Errorf("routes %v, want one a prefix and a default route a family with this host's EID as source", routes)
	}

	r.prefixes = slices.DeleteFunc(r.prefixes, func(p netip.Prefix) bool { return p.String() == "10.9.0.0/24" })
	apply(t, ns, r.put)
	if rules, _ := ownState(t, ns, r); len(rules) != 6 {
		t.Errorf("after a prefix left: %+v", rules)
	}
	r.prefixes = slices.DeleteFunc(r.prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() })
	apply(t, ns, r.put)
	if rules, routes := ownState(t, ns, r); len(rules) != 3 || len(routes) != 2 {
		t.Errorf("after the last prefix of a family left: %+v, %v", rules, routes)
	}
	apply(t, ns, r.Remove)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) != 0 {
		t.Errorf("left behind: %+v, %v", rules, routes)
	}
}

func defaults(routes []routeKey) []routeKey {
	return slices.DeleteFunc(slices.Clone(routes), func(r routeKey) bool { return r.destination.Bits() != 0 })
}

// TestAllAddressesAreEIDs: there is no way out for LISP then, and the kernel's state is in line at once.
func TestAllAddressesAreEIDs(t *testing.T) {
	ns, r := routedHost(t)
	r.prefixes = []netip.Prefix{hostnet.Everything(unix.AF_INET), hostnet.Everything(unix.AF_INET6)}
	apply(t, ns, r.put)
	if rules, routes := changesOf(t, ns, r); rules+routes != 0 {
		t.Errorf("again: %d changes of rules and %d of routes", rules, routes)
	}
	leavesBy(t, ns, "10.1.0.1", "10.1.0.77", "site0")
	leavesBy(t, ns, "2001:db8:1::1", "2001:db8:1::77", "site0")
	r.prefixes = r.prefixes[:1]
	apply(t, ns, r.put)
	apply(t, ns, r.Remove)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) != 0 {
		t.Errorf("left behind: %+v, %v", rules, routes)
	}
}

// TestOldNumbersGo: another table and other priorities leave nothing of the old ones.
func TestOldNumbersGo(t *testing.T) {
	ns, r := routedHost(t)
	apply(t, ns, r.put)
	r.table, r.priority, r.fallbackPriority = 77, 500, 40000
	apply(t, ns, r.put) // as a start with another configuration does
	rules, routes := ownState(t, ns, r)
	if len(rules) != 8 || len(routes) != 5 {
		t.Errorf("rules %+v, routes %+v", rules, routes)
	}
	for _, route := range routes {
		if route.table != 77 {
			t.Errorf("a route in an old table: %+v", route)
		}
	}
}

func TestOthersRulesStay(t *testing.T) {
	ns, r := routedHost(t)
	other := netlink.NewRule()
	other.Family, other.Priority, other.Table, other.Protocol = unix.AF_INET, r.priority, 99, 144
	apply(t, ns, func() error { return netlink.RuleAdd(other) })
	apply(t, ns, r.put)
	apply(t, ns, r.Remove)
	r.protocol = 144
	if rules, _ := ownState(t, ns, r); len(rules) != 1 {
		t.Errorf("another program's rules: %+v", rules)
	}
}

// TestLoopbackForwardingIsPutBack, where this program changed it, and only there.
func TestLoopbackForwardingIsPutBack(t *testing.T) {
	for _, c := range []struct{ all, lo, want string }{{"0", "0", "0"}, {"0", "1", "1"}, {"1", "1", "1"}} {
		ns, r := routedHost(t)
		for name, value := range map[string]string{"all": c.all, "lo": c.lo} {
			if name == "lo" || c.all == "1" {
				if err := ns.SetSysctl("net.ipv4.conf."+name+".forwarding", value); err != nil {
					t.Fatal(err)
				}
			}
		}
		apply(t, ns, r.put)
		if value, err := ns.Sysctl("net.ipv4.conf.lo.forwarding"); err != nil || value != "1" {
			t.Errorf("in force: %s, %v", value, err)
		}
		apply(t, ns, r.put) // a second start must not take the set value for the old one
		apply(t, ns, r.Remove)
		if value, err := ns.Sysctl("net.ipv4.conf.lo.forwarding"); err != nil || value != c.want {
			t.Errorf("all %s, lo %s: afterwards %s, %v", c.all, c.lo, value, err)
		}
	}
}

func TestOwnEIDsLeaveByTheLISPInterface(t *testing.T) {
	ns, r := routedHost(t)
	apply(t, ns, r.put)
	for _, c := range []struct{ source, destination, link string }{
		{"10.1.0.1", "10.2.0.1", "loci0"},
		{"10.1.0.1", "10.1.0.77", "site0"}, // an EID of this site
		{"", "10.2.0.1", "loci0"},          // no other route, no source chosen
		{"2001:db8:1::1", "2001:db8:2::1", "loci0"},
		{"2001:db8:1::1", "2001:db8:1::77", "site0"},
	} {
		apply(t, ns, func() error {
			var options netlink.RouteGetOptions
			if c.source != "" {
				options.SrcAddr = netip.MustParseAddr(c.source).AsSlice()
			}
			routes, err := netlink.RouteGetWithOptions(netip.MustParseAddr(c.destination).AsSlice(), &options)
			if err != nil {
				return err
			}
			link, err := netlink.LinkByIndex(routes[0].LinkIndex)
			if err == nil && link.Attrs().Name != c.link {
				t.Errorf("%s -> %s leaves by %s, want %s", c.source, c.destination, link.Attrs().Name, c.link)
			}
			return err
		})
	}
}

// many makes prefixes of both families: n host routes each, with gaps, so that they do not add up to larger ones.
func many(n int) (prefixes []netip.Prefix) {
	for i := range n {
		at := 3 * i
		prefixes = append(prefixes,
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(at >> 16), byte(at >> 8), byte(at)}), 32),
			netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 1, byte(at >> 16), byte(at >> 8), byte(at)}), 64))
	}
	return prefixes
}

// changesOf counts the changes of the rules and routes of r that the kernel reports while f runs in a namespace. Its
// own routes do not count: it makes those of a link-local address some time after the interface is up.
func changesOf(t *testing.T, ns *testnet.Namespace, r Policy) (rules, routes int) {
	t.Helper()
	apply(t, ns, func() error {
		news, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
		if err != nil {
			return err
		}
		defer news.Close()
		if err := errors.Join(news.SetReceiveBufferSize(64<<20, true), r.put()); err != nil {
			return err
		}
		for buffer := make([]byte, 1<<16); ; {
			n, _, err := unix.Recvfrom(news.GetFd(), buffer, unix.MSG_DONTWAIT)
			if errors.Is(err, unix.EAGAIN) {
				return nil
			} else if err != nil {
				return err
			}
			messages, err := syscall.ParseNetlinkMessage(buffer[:n])
			if err != nil {
				return err
			}
			for _, m := range messages {
				switch m.Header.Type {
				case unix.RTM_NEWRULE, unix.RTM_DELRULE:
					rules++
				case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
					if int(nl.DeserializeRtMsg(m.Data).Protocol) == r.protocol {
						routes++
					}
				}
			}
		}
	})
	return rules, routes
}

// TestManyPrefixesShareRules: the kernel goes through rules one by one, for each route that it looks up and
// for each rule that is added. A change of one prefix is a change of one route.
func TestManyPrefixesShareRules(t *testing.T) {
	ns, r := routedHost(t)
	r.prefixes = append(r.prefixes, many(2000)...)
	rules, routes := changesOf(t, ns, r)
	if rules > 1000 || routes > 2*len(r.prefixes) {
		t.Errorf("%d changes of rules and %d of routes for %d EID-Prefixes", rules, routes, len(r.prefixes))
	}
	for _, c := range []struct{ source, destination, link string }{
		{"10.1.0.1", "10.99.0.1", "loci0"}, // no EID of this site
		{"10.1.0.1", "10.1.0.77", "site0"}, // one
		{"2001:db8:1::1", "2001:db8:2::1", "loci0"},
		{"2001:db8:1::1", "2001:db8:1::77", "site0"},
	} {
		leavesBy(t, ns, c.source, c.destination, c.link)
	}
	if rules, routes := changesOf(t, ns, r); rules+routes != 0 {
		t.Errorf("again: %d changes of rules and %d of routes", rules, routes)
	}
	r.prefixes = r.prefixes[:len(r.prefixes)-1]
	if rules, routes := changesOf(t, ns, r); rules > 2 || routes != 1 {
		t.Errorf("one prefix less: %d changes of rules and %d of routes", rules, routes)
	}
	r.prefixes = r.prefixes[:3]
	apply(t, ns, r.put)
	if rules, routes := ownState(t, ns, r); len(rules) != 8 || len(routes) != 5 {
		t.Errorf("three prefixes left: %d rules, %d routes", len(rules), len(routes))
	}
	apply(t, ns, r.Remove)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) != 0 {
		t.Errorf("left behind: %+v, %v", rules, routes)
	}
}

// TestRefusedRouteKeepsNoOtherFromBeingInForce: IPv6 is switched off at the LISP interface, as on hosts that have it
// off by default.
func TestRefusedRouteKeepsNoOtherFromBeingInForce(t *testing.T) {
	ns, r := routedHost(t)
	if err := ns.SetSysctl("net.ipv6.conf.loci0.disable_ipv6", "1"); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	sync := func() error {
		var err error
		warnings, err = r.apply()
		return err
	}
	apply(t, ns, sync)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "route to ::/0 by loci0 is not in force in table 4341") {
		t.Errorf("warnings %q, want the route of IPv6", warnings)
	}
	rules, routes := ownState(t, ns, r)
	isDefault := func(k routeKey) bool { return k.destination.Bits() == 0 }
	if at := slices.IndexFunc(routes, isDefault); len(rules) != 8 || len(routes) != 4 || at < 0 || routes[at].family != unix.AF_INET {
		t.Errorf("rules %v, routes %+v, want all but the route of IPv6", rules, routes)
	}
	if err := ns.SetSysctl("net.ipv6.conf.loci0.disable_ipv6", "0"); err != nil {
		t.Fatal(err)
	}
	apply(t, ns, sync)
	if _, routes := ownState(t, ns, r); len(warnings) != 0 || len(routes) != 5 {
		t.Errorf("healed: warnings %q, routes %+v", warnings, routes)
	}
	apply(t, ns, r.Remove)
}

// TestEIDsKeepTheirRouteWhereAnotherIsRefused: packets from EIDs would leave without encapsulation.
func TestEIDsKeepTheirRouteWhereAnotherIsRefused(t *testing.T) {
	ns, r := routedHost(t)
	apply(t, ns, r.put)
	_, before := ownState(t, ns, r)
	apply(t, ns, func() error {
		view, err := hostnet.Look()
		r.sources.view = view
		return err
	})
	// The siblings' network is there no more when their routes are made.
	r.siblings = siblingPath{active: true, siblings: [][]netip.Addr{addrs("10.1.0.2", "2001:db8:1::2")}}
	if err := ns.SetUp("site0", false); err != nil {
		t.Fatal(err)
	}
	var warnings []string
	apply(t, ns, func() (err error) {
		warnings, err = r.apply()
		return err
	})
	_, after := ownState(t, ns, r)
	defaults := func(routes []routeKey) (list []string) {
		for _, route := range routes {
			if route.destination.Bits() == 0 {
				list = append(list, fmt.Sprint(route.family, route.link))
			}
		}
		return list
	}
	if len(warnings) != 2 || len(defaults(before)) != 2 || !slices.Equal(defaults(before), defaults(after)) {
		t.Errorf("warnings %q, routes %+v, were %+v", warnings, after, before)
	}
}

// The numbers and names of a configuration are those of its rules and routes.
func TestRoutesOfAConfiguration(t *testing.T) {
	c, err := config.Parse("loci.yaml", []byte("map-resolver: {ms-address: [192.0.2.1]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if r := PolicyOf(c); r.link != "loci0" || r.table != 4341 {
		t.Errorf("policy routes %+v", r)
	}
}

func addrs(list ...string) (addresses []netip.Addr) {
	for _, a := range list {
		addresses = append(addresses, netip.MustParseAddr(a))
	}
	return addresses
}

// TestNothingPassesWithoutTheLISPInterface deletes it where packets reach the engine by it alone: packets of EIDs end
// there, though the main table has a route.
func TestNothingPassesWithoutTheLISPInterface(t *testing.T) {
	ns, r := routedHost(t)
	r.arrivals = arrivals{wanted: true, site: []string{"site0"}}
	apply(t, ns, func() error { return r.put() })
	link, err := ns.Netlink().LinkByName("loci0")
	if err != nil {
		t.Fatal(err)
	}
	site, err := ns.Netlink().LinkByName("site0")
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		if err := ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix(all), Link: "site0"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ns.Forward(); err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{true, false} {
		if !there {
			if err := ns.Netlink().LinkDel(link); err != nil {
				t.Fatal(err)
			}
		}
		for source, destination := range map[string]string{"10.1.0.10": "198.51.100.1", "2001:db8:1::10": "2001:db8:ffff::1"} {
			routes, err := ns.Netlink().RouteGetWithOptions(net.ParseIP(destination), &netlink.RouteGetOptions{IifIndex: site.Attrs().Index, SrcAddr: net.ParseIP(source)})
			if there && (err != nil || routes[0].LinkIndex != link.Attrs().Index) {
				t.Errorf("to %s there is %v, %v", destination, routes, err)
			}
			if !there && !errors.Is(err, unix.EINVAL) { // which a blackhole says
				t.Errorf("without the LISP interface to %s there is %v, %v", destination, routes, err)
			}
		}
	}
	apply(t, ns, r.Remove)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) > 0 {
		t.Errorf("left: %v %v", rules, routes)
	}
}

// TestKernelWithoutRules: where rules cannot be had, no route is made, which might be one of the only table. It is
// told, and all is there once rules can be had.
func TestKernelWithoutRules(t *testing.T) {
	ns, routes := routedHost(t)
	without := routes
	without.listRules = func(int) ([]netlink.Rule, error) { return nil, hostnet.ErrNoRules }
	without.arrivals.wanted = true
	apply(t, ns, func() error {
		warnings, err := without.apply()
		if len(warnings) != 1 || !strings.Contains(warnings[0], "packets of EIDs are not encapsulated unless routes of the host lead them into loci0") {
			t.Errorf("warnings %q", warnings)
		}
		return err
	})
	if rules, made := ownState(t, ns, routes); len(rules)+len(made) > 0 {
		t.Errorf("made %v, %v", rules, made)
	}
	apply(t, ns, without.Remove)
	apply(t, ns, routes.put)
	if rules, made := ownState(t, ns, routes); len(rules) == 0 || len(made) == 0 {
		t.Errorf("made only %v, %v", rules, made)
	}
}
