// SPDX-License-Identifier: Apache-2.0

// Package paths draws the explicit locator paths of simulated sites (RFC 8060 s.4.6), and makes locators and policies of relays
// (RFC 6832). It knows of a relay its addresses alone.
package paths

import (
	"net/netip"
	"slices"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/virtual"
)

// mostHops bounds the hops before the last one of a path.
const mostHops = 4

// Relay is what stands in a path.
type Relay interface {
	comparable
	Addresses() []netip.Addr
}

// Path is an explicit locator path to one of a site's links.
type Path[R Relay] struct {
	Link int
	Hops []Hop[R] // before the link
	last lisp.HopBits
}

// Hop is a relay in a path, by one of its addresses.
type Hop[R Relay] struct {
	Relay R
	v4    bool
	bits  lisp.HopBits
}

// Draw lays paths to some of a site's links. All paths have their hops in one order: no two of them make a loop.
func Draw[R Relay](c virtual.Random, relays []R, links int) (paths []Path[R]) {
	for i := range links {
		for range c.IntN(3) {
			if p := draw(c, relays, i); len(p.Hops) > 0 && !slices.ContainsFunc(paths, p.isSame) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

func draw[R Relay](c virtual.Random, relays []R, link int) Path[R] {
	p := Path[R]{Link: link, last: bitsOf(c)}
	for _, r := range relays {
		if len(p.Hops) < mostHops && c.Chance(0.5) {
			p.Hops = append(p.Hops, Hop[R]{r, c.Chance(0.5), bitsOf(c)})
		}
	}
	return p
}

func (p *Path[R]) isSame(o Path[R]) bool {
	return o.Link == p.Link && slices.EqualFunc(o.Hops, p.Hops, func(a, b Hop[R]) bool { return a.address() == b.address() })
}

func bitsOf(c virtual.Random) lisp.HopBits {
	bits := lisp.HopExplicit
	if c.Chance(0.3) {
		bits |= lisp.HopProbe
	}
	if c.Chance(0.2) {
		bits |= lisp.HopStrict
	}
	return bits
}

// address is the relay's in the family of the hop, or in the one that it has.
func (h *Hop[R]) address() netip.Addr { return AddressOf(h.Relay, h.v4) }

// AddressOf is the address of a relay in a family, or in the one that it has.
func AddressOf[R Relay](r R, v4 bool) netip.Addr {
	all := r.Addresses()
	return all[max(0, slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is4() == v4 }))]
}

// To is the locator of the link with the path to it.
func (p *Path[R]) To(link lisp.Locator) lisp.Locator {
	var hops []lisp.RLOC
	for i := range p.Hops {
		hops = append(hops, lisp.RLOCFromAddr(p.Hops[i].address()))
		link.Bits[i] = p.Hops[i].bits
	}
	link.Bits[len(hops)] = p.last
	path, err := lisp.NewPath(append(hops, link.RLOC)...)
	if err != nil {
		panic(err)
	}
	link.RLOC, link.Behind = path.RLOC, path.Behind
	return link
}

// IsStrict reports whether one of the hops must not be skipped.
func (p *Path[R]) IsStrict() bool {
	return p.last&lisp.HopStrict != 0 || slices.ContainsFunc(p.Hops, func(h Hop[R]) bool { return h.bits&lisp.HopStrict != 0 })
}

// Plainly are the RLOCs of relays as locators, the first relay before the others.
func Plainly[R Relay](relays []R) lisp.LocatorSet {
	var list []lisp.Locator
	for i, r := range relays {
		for _, a := range r.Addresses() {
			l := lisp.NewLocator(lisp.RLOCFromAddr(a))
			l.Priority = uint8(1 + i)
			list = append(list, l)
		}
	}
	slices.SortStableFunc(list, func(a, b lisp.Locator) int { return a.Path().Compare(b.Path()) })
	set, err := lisp.NewLocatorSet(slices.CompactFunc(list, func(a, b lisp.Locator) bool { return a.RLOC == b.RLOC })...)
	if err != nil {
		panic(err)
	}
	return set
}

// Everywhere are the static mappings of a site that sends everything to relays, none where there are none.
func Everywhere[R Relay](instance lisp.InstanceID, relays []R) (list []lisp.Mapping) {
	for _, all := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
		if p, err := lisp.PrefixFromNetip(instance, all); err == nil && len(relays) > 0 {
			list = append(list, lisp.Mapping{Prefix: p, Locators: Plainly(relays)})
		}
	}
	return list
}

// Policies give a relay its roles for EID-Prefixes; sources limit it as a PITR.
func Policies(roles []control.Role, eids []lisp.Prefix, sources []netip.Prefix) (list []control.RolePolicy) {
	for _, p := range eids {
		for _, role := range roles {
			at := slices.IndexFunc(list, func(o control.RolePolicy) bool { return o.Role == role && o.Instance == p.Instance() })
			if at < 0 {
				at, list = len(list), append(list, policyOf(role, p.Instance(), sources))
			}
			list[at].EIDs = append(list[at].EIDs, p.Netip())
		}
	}
	return list
}

// policyOf is a policy without EIDs.
func policyOf(role control.Role, instance lisp.InstanceID, sources []netip.Prefix) control.RolePolicy {
	if role != control.RolePITR {
		sources = nil
	}
	return control.RolePolicy{Role: role, Instance: instance, Sources: sources}
}

// Names reports whether a policy of a role names an EID.
func Names(policies []control.RolePolicy, role control.Role, instance lisp.InstanceID, eid netip.Addr) bool {
	return slices.ContainsFunc(policies, func(p control.RolePolicy) bool {
		return p.Role == role && p.Instance == instance && Within(p.EIDs, eid)
	})
}

// Within reports whether one of the prefixes has an address.
func Within(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
