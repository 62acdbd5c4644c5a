// SPDX-License-Identifier: Apache-2.0

package daemon

// What plans are made from: the host as it is, and what is remembered of it. An address
// that an interface lost stays a locator, though an unreachable one, until there is
// another: an EID-Prefix without any locator would let the site's packets out without
// encapsulation.

import (
	"maps"
	"net/netip"
	"slices"

	"loci/config"
)

// localHost is the host as plans see it. The zero value knows nothing.
type localHost struct {
	hostView
	down   map[netip.Addr]bool     // own RLOCs that are not used
	lost   map[string][]netip.Addr // by interface: the last ones of the families that it has none of now
	owned  []netip.Addr            // own RLOCs of the plan in force
	detour bool                    // the site's packets go to a sibling
}

// isOwn reports whether an address is this host's, or was when the plan in force was
// made: its interface may come back.
func (h localHost) isOwn(a netip.Addr) bool { return h.holds(a) || slices.Contains(h.owned, a) }

// addressesOf are the usable addresses of an interface, or those it lost where it has
// none that counts.
func (h localHost) addressesOf(name string, family config.AddressFamily) []netip.Addr {
	inFamily := func(list []netip.Addr) []netip.Addr {
		return slices.DeleteFunc(slices.Clone(list), func(a netip.Addr) bool {
			return family == config.FamilyIPv4 && !a.Is4() || family == config.FamilyIPv6 && a.Is4()
		})
	}
	link, _ := h.link(name)
	if present := inFamily(link.addresses); len(present) > 0 {
		return present
	}
	return inFamily(h.lost[name])
}

// hostMemory is what is kept from one look at the host to the next. It is not safe for
// concurrent use.
type hostMemory struct {
	seen   map[seenKey][]netip.Addr // of the interfaces that the configuration names
	owned  []netip.Addr             // own RLOCs of the plan in force
	states rlocStates
}

// seenKey is a family at an interface.
type seenKey struct {
	link string
	is4  bool
}

func newHostMemory() *hostMemory {
	return &hostMemory{seen: map[seenKey][]netip.Addr{}, states: newRLOCStates()}
}

// recall adds to a view of the host what is remembered of the interfaces named.
func (m *hostMemory) recall(view hostView, named []string) localHost {
	present := map[seenKey][]netip.Addr{}
	for _, l := range view.links {
		if !slices.Contains(named, l.name) {
			continue
		}
		for _, a := range l.addresses {
			key := seenKey{l.name, a.Is4()}
			present[key] = append(present[key], a)
		}
	}
	maps.Copy(m.seen, present)
	maps.DeleteFunc(m.seen, func(key seenKey, _ []netip.Addr) bool { return !slices.Contains(named, key.link) })
	host := localHost{hostView: view, lost: map[string][]netip.Addr{}, owned: m.owned}
	for key, addresses := range m.seen {
		if len(present[key]) == 0 {
			host.lost[key.link] = append(host.lost[key.link], addresses...)
		}
	}
	host.down = m.states.down()
	return host
}
