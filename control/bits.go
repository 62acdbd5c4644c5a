// SPDX-License-Identifier: Apache-2.0

package control

import (
	"loci/lisp"
	"slices"
)

// The bits of locators that depend on who answers: L, p (RFC 9301 s.5.4).

// withLocalBits sets L on the locators that are our own and clears it on the
// others (RFC 9301 s.5.4).
func withLocalBits(set lisp.LocatorSet, own []lisp.RLOC) lisp.LocatorSet {
	return appendWithLocalBits(nil, set, own)
}

// appendWithLocalBits is withLocalBits in the room given.
func appendWithLocalBits(room, set lisp.LocatorSet, own []lisp.RLOC) lisp.LocatorSet {
	marked := append(room, set...)
	for i := range marked {
		marked[i].Local = slices.Contains(own, marked[i].RLOC)
	}
	return marked
}

// sameButReplyBits compares what withoutReplyBits leaves of both.
func sameButReplyBits(a, b lisp.LocatorSet) bool {
	return slices.EqualFunc(a, b, func(a, b lisp.Locator) bool {
		a.Local, a.Probed, b.Local, b.Probed = false, false, false, false
		return a == b
	})
}

// withoutReplyBits leaves out what depends on who answers: the L and p bits.
func withoutReplyBits(set lisp.LocatorSet) lisp.LocatorSet {
	return withoutProbeBits(withLocalBits(set, nil))
}

// withoutProbeBits clears the p bits: they belong to one answer, not to the mapping.
func withoutProbeBits(set lisp.LocatorSet) lisp.LocatorSet {
	if !slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Probed }) {
		return set
	}
	cleared := slices.Clone(set)
	for i := range cleared {
		cleared[i].Probed = false
	}
	return cleared
}
