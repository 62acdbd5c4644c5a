// SPDX-License-Identifier: Apache-2.0

package links

// The network with a box between the router and the core, which a test makes a NAT. What is said to be at the core
// has other addresses than the suite's.

import (
	"net/netip"
	"testing"

	"loci/dataplane/conformance"
	"loci/internal/testnet"
)

// Outside is the box's interface towards the core.
const Outside = "out0"

// The box's addresses, and those of the peers behind it.
var (
	boxInside  = []netip.Prefix{netip.MustParsePrefix("192.0.2.254/24"), netip.MustParsePrefix("2001:db8:ff00::fe/64")}
	boxOutside = []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("2001:db8:99::1/64")}
	// FarPeers are routers of other sites behind the box.
	FarPeers = []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("2001:db8:99::2")}
)

// NewBehind makes the network with a box, which forwards and translates nothing yet; it goes with the test.
func NewBehind(t testing.TB) (n *Network, box *testnet.Namespace) {
	t.Helper()
	network := testnet.ForTest(t)
	spaces := map[string]*testnet.Namespace{}
	for _, role := range []string{"xtr", "site", "box", "core"} {
		ns, err := network.Namespace(role)
		must(t, err)
		spaces[role] = ns
	}
	router, box := spaces["xtr"], spaces["box"]
	for _, ns := range []*testnet.Namespace{router, box} {
		must(t, ns.Forward())
		must(t, ns.SetReversePathFilter(0))
	}
	site := []netip.Prefix{netip.MustParsePrefix("10.1.0.1/24"), netip.MustParsePrefix("2001:db8:1::1/64")}
	core := []netip.Prefix{netip.PrefixFrom(conformance.OwnRLOC4, 24), netip.PrefixFrom(conformance.OwnRLOC6, 64)}
	must(t, testnet.Connect(testnet.End{Namespace: router, Name: Core, Addresses: core, MTU: conformance.PathMTU},
		testnet.End{Namespace: box, Name: "in0", Addresses: boxInside, MTU: conformance.PathMTU}))
	n = &Network{
		Router: router,
		site:   connect(t, testnet.End{Namespace: router, Name: Site, Addresses: site}, spaces["site"], conformance.SiteHosts),
		core:   connect(t, testnet.End{Namespace: box, Name: Outside, Addresses: boxOutside}, spaces["core"], FarPeers),
	}
	must(t, router.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: boxInside[0].Addr()}))
	must(t, router.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: boxInside[1].Addr()}))
	return n, box
}
