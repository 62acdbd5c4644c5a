// SPDX-License-Identifier: Apache-2.0

package locatorset

// The bits of locators that depend on who answers: L, p (RFC 9301 s.5.4).

import (
	"slices"

	"loci/lisp"
)

// WithLocalBits sets L on the locators that are our own and clears it on the
// others (RFC 9301 s.5.4). A path is that of its last hop.
func WithLocalBits(set lisp.LocatorSet, own []lisp.RLOC) lisp.LocatorSet {
	return AppendWithLocalBits(nil, set, own)
}

// AppendWithLocalBits is WithLocalBits in the buffer given.
func AppendWithLocalBits(room, set lisp.LocatorSet, own []lisp.RLOC) lisp.LocatorSet {
	marked := append(room, set...)
	for i := range marked {
		marked[i].Local = slices.Contains(own, marked[i].Path().Last())
	}
	return marked
}

// SameButReplyBits compares what WithoutReplyBits leaves of both.
func SameButReplyBits(a, b lisp.LocatorSet) bool {
	return slices.EqualFunc(a, b, func(a, b lisp.Locator) bool {
		a.Local, a.Probed, b.Local, b.Probed = false, false, false, false
		return a == b
	})
}

// WithoutReplyBits leaves out what depends on who answers: the L and p bits.
func WithoutReplyBits(set lisp.LocatorSet) lisp.LocatorSet {
	return WithoutProbeBits(WithLocalBits(set, nil))
}

// WithoutProbeBits clears the p bits: they belong to one answer, not to the mapping.
func WithoutProbeBits(set lisp.LocatorSet) lisp.LocatorSet {
	if !slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Probed }) {
		return set
	}
	cleared := slices.Clone(set)
	for i := range cleared {
		cleared[i].Probed = false
	}
	return cleared
}
