// SPDX-License-Identifier: Apache-2.0

// The network of one arm: Src – Enc – Dec – Dst in a line (the testbed of the OpenLISP paper), each a namespace, every link
// with MTU 1500. A relay stands between Enc and Dec where the arm has one (relayed.go). Neighbours are permanent, so that no round pays for address resolution.
//
// Each arm has a line of its own, built once: switching between arms then changes nothing but where packets are sent.

package testbed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

const (
	// LinkMTUOctets is the MTU of every link.
	LinkMTUOctets = 1500

	HostLink = "eth0" // of src and dst
	SiteLink = "site" // of enc and dec, towards their host
	CoreLink = "core" // of enc and dec, towards each other
)

// Pair is a pair of address families: that of the EIDs in that of the RLOCs, with EIDs of its own.
type Pair struct {
	Name                string
	Sources             netip.Prefix // of the site at enc
	destinations        netip.Prefix // of the site at dec
	EncCore, DecCore    netip.Prefix // of the core link, in the family of the RLOCs
	nativeEnc, nativeTo netip.Prefix // of the core link, in the family of the EIDs
}

// RLOCs of the two routers, of each family, with the prefix of the core link.
var (
	Core4Enc = netip.MustParsePrefix("172.16.0.1/24")
	Core4Dec = netip.MustParsePrefix("172.16.0.2/24")
	Core6Enc = netip.MustParsePrefix("2001:db8:c::1/64")
	Core6Dec = netip.MustParsePrefix("2001:db8:c::2/64")
)

// pairs, named by the EIDs in the RLOCs.
var Pairs = []Pair{
	{"ipv4-in-ipv4", netip.MustParsePrefix("10.1.4.0/24"), netip.MustParsePrefix("10.2.4.0/24"), Core4Enc, Core4Dec, Core4Enc, Core4Dec},
	{"ipv4-in-ipv6", netip.MustParsePrefix("10.1.6.0/24"), netip.MustParsePrefix("10.2.6.0/24"), Core6Enc, Core6Dec, Core4Enc, Core4Dec},
	{"ipv6-in-ipv4", netip.MustParsePrefix("2001:db8:a:4::/64"), netip.MustParsePrefix("2001:db8:b:4::/64"), Core4Enc, Core4Dec, Core6Enc, Core6Dec},
	{"ipv6-in-ipv6", netip.MustParsePrefix("2001:db8:a:6::/64"), netip.MustParsePrefix("2001:db8:b:6::/64"), Core6Enc, Core6Dec, Core6Enc, Core6Dec},
}

// Source is the address of Src.
func (p Pair) Source() netip.Addr { return Nth(p.Sources, 2) }

// Destination is the address of Dst.
func (p Pair) Destination() netip.Addr { return Nth(p.destinations, 2) }

// Inner4 says that the EIDs are of IPv4.
func (p Pair) Inner4() bool { return p.Sources.Addr().Is4() }

// Outer4 says that the RLOCs are of IPv4.
func (p Pair) Outer4() bool { return p.EncCore.Addr().Is4() }

// Nth is the n-th address of a prefix whose last octet is free.
func Nth(prefix netip.Prefix, n byte) netip.Addr {
	octets := prefix.Masked().Addr().AsSlice()
	octets[len(octets)-1] = n
	address, _ := netip.AddrFromSlice(octets)
	return address
}

// Line is the built network of one arm.
type Line struct {
	Arm                Arm
	Src, Enc, Dec, Dst *testnet.Namespace
	Rel                *testnet.Namespace // between Enc and Dec, where the arm has a relay
	Second             *testnet.Namespace // the second host of Enc's site, where the arm has one
	Traffic            *Traffic
	Closers            []func() error // undone with the line
}

// routers are those from Src to Dst.
func (l *Line) routers() []*testnet.Namespace {
	if l.Rel != nil {
		return []*testnet.Namespace{l.Enc, l.Rel, l.Dec}
	}
	return []*testnet.Namespace{l.Enc, l.Dec}
}

// siteAddresses are the n-th addresses of the prefixes of one site.
func siteAddresses(n byte, prefixOf func(Pair) netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range Pairs {
		all = append(all, netip.PrefixFrom(Nth(prefixOf(p), n), prefixOf(p).Bits()))
	}
	return all
}

// SourcesOf is the EID-Prefix of the site at Enc.
func SourcesOf(p Pair) netip.Prefix { return p.Sources }

// DestinationsOf is the EID-Prefix of the site at Dec.
func DestinationsOf(p Pair) netip.Prefix { return p.destinations }

// NewLine makes namespaces and links. What it made before an error is removed with the network.
func NewLine(network *testnet.Network, a Arm) (*Line, error) {
	l := &Line{Arm: a}
	places := map[string]**testnet.Namespace{"src": &l.Src, "enc": &l.Enc, "dec": &l.Dec, "dst": &l.Dst}
	if a.Relayed {
		places["rel"] = &l.Rel
	}
	for role, place := range places {
		ns, err := network.Namespace(a.Key + "-" + role)
		if err != nil {
			return nil, err
		}
		*place = ns
		if err := ns.SetReversePathFilter(0); err != nil {
			return nil, err
		}
	}
	for _, router := range l.routers() {
		if err := router.Forward(); err != nil {
			return nil, err
		}
	}
	for _, ends := range l.links() {
		if err := errors.Join(testnet.Connect(ends[0], ends[1])); err != nil {
			return nil, err
		}
		if err := errors.Join(acquaint(ends[0], ends[1]), acquaint(ends[1], ends[0])); err != nil {
			return nil, err
		}
	}
	return l, errors.Join(
		l.Src.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: Nth(Pairs[0].Sources, 1)}),
		l.Src.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: Nth(Pairs[2].Sources, 1)}),
		l.Dst.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: Nth(Pairs[0].destinations, 1)}),
		l.Dst.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: Nth(Pairs[2].destinations, 1)}),
	)
}

// AddSecondHost makes a second host at Enc's site, with a link of its own, as from two ports of a card. It has no
// address.
func (l *Line) AddSecondHost(network *testnet.Network) (err error) {
	if l.Second, err = network.Namespace(l.Arm.Key + "-second"); err != nil {
		return err
	}
	return errors.Join(testnet.Connect(testnet.End{Namespace: l.Second, Name: HostLink, MTU: LinkMTUOctets},
		testnet.End{Namespace: l.Enc, Name: SecondSiteLink, MTU: LinkMTUOctets}),
		l.Enc.SetOffload(SecondSiteLink, testnet.GRO, true))
}

// Silence takes Dst's routes back: it answers nothing.
func (l *Line) Silence() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := l.Dst.Netlink().RouteList(nil, family)
		if err != nil {
			return err
		}
		for _, route := range routes {
			if route.Gw == nil {
				continue
			}
			if err := l.Dst.Netlink().RouteDel(&route); err != nil {
				return fmt.Errorf("remove a route in %s: %w", l.Dst.Name(), err)
			}
		}
	}
	return nil
}

func (l *Line) links() [][2]testnet.End {
	end := func(ns *testnet.Namespace, name string, addresses ...netip.Prefix) testnet.End {
		return testnet.End{Namespace: ns, Name: name, Addresses: addresses, MTU: LinkMTUOctets}
	}
	core := [][2]testnet.End{{end(l.Enc, CoreLink, Core4Enc, Core6Enc), end(l.Dec, CoreLink, Core4Dec, Core6Dec)}}
	if l.Rel != nil {
		core = [][2]testnet.End{
			{end(l.Enc, CoreLink, Core4Enc, Core6Enc), end(l.Rel, CoreLink, Core4Rel, Core6Rel)},
			{end(l.Rel, OnwardLink, Onward4Rel, Onward6Rel), end(l.Dec, CoreLink, Onward4Dec, Onward6Dec)},
		}
	}
	return append(core, [][2]testnet.End{
		{end(l.Src, HostLink, siteAddresses(2, SourcesOf)...), end(l.Enc, SiteLink, siteAddresses(1, SourcesOf)...)},
		{end(l.Dec, SiteLink, siteAddresses(1, DestinationsOf)...), end(l.Dst, HostLink, siteAddresses(2, DestinationsOf)...)},
	}...)
}

// acquaint makes every address of the peer a permanent neighbour.
func acquaint(at, peer testnet.End) error {
	local, err := LinkOf(at.Namespace, at.Name)
	if err != nil {
		return err
	}
	remote, err := LinkOf(peer.Namespace, peer.Name)
	if err != nil {
		return err
	}
	for _, prefix := range peer.Addresses {
		err := at.Namespace.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: local.Index, State: netlink.NUD_PERMANENT, IP: net.IP(prefix.Addr().AsSlice()), HardwareAddr: remote.HardwareAddr,
		})
		if err != nil {
			return fmt.Errorf("neighbour %s in %s: %w", prefix.Addr(), at.Namespace.Name(), err)
		}
	}
	return nil
}

// LinkOf finds an interface of a namespace.
func LinkOf(ns *testnet.Namespace, name string) (*netlink.LinkAttrs, error) {
	found, err := ns.Netlink().LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, ns.Name(), err)
	}
	return found.Attrs(), nil
}

// close detaches the programs. Namespaces are removed with the network.
func (l *Line) close() error {
	var all []error
	for _, f := range l.Closers {
		all = append(all, f())
	}
	l.Closers = nil
	return errors.Join(all...)
}
