// SPDX-License-Identifier: Apache-2.0

package policyroute

// Rules for an engine that sees no interface (dataplane.HostRouted): packets that come in from the site go to the LISP interface,
// and so do those for the EIDs of a PITR, from wherever. What the engine gives back comes in by the LISP interface, which no rule
// names, and goes its native way.

import (
	"net/netip"

	"loci/daemon/hostnet"
	"loci/dataplane"
)

// arrivals are the packets that come in and have to reach the LISP interface.
type arrivals struct {
	wanted     bool
	site, core []string       // interfaces
	proxied    []netip.Prefix // EIDs of PITRs
}

// arrivalsOf are those of an engine with such settings, or of one that sees no interface in any case.
func arrivalsOf(engine dataplane.Plane, s *dataplane.Settings, always bool) (a arrivals) {
	if routed, ok := engine.(dataplane.HostRouted); !always && (!ok || !routed.HostRouted()) {
		return a
	}
	a.wanted = true
	for _, i := range s.Interfaces {
		if i.Side == dataplane.SideSite {
			a.site = append(a.site, i.Name)
		} else {
			a.core = append(a.core, i.Name)
		}
	}
	for _, policy := range s.Roles {
		if policy.Role == dataplane.RolePITR {
			a.proxied = append(a.proxied, policy.EIDs...)
		}
	}
	return a
}

// rules are those of a family, made of a pattern. Where there are EIDs of the family, all packets of the site go the same way.
func (a arrivals) rules(family int, hasEIDs bool, pattern ruleKey) (rules []ruleKey) {
	add := func(link string, to netip.Prefix) {
		rule := pattern
		rule.incoming = link
		if to.IsValid() && to.Bits() > 0 {
			rule.destination = to
		}
		rules = append(rules, rule)
	}
	proxiedFrom := a.core
	if hasEIDs {
		for _, link := range a.site {
			add(link, netip.Prefix{})
		}
	} else {
		proxiedFrom = append(append([]string{}, a.site...), a.core...)
	}
	for _, to := range a.proxied {
		if hostnet.FamilyOf(to.Addr()) != family {
			continue
		}
		for _, link := range proxiedFrom {
			add(link, to)
		}
	}
	return rules
}
