// SPDX-License-Identifier: Apache-2.0

package plan

// From the locators of a configuration to locator-sets: an interface counts with its addresses, and
// own RLOCs that are down are unreachable.

import (
	"cmp"
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
		set[i].Reachable = set[i].Reachable && !p.host.Down[lastHop(&set[i]).Addr()]
	}
	return set
}

// lastHop is the locator's ETR: the RLOC, or the end of a path.
func lastHop(l *lisp.Locator) lisp.RLOC {
	path := l.Path()
	return path.Hop(path.Len() - 1)
}

// configuredSet is a locator-set with the R bits of the configuration.
func (p *planner) configuredSet(r config.RLOCs, at where) lisp.LocatorSet {
	return p.setOf(p.configuredLocators(r, at), at)
}

// setOf orders locators as a mapping has them.
func (p *planner) setOf(list []lisp.Locator, at where) lisp.LocatorSet {
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		p.problem(at, err.Error(), "an interface counts with all its addresses")
	}
	return set
}

// ownRLOCs are the addresses of this host among locators, IPv4 before IPv6, each family in the order of the
// configuration: packets are sent from the first one. A locator-set is in ascending order (RFC 9301 s.5.5).
func (p *planner) ownRLOCs(r config.RLOCs, at where) []lisp.RLOC {
	list := p.configuredLocators(r, at)
	p.setOf(list, at)
	own := localRLOCs(list)
	slices.SortStableFunc(own, func(a, b lisp.RLOC) int { return a.Addr().BitLen() - b.Addr().BitLen() })
	return own
}

// configuredLocators are locators in the order of the configuration.
func (p *planner) configuredLocators(r config.RLOCs, at where) (list []lisp.Locator) {
	for _, l := range p.config.LocatorsOf(r) {
		made := l.Attributes()
		if !l.Path.IsZero() {
			list = append(list, p.pathLocator(made, &l.Path, at))
			continue
		}
		for _, a := range p.locatorAddresses(l, at) {
			l.Address = a
			made.RLOC, made.Local = l.RLOC(), l.Interface != "" || p.host.IsOwn(a)
			list = append(list, made)
		}
	}
	p.prefer(list)
	return list
}

// prefer orders the own RLOCs of a mobile node as its host orders its links, by the metrics of their default routes,
// where the configuration has no priorities but the default: packets go by the better link while there are two.
func (p *planner) prefer(list []lisp.Locator) {
	var own []*lisp.Locator
	for i := range list {
		if l := &list[i]; l.Local && l.Path().IsPlain() {
			own = append(own, l)
		}
	}
	isChosen := func(l *lisp.Locator) bool { return l.Priority != lisp.NewLocator(l.RLOC).Priority }
	if p.config.MobileNode == nil || slices.ContainsFunc(own, isChosen) {
		return
	}
	for _, l := range own {
		better := map[uint64]bool{}
		for _, o := range own {
			if p.metricOf(o.RLOC) < p.metricOf(l.RLOC) {
				better[p.metricOf(o.RLOC)] = true
			}
		}
		l.Priority += uint8(min(len(better), lisp.MaxLocators))
	}
}

// metricOf is that of the best default route by the link of an own RLOC, of whichever family, the highest number for
// none: both families of a link come and go together.
func (p *planner) metricOf(rloc lisp.RLOC) uint64 {
	link, _ := p.host.Link(p.host.InterfaceOf(rloc.Addr()))
	return min(link.Defaults.IPv4-1, link.Defaults.IPv6-1) // none is beyond all others
}

// pathLocator is a locator that is a path; its ETR is the last hop.
func (p *planner) pathLocator(l lisp.Locator, configured *config.ExplicitPath, at where) lisp.Locator {
	path, bits, err := configured.Path()
	if err != nil {
		p.problem(at, err.Error(), "want hops that other systems reach")
	}
	l.RLOC, l.Behind, l.Bits = path.RLOC, path.Behind, bits
	l.Local = p.host.IsOwn(lastHop(&l).Addr())
	return l
}

// checkOwnPaths compares the paths of an EID-Prefix of this site with this host: they end here, or at another xTR of the
// site, and do not come through here before. One end that is nowhere here is waited for, as an address is.
func (p *planner) checkOwnPaths(set lisp.LocatorSet, at where) {
	for i := range set {
		l := &set[i]
		path := l.Path()
		if path.IsPlain() && !l.Bits.Has(0, lisp.HopExplicit) {
			continue
		}
		for hop := range path.Len() - 1 {
			if a := path.Hop(hop).Addr(); p.host.IsOwn(a) {
				p.problem(at, fmt.Sprintf("path %s: hop %d, %s, is this router: the path comes back to it", path, hop+1, a), "want other routers on the way, and this one as the last hop")
			}
		}
		ends := fmt.Sprintf("path %s ends at %s, which is not an address of this host", path, lastHop(l))
		switch {
		case l.Local || len(localRLOCs(set)) == 0:
		case len(p.config.ETR.Siblings) == 0:
			p.problem(at, ends, "want an RLOC of this router as the last hop, or the other xTR of the site in etr.siblings")
		default:
			p.doubt(at, ends, "right only where that is another xTR of this site")
		}
	}
}

// doubtOwn warns of locators of others that end at this host: no packet can take them from here.
func (p *planner) doubtOwn(set lisp.LocatorSet, at where) {
	for i := range set {
		if l := &set[i]; p.host.IsOwn(lastHop(l).Addr()) {
			p.doubt(at, fmt.Sprintf("%s ends at this router", l.Path()), "want another router's address: packets do not leave by it, and are dropped as own-next-hop where it is the only one")
		}
	}
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
	slices.SortStableFunc(ordered, func(a, b lisp.RLOC) int {
		if by := isDown(a) - isDown(b); by != 0 || p.config.MobileNode == nil || a.Is4() != b.Is4() {
			return by
		}
		return cmp.Compare(p.metricOf(a), p.metricOf(b))
	})
	return ordered
}

// localRLOCs are the addresses of this host in a locator-set, in its order: each once, though several paths end there.
func localRLOCs(set lisp.LocatorSet) []lisp.RLOC {
	var local []lisp.RLOC
	for i := range set {
		if own := lisp.RLOCFromAddr(lastHop(&set[i]).Addr()); set[i].Local && !slices.Contains(local, own) {
			local = append(local, own)
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
