// SPDX-License-Identifier: Apache-2.0

package policyroute

// Policy routing: which rules and routes should be there. For the router's own EIDs,
// packets that this host generates with an EID as source go out by the LISP interface,
// where the data plane encapsulates them. For each family with EIDs:
//
//	priority  iif lo from SOURCES lookup TABLE  own EIDs through LISP
//	fallback  iif lo              lookup TABLE  what main has no route for
//	fallback         from SOURCES lookup TABLE  where main has no default route, the
//	                                            reverse path filter finds the way back
//	priority  iif SITE            lookup TABLE  to an engine that sees no interface (arrivals.go)
//	priority+1 to priority+3      of a mobile node (mobile.go)
//	TABLE: default dev LISP-INTERFACE [src an EID of this host]
//	       blackhole default                    while there is no LISP interface, for such an engine
//	       throw EID-PREFIX                     local EIDs natively, by the next rule
//
// The kernel goes through rules one by one, but finds a route in a tree. So each
// EID-Prefix is a route, and rules name few prefixes (eidsources.go).
//
// Source routes (sourceroutes.go) lead packets from an RLOC out by its interface. What
// is found in the kernel is brought into line with it by sync.go.

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/config"
	"loci/daemon/hostnet"
)

// Policy is what should be there.
type Policy struct {
	config           *config.Config // what it was made from
	protocol         int            // marks rules and routes as Loci's (`ip route show proto 143`)
	table            int
	priority         int // of the rules for what this host sends from EIDs
	fallbackPriority int
	link             string         // the LISP interface
	notes            string         // directory for what has to be put back
	prefixes         []netip.Prefix // the Database's
	sources          sourceRoutes
	siblings         siblingPath
	arrivals         arrivals
	mobile           mobileNode
	additive         bool                                                // what an earlier run left stays: which of it is wanted is not known yet
	listRules        func(family int) ([]netlink.Rule, error)            // nil, but in tests: hostnet.Rules
	listAddresses    func(link int, m mark) (map[netip.Addr]bool, error) // nil, but in tests: addressesAt
}

// PolicyOf is policy routing without what follows the Database and the host.
func PolicyOf(c *config.Config) Policy {
	d := c.Datapath
	r := Policy{
		protocol: int(d.RouteProtocol), table: int(d.RouteTable), priority: int(d.RulePriority),
		fallbackPriority: int(d.FallbackRulePriority), link: d.Interface, notes: notesDirectory(d),
	}
	if d.SourceRoutes {
		r.sources = sourceRoutes{table: int(d.SourceRouteTable), priority: int(d.SourceRulePriority)}
	}
	return r.reconfigured(c)
}

// reconfigured is the policy by another configuration, but for what a reload may not change.
func (r Policy) reconfigured(c *config.Config) Policy {
	r.config, r.mobile, r.siblings.siblings, r.sources.core = c, mobileOf(c), nil, nil
	if c.ETR != nil {
		for _, s := range c.ETR.Siblings {
			r.siblings.siblings = append(r.siblings.siblings, s.Addresses)
		}
	}
	if c.Datapath.SourceRoutes {
		r.sources.core = coreRefs(c.Interfaces.Core)
	}
	return r
}

// wanted lists the rules and routes that should be there.
func (r Policy) wanted() (rules []ruleKey, routes []routeKey, err error) {
	link, err := netlink.LinkByName(r.link)
	if err != nil {
		return nil, nil, fmt.Errorf("LISP interface %s: %w", r.link, err)
	}
	for _, family := range ipFamilies {
		prefixes := r.familyPrefixes(family)
		arriving := r.arrivals.rules(family, len(prefixes) > 0, ruleKey{family: family, priority: r.priority, table: r.table})
		if len(prefixes)+len(arriving) == 0 {
			continue
		}
		addresses, err := hostAddresses(family)
		if err != nil {
			return nil, nil, err
		}
		if len(prefixes) > 0 {
			rules = append(rules, r.mobile.rules(family, ruleKey{family: family, priority: r.priority, table: r.table})...)
			rules = append(rules, r.rules(family, coverOf(prefixes, maxRuleSources, outside(addresses, prefixes)))...)
		}
		rules = append(rules, arriving...)
		routes = append(routes, r.eidRoutes(family, link.Attrs().Index, hostEID(addresses, prefixes))...)
	}
	sourceRules, sourceRoutes, err := r.sources.wanted()
	return append(rules, sourceRules...), append(routes, sourceRoutes...), err
}

// backstopMetric is behind that of every other route.
const backstopMetric = 1 << 30

// eidRoutes are the table's: a default route, and out of it for own EIDs. Where all addresses are own EIDs,
// there is no default route.
func (r Policy) eidRoutes(family, link int, source netip.Addr) []routeKey {
	prefixes := r.familyPrefixes(family)
	routes := make([]routeKey, 0, len(prefixes)+1)
	for _, p := range slices.Concat(prefixes, r.mobile.throws(family)) {
		routes = append(routes, routeKey{family: family, table: r.table, destination: p, kind: unix.RTN_THROW}.normal())
	}
	switch {
	case slices.Contains(prefixes, hostnet.Everything(family)):
	case r.siblings.active:
		routes = append(routes, r.siblings.route(family, r.table, source, r.sources.view))
	default:
		routes = append(routes, routeKey{family: family, table: r.table, link: link, destination: hostnet.Everything(family), source: source, scope: netlink.SCOPE_LINK}.normal())
		if r.arrivals.wanted { // the route by the LISP interface goes with it when somebody deletes it
			routes = append(routes, routeKey{family: family, table: r.table, destination: hostnet.Everything(family), metric: backstopMetric, kind: unix.RTN_BLACKHOLE}.normal())
		}
	}
	return routes
}

func (r Policy) familyPrefixes(family int) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(r.prefixes), func(p netip.Prefix) bool { return hostnet.FamilyOf(p.Addr()) != family })
}

// rules are those of a family, whose packets from EIDs have such sources.
func (r Policy) rules(family int, sources []netip.Prefix) []ruleKey {
	rules := []ruleKey{{family: family, priority: r.fallbackPriority, table: r.table, incoming: hostnet.LoopbackName}}
	for _, p := range sources {
		if p.Bits() == 0 {
			p = netip.Prefix{} // as the kernel will show it
		}
		rules = append(rules,
			ruleKey{family: family, priority: r.priority, table: r.table, incoming: hostnet.LoopbackName, source: p})
		if !r.arrivals.wanted { // an engine that gives packets back would get them again
			rules = append(rules, ruleKey{family: family, priority: r.fallbackPriority, table: r.table, source: p})
		}
		if r.siblings.active {
			rules = append(rules, ruleKey{family: family, priority: r.priority, table: r.table, source: p})
		}
	}
	return rules
}

// coreRefs are the core interfaces by name or address alone.
func coreRefs(core []config.CoreInterface) []config.InterfaceRef {
	refs := make([]config.InterfaceRef, len(core))
	for i, c := range core {
		refs[i] = c.Interface
	}
	return refs
}
