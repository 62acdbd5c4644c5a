// SPDX-License-Identifier: Apache-2.0

package daemon

// The detour of the site's packets by a sibling while this xTR has no path to the core.
// The data plane then watches the core alone, so that packets from EIDs go their native way;
// and that way is to the sibling, for those of hosts as for this router's own:
//
//	priority+0  to   EID-PREFIX lookup main   the site among itself
//	priority+1  from EID-PREFIX lookup TABLE
//	TABLE: default via SIBLING, or unreachable where it has no address of the family
//
// Nothing of an EID ever leaves towards the core without encapsulation.

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// detour is to whom packets go while it is active.
type detour struct {
	active   bool
	siblings [][]netip.Addr // the configured ones' addresses, the one in charge first
}

// choose puts the sibling with that address first.
func (h *detour) choose(sibling netip.Addr) {
	at := slices.IndexFunc(h.siblings, func(addresses []netip.Addr) bool { return slices.Contains(addresses, sibling) })
	if at > 0 {
		chosen := h.siblings[at]
		h.siblings = slices.Insert(slices.Delete(slices.Clone(h.siblings), at, at+1), 0, chosen)
	}
}

// route is the default route of the table for EIDs.
func (h detour) route(family, table int, source netip.Addr, view hostView) routeKey {
	key := routeKey{family: family, table: table, destination: everything(family), unreachable: true}
	if len(h.siblings) == 0 {
		return key.normal()
	}
	for _, a := range h.siblings[0] {
		link, _, ok := view.neighbour(a)
		if ok && familyOf(a) == family {
			key.unreachable, key.gateway, key.link, key.source = false, a, link.index, source
		}
	}
	return key.normal()
}

func (h detour) rules(family, priority, table int, eids netip.Prefix) []ruleKey {
	return []ruleKey{
		{family: family, priority: priority, table: unix.RT_TABLE_MAIN, destination: eids},
		{family: family, priority: priority + 1, table: table, source: eids},
	}
}
