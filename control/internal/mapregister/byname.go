// SPDX-License-Identifier: Apache-2.0

package mapregister

// Map-Registers of simple-nat (draft-farinacci-lisp-lispers-net-nat s.5): directly to the Map-Server, with the NAT's
// address and the name of the host in place of an own RLOC, and the RTRs.

import (
	"slices"

	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// namedRTRWeight is that of the RTRs. A Map-Server knows them by their priority.
const namedRTRWeight = 1

// LocatorsByName are a mapping's locators as they are registered by simple-nat. Where they do not fit into one set, the
// own one and the RTRs are registered alone: other sites cannot reach what is behind the NAT.
func LocatorsByName(set lisp.LocatorSet, path *settings.NamedPath) lisp.LocatorSet {
	if path == nil {
		return set
	}
	list := slices.Clone(set)
	own := slices.IndexFunc(list, func(l lisp.Locator) bool { return l.Behind == "" && l.RLOC.Addr() == path.Local })
	if own < 0 {
		return set
	}
	seen := lisp.RLOCFromAddr(path.Seen)
	octets, err := wire.AppendAddress(nil, wire.NamedRLOC(seen, wire.DistinguishedName(path.Name)))
	if err != nil {
		return set
	}
	list[own].RLOC, list[own].Address, list[own].Local = seen, string(octets), true
	reached := lisp.LocatorSet{list[own]}
	for _, a := range path.RTRs {
		rtr := lisp.NewLocator(lisp.RLOCFromAddr(a))
		rtr.Priority, rtr.Weight = lisp.PriorityRTR, namedRTRWeight
		list, reached = append(list, rtr), append(reached, rtr)
	}
	if all, err := lisp.NewLocatorSet(list...); err == nil {
		return all
	}
	if all, err := lisp.NewLocatorSet(reached...); err == nil {
		return all
	}
	return set
}
