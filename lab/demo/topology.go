// SPDX-License-Identifier: Apache-2.0

// The demo's network: two sites of one host and one xTR each, a core, and a mapping system. All links have MTU 1500.
//
// The core routes to locators, and to the plain addresses of the sites, which are there to be compared with. It never gets
// a route to an EID: whatever reaches an EID got there by LISP.

package demo

import (
	"errors"
	"fmt"
	"net/netip"

	"loci/internal/testnet"
)

const (
	linkMTUOctets = 1500

	hostLink = "eth0" // of a host
	siteLink = "site" // of an xTR, towards its host
	coreLink = "core" // of an xTR and of ms, towards the core
)

// pairNames in the order of all output: the family of the EIDs in the family of the RLOCs.
var pairNames = []string{"ipv4-in-ipv4", "ipv4-in-ipv6", "ipv6-in-ipv4", "ipv6-in-ipv6"}

// edge is what hangs on the core by one link.
type edge struct {
	name         string
	rloc4, rloc6 netip.Addr // of the edge, on its core link
}

// site is one LISP site. eidPrefixes are in the order of pairNames.
type site struct {
	edge
	host           string
	eidPrefixes    []netip.Prefix
	plain4, plain6 netip.Prefix // natively routed
}

var (
	siteA = site{
		edge: edge{name: "xtr-a", rloc4: netip.MustParseAddr("172.16.1.2"), rloc6: netip.MustParseAddr("2001:db8:1::2")},
		host: "host-a", plain4: netip.MustParsePrefix("192.168.1.0/24"), plain6: netip.MustParsePrefix("fd00:1::/64"),
		eidPrefixes: []netip.Prefix{
			netip.MustParsePrefix("10.1.4.0/24"), netip.MustParsePrefix("10.1.6.0/24"),
			netip.MustParsePrefix("2001:db8:a:4::/64"), netip.MustParsePrefix("2001:db8:a:6::/64"),
		},
	}
	siteB = site{
		edge: edge{name: "xtr-b", rloc4: netip.MustParseAddr("172.16.2.2"), rloc6: netip.MustParseAddr("2001:db8:2::2")},
		host: "host-b", plain4: netip.MustParsePrefix("192.168.2.0/24"), plain6: netip.MustParsePrefix("fd00:2::/64"),
		eidPrefixes: []netip.Prefix{
			netip.MustParsePrefix("10.2.4.0/24"), netip.MustParsePrefix("10.2.6.0/24"),
			netip.MustParsePrefix("2001:db8:b:4::/64"), netip.MustParsePrefix("2001:db8:b:6::/64"),
		},
	}
	mappingSystem = edge{name: "ms", rloc4: netip.MustParseAddr("172.16.3.2"), rloc6: netip.MustParseAddr("2001:db8:3::2")}
	sites         = []site{siteA, siteB}
)

// overIPv6 reports whether a pair's RLOCs are IPv6.
func overIPv6(pair int) bool { return pair%2 == 1 }

// rloc is the locator that the site registers for the EID-Prefix of a pair.
func (s site) rloc(pair int) netip.Addr {
	if overIPv6(pair) {
		return s.rloc6
	}
	return s.rloc4
}

// eid is the host's address of a pair.
func (s site) eid(pair int) netip.Addr { return nth(s.eidPrefixes[pair], 2) }

// plain is the host's natively routed address of the family of a pair's EIDs.
func (s site) plain(pair int) netip.Addr {
	if s.eidPrefixes[pair].Addr().Is4() {
		return nth(s.plain4, 2)
	}
	return nth(s.plain6, 2)
}

// siteAddresses are the n-th addresses of all of the site's prefixes: 1 is the xTR, 2 is the host.
func (s site) siteAddresses(n byte) []netip.Prefix {
	var all []netip.Prefix
	for _, prefix := range append([]netip.Prefix{s.plain4, s.plain6}, s.eidPrefixes...) {
		all = append(all, netip.PrefixFrom(nth(prefix, n), prefix.Bits()))
	}
	return all
}

// nth is the n-th address of a prefix whose last octet is free.
func nth(prefix netip.Prefix, n byte) netip.Addr {
	octets := prefix.Masked().Addr().AsSlice()
	octets[len(octets)-1] = n
	address, _ := netip.AddrFromSlice(octets)
	return address
}

// corePrefixes are an edge's core link as both ends see it.
func (e edge) corePrefixes(n byte) []netip.Prefix {
	v4, v6 := netip.PrefixFrom(e.rloc4, 24), netip.PrefixFrom(e.rloc6, 64)
	return []netip.Prefix{netip.PrefixFrom(nth(v4, n), 24), netip.PrefixFrom(nth(v6, n), 64)}
}

// topology is the built network, by the names in the picture.
type topology struct {
	network *testnet.Network
	byName  map[string]*testnet.Namespace
}

func (t *topology) at(name string) *testnet.Namespace { return t.byName[name] }

// build makes the network in full. What it made before an error is in t.network, for the caller to remove.
func (t *topology) build() error {
	t.byName = map[string]*testnet.Namespace{}
	for _, name := range []string{siteA.host, siteA.name, "core", mappingSystem.name, siteB.name, siteB.host} {
		ns, err := t.network.Namespace(name)
		if err != nil {
			return err
		}
		t.byName[name] = ns
		if err := ns.SetReversePathFilter(0); err != nil {
			return err
		}
	}
	if err := t.at("core").Forward(); err != nil {
		return err
	}
	for _, e := range []edge{siteA.edge, mappingSystem, siteB.edge} {
		if err := t.connectToCore(e); err != nil {
			return err
		}
	}
	for _, s := range sites {
		if err := t.buildSite(s); err != nil {
			return err
		}
	}
	return t.proveCoreIgnoresEIDs()
}

func (t *topology) connectToCore(e edge) error {
	ns := t.at(e.name)
	addresses := e.corePrefixes(2)
	if e.name == siteB.name {
		addresses = append(addresses, movedRLOC) // unused unless the site moves
	}
	err := testnet.Connect(
		testnet.End{Namespace: ns, Name: coreLink, Addresses: addresses, MTU: linkMTUOctets},
		testnet.End{Namespace: t.at("core"), Name: e.name, Addresses: e.corePrefixes(1), MTU: linkMTUOctets},
	)
	if err != nil {
		return err
	}
	// Messages that a daemon sends together enter the core one by one, so that each is seen, and captured.
	if err := ns.SetOffload(coreLink, testnet.UDPSegmentation, false); err != nil {
		return err
	}
	gateways := e.corePrefixes(1)
	return addDefaultRoutes(ns, gateways[0].Addr(), gateways[1].Addr())
}

// buildSite joins host and xTR, and tells the core the way to the site's plain prefixes.
func (t *topology) buildSite(s site) error {
	xtr, host, core := t.at(s.name), t.at(s.host), t.at("core")
	if err := xtr.Forward(); err != nil {
		return err
	}
	err := testnet.Connect(
		testnet.End{Namespace: host, Name: hostLink, Addresses: s.siteAddresses(2), MTU: linkMTUOctets},
		testnet.End{Namespace: xtr, Name: siteLink, Addresses: s.siteAddresses(1), MTU: linkMTUOctets},
	)
	if err != nil {
		return err
	}
	return errors.Join(
		addDefaultRoutes(host, nth(s.plain4, 1), nth(s.plain6, 1)),
		core.AddRoute(testnet.Route{Destination: s.plain4, Via: s.rloc4}),
		core.AddRoute(testnet.Route{Destination: s.plain6, Via: s.rloc6}),
	)
}

func addDefaultRoutes(ns *testnet.Namespace, via4, via6 netip.Addr) error {
	return errors.Join(
		ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: via4}),
		ns.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: via6}),
	)
}

// proveCoreIgnoresEIDs asks the core's kernel for the way to every EID: there must be none.
func (t *topology) proveCoreIgnoresEIDs() error {
	for _, s := range sites {
		for pair := range pairNames {
			known, err := t.at("core").HasRoute(s.eid(pair))
			if err != nil {
				return err
			}
			if known {
				return fmt.Errorf("the core has a route to the EID %s: what follows would prove nothing", s.eid(pair))
			}
		}
	}
	return nil
}
