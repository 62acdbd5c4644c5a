// SPDX-License-Identifier: Apache-2.0

// The network of one arm: Src – Enc – Dec – Dst in a line (the testbed of the OpenLISP paper), each a namespace, every link
// with MTU 1500. Neighbours are permanent, so that no round pays for address resolution.
//
// Each arm has a line of its own, built once: switching between arms then changes nothing but where packets are sent.

package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

const (
	linkMTUOctets = 1500

	hostLink = "eth0" // of src and dst
	siteLink = "site" // of enc and dec, towards their host
	coreLink = "core" // of enc and dec, towards each other
)

// pair is a pair of address families: that of the EIDs in that of the RLOCs, with EIDs of its own.
type pair struct {
	name                string
	sources             netip.Prefix // of the site at enc
	destinations        netip.Prefix // of the site at dec
	encCore, decCore    netip.Prefix // of the core link, in the family of the RLOCs
	nativeEnc, nativeTo netip.Prefix // of the core link, in the family of the EIDs
}

var (
	core4Enc = netip.MustParsePrefix("172.16.0.1/24")
	core4Dec = netip.MustParsePrefix("172.16.0.2/24")
	core6Enc = netip.MustParsePrefix("2001:db8:c::1/64")
	core6Dec = netip.MustParsePrefix("2001:db8:c::2/64")
)

// pairs, named by the EIDs in the RLOCs.
var pairs = []pair{
	{"ipv4-in-ipv4", netip.MustParsePrefix("10.1.4.0/24"), netip.MustParsePrefix("10.2.4.0/24"), core4Enc, core4Dec, core4Enc, core4Dec},
	{"ipv4-in-ipv6", netip.MustParsePrefix("10.1.6.0/24"), netip.MustParsePrefix("10.2.6.0/24"), core6Enc, core6Dec, core4Enc, core4Dec},
	{"ipv6-in-ipv4", netip.MustParsePrefix("2001:db8:a:4::/64"), netip.MustParsePrefix("2001:db8:b:4::/64"), core4Enc, core4Dec, core6Enc, core6Dec},
	{"ipv6-in-ipv6", netip.MustParsePrefix("2001:db8:a:6::/64"), netip.MustParsePrefix("2001:db8:b:6::/64"), core6Enc, core6Dec, core6Enc, core6Dec},
}

func (p pair) source() netip.Addr      { return nth(p.sources, 2) }
func (p pair) destination() netip.Addr { return nth(p.destinations, 2) }
func (p pair) inner4() bool            { return p.sources.Addr().Is4() }
func (p pair) outer4() bool            { return p.encCore.Addr().Is4() }

// nth is the n-th address of a prefix whose last octet is free.
func nth(prefix netip.Prefix, n byte) netip.Addr {
	octets := prefix.Masked().Addr().AsSlice()
	octets[len(octets)-1] = n
	address, _ := netip.AddrFromSlice(octets)
	return address
}

// line is the built network of one arm.
type line struct {
	arm                arm
	src, enc, dec, dst *testnet.Namespace
	traffic            *traffic
	flood              *traffic       // of that bench alone, from a link of its own
	closers            []func() error // undone with the line
	watching           []func() error // undone after a slot
	mapsock            *mapsockPlane  // of that bench alone
	entries            []entrySet     // in the map-cache of enc, where it is full
}

// siteAddresses are the n-th addresses of the prefixes of one site.
func siteAddresses(n byte, prefixOf func(pair) netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, p := range pairs {
		all = append(all, netip.PrefixFrom(nth(prefixOf(p), n), prefixOf(p).Bits()))
	}
	return all
}

func sourcesOf(p pair) netip.Prefix      { return p.sources }
func destinationsOf(p pair) netip.Prefix { return p.destinations }

// newLine makes namespaces and links. What it made before an error is removed with the network.
func newLine(network *testnet.Network, a arm) (*line, error) {
	l := &line{arm: a}
	for role, place := range map[string]**testnet.Namespace{"src": &l.src, "enc": &l.enc, "dec": &l.dec, "dst": &l.dst} {
		ns, err := network.Namespace(a.key + "-" + role)
		if err != nil {
			return nil, err
		}
		*place = ns
		if err := ns.SetReversePathFilter(0); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(l.enc.Forward(), l.dec.Forward()); err != nil {
		return nil, err
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
		l.src.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: nth(pairs[0].sources, 1)}),
		l.src.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: nth(pairs[2].sources, 1)}),
		l.dst.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: nth(pairs[0].destinations, 1)}),
		l.dst.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: nth(pairs[2].destinations, 1)}),
	)
}

func (l *line) links() [][2]testnet.End {
	end := func(ns *testnet.Namespace, name string, addresses ...netip.Prefix) testnet.End {
		return testnet.End{Namespace: ns, Name: name, Addresses: addresses, MTU: linkMTUOctets}
	}
	return [][2]testnet.End{
		{end(l.src, hostLink, siteAddresses(2, sourcesOf)...), end(l.enc, siteLink, siteAddresses(1, sourcesOf)...)},
		{end(l.enc, coreLink, core4Enc, core6Enc), end(l.dec, coreLink, core4Dec, core6Dec)},
		{end(l.dec, siteLink, siteAddresses(1, destinationsOf)...), end(l.dst, hostLink, siteAddresses(2, destinationsOf)...)},
	}
}

// acquaint makes every address of the peer a permanent neighbour.
func acquaint(at, peer testnet.End) error {
	local, err := linkOf(at.Namespace, at.Name)
	if err != nil {
		return err
	}
	remote, err := linkOf(peer.Namespace, peer.Name)
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

func linkOf(ns *testnet.Namespace, name string) (*netlink.LinkAttrs, error) {
	found, err := ns.Netlink().LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, ns.Name(), err)
	}
	return found.Attrs(), nil
}

// close detaches the programs. Namespaces are removed with the network.
func (l *line) close() error {
	var all []error
	all = append(all, l.unwatch())
	for _, f := range l.closers {
		all = append(all, f())
	}
	l.closers = nil
	return errors.Join(all...)
}
