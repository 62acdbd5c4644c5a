// SPDX-License-Identifier: Apache-2.0

package policyroute

// Source routes: packets from an RLOC leave by the interface that has it, as a provider
// that filters sources demands (BCP 38) and as the state of a locator means. Each core
// interface has a table with copies of the main table's routes by it. For each RLOC:
//
//	priority+0  from RLOC lookup TABLE  but for default routes   its own interface's networks
//	priority+1  from RLOC lookup main   but for default routes   the site, other networks
//	priority+2  from RLOC lookup TABLE                           everything else
//
// The order is that of bpf_fib_lookup as well, which for IPv6 does not leave out default
// routes: it answers with the interface's own at once.

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/config"
	"loci/daemon/hostnet"
)

// maxSourceRoutes bounds the copies for one interface and family. Beyond it, default
// routes and connected networks count alone.
const maxSourceRoutes = 1024

// sourceRoutes says which there should be; without core interfaces none.
type sourceRoutes struct {
	table    int // of the first core interface, then ascending
	priority int
	core     []config.InterfaceRef
	rlocs    []netip.Addr // own ones
	view     hostnet.View
}

// wanted lists the rules and routes that should be there.
func (s sourceRoutes) wanted() (rules []ruleKey, routes []routeKey, err error) {
	for i, ref := range s.core {
		link, ok := s.linkOf(ref)
		if !ok {
			continue
		}
		table := s.table + i
		for _, family := range ipFamilies {
			own := s.rlocsAt(link, family)
			if len(own) == 0 {
				continue
			}
			for _, rloc := range own {
				rules = append(rules, s.rulesOf(rloc, family, table)...)
			}
			copies, err := copiesOf(link.Index, family, table)
			if err != nil {
				return nil, nil, err
			}
			routes = append(routes, copies...)
		}
	}
	return rules, routes, nil
}

func (s sourceRoutes) linkOf(ref config.InterfaceRef) (hostnet.Link, bool) {
	name := ref.Name
	if name == "" {
		name = s.view.InterfaceOf(ref.Address)
	}
	return s.view.Link(name)
}

func (s sourceRoutes) rlocsAt(link hostnet.Link, family int) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.rlocs), func(a netip.Addr) bool {
		return hostnet.FamilyOf(a) != family || s.view.InterfaceOf(a) != link.Name
	})
}

func (s sourceRoutes) rulesOf(rloc netip.Addr, family, table int) []ruleKey {
	from := netip.PrefixFrom(rloc, rloc.BitLen())
	return []ruleKey{
		{family: family, priority: s.priority, table: table, specific: true, source: from},
		{family: family, priority: s.priority + 1, table: unix.RT_TABLE_MAIN, specific: true, source: from},
		{family: family, priority: s.priority + 2, table: table, source: from},
	}
}

// copiesOf are the main table's routes by an interface, for another table.
func copiesOf(link, family, table int) ([]routeKey, error) {
	found, err := hostnet.Dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("routes of the main table: %w", err)
	}
	var copies, essential []routeKey
	seen := map[routeKey]bool{} // destination and metric: one next hop is enough
	for _, route := range found {
		key, ok := copyOf(route, family, link)
		identity := routeKey{destination: key.destination, metric: key.metric}
		if !ok || seen[identity] {
			continue
		}
		seen[identity] = true
		key.table = table
		copies = append(copies, key)
		if key.destination.Bits() == 0 || !key.gateway.IsValid() {
			essential = append(essential, key)
		}
	}
	if len(copies) > maxSourceRoutes {
		copies = essential[:min(len(essential), maxSourceRoutes)]
	}
	return copies, nil
}

// copyOf is false for a route that does not lead out by the interface.
func copyOf(route netlink.Route, family, link int) (routeKey, bool) {
	if route.Type != unix.RTN_UNICAST || route.Encap != nil || route.MPLSDst != nil || route.Via != nil {
		return routeKey{}, false
	}
	destination := destinationOf(route, family)
	if destination.Addr().IsLinkLocalUnicast() || destination.Addr().IsMulticast() {
		return routeKey{}, false
	}
	for _, hop := range hostnet.HopsOf(route) {
		if hop.LinkIndex != link {
			continue
		}
		gateway, _ := netip.AddrFromSlice(hop.Gw)
		source, _ := netip.AddrFromSlice(route.Src)
		return routeKey{
			family: family, link: link, destination: destination, gateway: gateway.Unmap(), source: source.Unmap(),
			metric: route.Priority, scope: route.Scope, onlink: hop.Flags&unix.RTNH_F_ONLINK != 0,
		}.normal(), true
	}
	return routeKey{}, false
}
