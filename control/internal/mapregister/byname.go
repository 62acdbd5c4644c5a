// SPDX-License-Identifier: Apache-2.0

package mapregister

// Map-Registers of simple-nat (draft-farinacci-lisp-lispers-net-nat s.5): directly to the Map-Server, with the NAT's
// address and the name of the host in place of an own RLOC, and the RTRs.

import (
	"net/netip"
	"slices"

	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// namedRTRWeight is that of the RTRs. A Map-Server knows them by their priority.
const namedRTRWeight = 1

// LocatorsByName are a mapping's locators as they are registered by simple-nat. Where they do not fit into one set, the
// own ones behind NATs and the RTRs, and no others, are registered: other sites cannot reach what is behind a NAT.
func LocatorsByName(set lisp.LocatorSet, paths []settings.NamedPath) lisp.LocatorSet {
	list := slices.Clone(set)
	var reached []lisp.Locator
	var rtrs []netip.Addr
	for i := range paths {
		at := slices.IndexFunc(list,
			func(l lisp.Locator) bool { return l.Behind == "" && l.RLOC.Addr() == paths[i].Local })
		if at < 0 {
			continue
		}
		isThere := func(l lisp.Locator) bool { return l.RLOC.Addr() == paths[i].Seen }
		if slices.ContainsFunc(reached, isThere) { // two RLOCs behind one address: a set has each but once
			list = slices.Delete(list, at, at+1)
		} else if name(&list[at], &paths[i]) {
			reached = append(reached, list[at])
		}
		for _, a := range paths[i].RTRs {
			if !slices.Contains(rtrs, a) {
				rtrs = append(rtrs, a)
			}
		}
	}
	for _, a := range rtrs {
		rtr := lisp.NewLocator(lisp.RLOCFromAddr(a))
		rtr.Priority, rtr.Weight = lisp.PriorityRTR, namedRTRWeight
		list, reached = append(list, rtr), append(reached, rtr)
	}
	for _, l := range [][]lisp.Locator{list, reached} {
		if all, err := lisp.NewLocatorSet(l...); err == nil && len(rtrs) > 0 {
			return all
		}
	}
	return set
}

// name puts the NAT's address and the name in place of an own RLOC. It reports whether they can be encoded.
func name(l *lisp.Locator, path *settings.NamedPath) bool {
	seen := lisp.RLOCFromAddr(path.Seen)
	octets, err := wire.AppendAddress(nil, wire.NamedRLOC(seen, wire.DistinguishedName(path.Name)))
	if err != nil {
		return false
	}
	if l.RLOC, l.Address, l.Local = seen, string(octets), true; path.Unused {
		l.Priority = lisp.PriorityUnused
	}
	return true
}
