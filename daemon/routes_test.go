// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

// routedHost is a namespace with a LISP interface and EIDs of both families.
func routedHost(t *testing.T) (*testnet.Namespace, policyRoutes) {
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
	return ns, policyRoutes{
		table: 4341, priority: 4341, fallbackPriority: 43410, link: "loci0",
		prefixes: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("2001:db8:1::/64")},
	}
}

func ownState(t *testing.T, ns *testnet.Namespace, r policyRoutes) (rules []ruleKey, routes []netlink.Route) {
	t.Helper()
	err := ns.Do(func() (err error) {
		if rules, err = r.ownRules(); err != nil {
			return err
		}
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			found, err := r.ownRoutes(family)
			if err != nil {
				return err
			}
			routes = append(routes, found...)
		}
		return nil
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

func TestPolicyRoutesFollowThePrefixes(t *testing.T) {
	ns, r := routedHost(t)
	apply(t, ns, r.apply)
	apply(t, ns, r.apply) // as a second start does
	rules, routes := ownState(t, ns, r)
	if wanted := r.rules(); len(rules) != len(wanted) || len(wanted) != 11 {
		t.Errorf("rules %+v, want %+v", rules, wanted)
	}
	if len(routes) != 2 || routes[0].Src.String() != "10.1.0.1" || routes[1].Src.String() != "2001:db8:1::1" {
		t.Errorf("routes %v, want one a family with this host's EID as source", routes)
	}

	r.prefixes = slices.DeleteFunc(r.prefixes, func(p netip.Prefix) bool { return p.String() == "10.9.0.0/24" })
	apply(t, ns, r.apply)
	if rules, _ := ownState(t, ns, r); len(rules) != 8 {
		t.Errorf("after a prefix left: %+v", rules)
	}
	apply(t, ns, r.remove)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) != 0 {
		t.Errorf("left behind: %+v, %v", rules, routes)
	}
}

func TestOwnEIDsLeaveByTheLISPInterface(t *testing.T) {
	ns, r := routedHost(t)
	apply(t, ns, r.apply)
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
