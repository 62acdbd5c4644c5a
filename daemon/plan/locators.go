// SPDX-License-Identifier: Apache-2.0

package plan

// From the locators of a configuration to locator-sets: an interface counts with its addresses, and
// own RLOCs that are down are unreachable.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/config"
	"loci/control"
	"loci/lisp"
)

// locatorSet resolves interfaces to their addresses. Own RLOCs that are down are unreachable.
func (p *planner) locatorSet(r config.RLOCs, at where) lisp.LocatorSet {
	return p.lowered(p.configuredSet(r, at))
}

// lowered clears the R bits of own RLOCs that are down.
func (p *planner) lowered(set lisp.LocatorSet) lisp.LocatorSet {
	for i := range set {
		set[i].Reachable = set[i].Reachable && !p.host.Down[set[i].RLOC.Addr()]
	}
	return set
}

// configuredSet is a locator-set with the R bits of the configuration.
func (p *planner) configuredSet(r config.RLOCs, at where) lisp.LocatorSet {
	var list []lisp.Locator
	for _, l := range p.config.LocatorsOf(r) {
		for _, a := range p.locatorAddresses(l, at) {
			list = append(list, lisp.Locator{
				RLOC: lisp.RLOCFromAddr(a), Priority: l.Priority, Weight: l.Weight,
				MulticastPriority: l.MulticastPriority, MulticastWeight: l.MulticastWeight,
				Local: p.host.IsOwn(a), Reachable: l.Reachable,
			})
		}
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		p.problem(at, err.Error(), "an interface counts with all its addresses")
	}
	return set
}

func (p *planner) locatorAddresses(l config.Locator, at where) []netip.Addr {
	if l.Interface == "" {
		return []netip.Addr{l.Address}
	}
	addresses := p.host.AddressesOf(l.Interface, l.AddressFamily)
	switch {
	case len(addresses) > 0:
	case !p.host.Has(l.Interface):
		p.wait(at, l.Interface, fmt.Sprintf("interface %s does not exist on this host", l.Interface))
	default:
		p.wait(at, "", fmt.Sprintf("interface %s has no usable address (family %s)", l.Interface, l.AddressFamily))
	}
	return addresses
}

// usableFirst brings the RLOCs that are down to the end: the first of a family is what
// packets are sent from.
func (p *planner) usableFirst(rlocs []lisp.RLOC) []lisp.RLOC {
	ordered := slices.Clone(rlocs)
	isDown := func(r lisp.RLOC) int {
		if p.host.Down[r.Addr()] {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ordered, func(a, b lisp.RLOC) int { return isDown(a) - isDown(b) })
	return ordered
}

// localRLOCs are the addresses of this host in a locator-set, in set order.
func localRLOCs(set lisp.LocatorSet) []lisp.RLOC {
	var local []lisp.RLOC
	for _, l := range set {
		if l.Local {
			local = append(local, l.RLOC)
		}
	}
	return local
}

// addLocal adds the Database's own locators: the ETR must know packets to them
// for its own.
func addLocal(rlocs []lisp.RLOC, database []control.DatabaseMapping) []lisp.RLOC {
	for _, m := range database {
		for _, r := range localRLOCs(m.Locators) {
			if !slices.Contains(rlocs, r) {
				rlocs = append(rlocs, r)
			}
		}
	}
	return rlocs
}
