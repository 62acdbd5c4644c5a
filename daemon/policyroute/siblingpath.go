// SPDX-License-Identifier: Apache-2.0

package policyroute

// Forwarding by a sibling: where the site's packets go while this xTR has no path to the core.
// The data plane then watches the core alone, so that packets from EIDs go their native way;
// and that way is to the sibling, for those of hosts as for this router's own:
//
//	priority  from SOURCES lookup TABLE
//	TABLE: default via SIBLING, or unreachable where it has no address of the family
//	       throw EID-PREFIX    the site among itself
//
// Nothing of an EID ever leaves towards the core without encapsulation.

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"loci/daemon/hostnet"
)

// siblingPath is to whom packets go while it is active.
type siblingPath struct {
	active   bool
	siblings [][]netip.Addr // the configured ones' addresses, the one in charge first
}

// choose puts the sibling with that address first.
func (h *siblingPath) choose(sibling netip.Addr) {
	at := slices.IndexFunc(h.siblings, func(addresses []netip.Addr) bool { return slices.Contains(addresses, sibling) })
	if at > 0 {
		chosen := h.siblings[at]
		h.siblings = slices.Insert(slices.Delete(slices.Clone(h.siblings), at, at+1), 0, chosen)
	}
}

// route is the default route of the table for EIDs.
func (h siblingPath) route(family, table int, source netip.Addr, view hostnet.View) routeKey {
	key := routeKey{family: family, table: table, destination: hostnet.Everything(family), kind: unix.RTN_UNREACHABLE}
	if len(h.siblings) == 0 {
		return key.normal()
	}
	for _, a := range h.siblings[0] {
		link, _, ok := view.Neighbour(a)
		if ok && hostnet.FamilyOf(a) == family {
			key.kind, key.gateway, key.link, key.source = 0, a, link.Index, source
		}
	}
	return key.normal()
}
