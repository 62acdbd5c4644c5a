// SPDX-License-Identifier: Apache-2.0

package mapserver

// What an xTR behind a NAT registered by simple-nat (draft-farinacci-lisp-lispers-net-nat s.5): RTRs have priority
// 254. ITRs are answered with those, and each of those with where it can send packets: the global RLOCs.

import (
	"slices"

	"loci/control/internal/message"
	"loci/lisp"
	"loci/wire"
)

func isRTR(l lisp.Locator) bool { return l.Priority == lisp.PriorityRTR && !l.RLOC.IsZero() }

// isNamed reports whether a locator has the name of its host, which is how simple-nat registers those of an xTR.
func isNamed(l lisp.Locator) bool {
	if l.Address == "" || isRTR(l) {
		return false
	}
	address, err := wire.ParseAddress([]byte(l.Address))
	if err != nil {
		return false
	}
	_, ok := wire.HostNameOf(address)
	return ok
}

// isBehindNAT reports whether simple-nat registered a mapping.
func isBehindNAT(m lisp.Mapping) bool {
	return slices.ContainsFunc(m.Locators, isRTR) && slices.ContainsFunc(m.Locators, isNamed)
}

// partial is the part of a locator-set that the sender of a Map-Request is answered with: all of it where simple-nat
// did not make it.
func partial(set lisp.LocatorSet, m *message.MapRequest) lisp.LocatorSet {
	if !isBehindNAT(lisp.Mapping{Locators: set}) {
		return set
	}
	asks := func(l lisp.Locator) bool { return isRTR(l) && slices.Contains(m.ReplyRLOCs, l.RLOC) }
	if !slices.ContainsFunc(set, asks) {
		return slices.DeleteFunc(slices.Clone(set), func(l lisp.Locator) bool { return !isRTR(l) })
	}
	own := slices.DeleteFunc(slices.Clone(set), isRTR)
	global := slices.DeleteFunc(slices.Clone(own), func(l lisp.Locator) bool { return !l.RLOC.IsZero() && l.RLOC.IsPrivate() })
	if len(global) > 0 {
		return global
	}
	return own
}
