// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestSiblingPathLeadsToTheSibling, and nowhere for a family in which it has no address.
func TestSiblingPathLeadsToTheSibling(t *testing.T) {
	ns, r := twoProviders(t)
	if err := ns.SetUp("loci0", true); err != nil {
		t.Fatal(err)
	}
	r.prefixes = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("fd00:1::/64")}
	r.siblings = siblingPath{active: true, siblings: [][]netip.Addr{addrs("10.1.0.99"), addrs("10.1.0.10")}}
	r.siblings.choose(netip.MustParseAddr("10.1.0.10"))
	apply(t, ns, r.look)
	leavesBy(t, ns, "10.1.0.1", "203.0.113.1", "site0")
	leavesBy(t, ns, "10.1.0.1", "10.1.0.77", "site0")
	apply(t, ns, func() error {
		options := netlink.RouteGetOptions{SrcAddr: netip.MustParseAddr("fd00:1::1").AsSlice()}
		routes, err := netlink.RouteGetWithOptions(netip.MustParseAddr("2001:db8:f::1").AsSlice(), &options)
		if err == nil && len(routes) > 0 && routes[0].Type != unix.RTN_UNREACHABLE {
			t.Errorf("IPv6 leaves without encapsulation: %+v", routes)
		}
		return nil
	})
	_, routes := ownState(t, ns, r)
	for _, route := range defaults(routes) {
		if route.table == r.table && route.family == unix.AF_INET && route.gateway != netip.MustParseAddr("10.1.0.10") {
			t.Errorf("by the wrong sibling: %+v", route)
		}
	}
	r.siblings.active = false
	apply(t, ns, r.look)
	leavesBy(t, ns, "10.1.0.1", "203.0.113.1", "loci0")
}
