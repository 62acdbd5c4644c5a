// SPDX-License-Identifier: Apache-2.0

// Package mobile is mobile-node of the configuration: a host whose EIDs are addresses of its own. It changes nothing.
package mobile

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

// Node makes the single addresses of etr.local-eids addresses of this host.
type Node struct {
	DefaultRoute bool          `key:"default-route"`           // all packets of the host go by LISP
	EIDPrefixes  []lisp.Prefix `key:"eid-prefixes" max:"1024"` // without default-route: packets to these do
}

// Prefixes are the destinations that go by LISP beside those of a default route.
func (n *Node) Prefixes() (list []netip.Prefix) {
	for _, p := range n.EIDPrefixes {
		list = append(list, p.Netip())
	}
	return list
}

// Addresses are the EIDs of the host itself: the single addresses among the EID-Prefixes of Instance-ID 0.
func Addresses(eidPrefixes []netip.Prefix) (list []netip.Addr) {
	for _, p := range eidPrefixes {
		if p.IsSingleIP() && !slices.Contains(list, p.Addr()) {
			list = append(list, p.Addr())
		}
	}
	return list
}

// Surroundings are what a mobile node is checked against.
type Surroundings struct {
	ITR          bool
	EIDPrefixes  []netip.Prefix // of Instance-ID 0
	SourceRoutes bool
	ProxyETRs    bool
	AlwaysByRTR  bool
}

// Report takes what is wrong with the value at a path of the configuration.
type Report func(path, message, hint string)

// Check reports what is wrong with a mobile node, and what is allowed but probably not meant.
func (n *Node) Check(s Surroundings, fail, warn Report) {
	const path = "mobile-node"
	switch {
	case !s.ITR:
		fail("itr", "mobile-node: the host's packets are not encapsulated without itr",
			"add itr: {map-resolvers: [ADDRESS]}")
	case len(Addresses(s.EIDPrefixes)) == 0:
		fail("etr.local-eids", "mobile-node: etr.local-eids has no single address in Instance-ID 0",
			"add the EID of this host: etr: {local-eids: [10.1.0.1/32]}, or /128 for IPv6")
	}
	if n.DefaultRoute {
		n.checkDefaultRoute(s, fail, warn)
	} else if len(n.EIDPrefixes) == 0 {
		warn(path, "mobile-node: without default-route and eid-prefixes, only packets of programs that bind"+
			" to an EID go by LISP", "add default-route: true, or eid-prefixes: [PREFIX] with the EIDs of all sites")
	}
	for i, p := range n.EIDPrefixes {
		if !p.EID().IsIP() || p.Bits() == 0 {
			fail(fmt.Sprintf("%s.eid-prefixes[%d]", path, i),
				fmt.Sprintf("eid-prefixes: %s is not a prefix of EIDs", p),
				"want an IPv4 or IPv6 prefix; for all destinations write default-route: true")
		}
	}
}

func (n *Node) checkDefaultRoute(s Surroundings, fail, warn Report) {
	const path = "mobile-node.default-route"
	if len(n.EIDPrefixes) > 0 {
		fail("mobile-node.eid-prefixes", "eid-prefixes: with default-route: true all packets go by LISP",
			"remove eid-prefixes, or set default-route: false")
	}
	if !s.SourceRoutes {
		fail(path, "default-route: it needs datapath.source-routes: what leaves from an RLOC, such as answers to other"+
			" routers, would go by LISP", "remove datapath.source-routes: false")
	}
	if !s.ProxyETRs && !s.AlwaysByRTR {
		warn(path, "default-route: hosts outside LISP cannot answer this host's EIDs, unless an RTR or PETR sends its packets",
			"add itr.proxy-etrs, or etr.nat-traversal: {rtr: always} where the Map-Server offers an RTR")
	}
}
