// SPDX-License-Identifier: Apache-2.0

package mirror

// What two locator-sets have in common, by the paths of their locators (RFC 8060 s.4.6).

import (
	"slices"

	"loci/lisp"
	"loci/sim/internal/virtual"
)

// Hash is the same for sets that say the same, L and p bits apart, which depend
// on who says it.
func Hash(set lisp.LocatorSet) uint64 {
	t := virtual.Trace{Hash: uint64(len(set))}
	for _, l := range set {
		b := l.RLOC.Addr().As16()
		t.Note(0, int(l.Priority)<<8|int(l.Weight), b[:], nil)
		for i := range l.Behind.Len() {
			b = l.Behind.At(i).Addr().As16()
			t.Note(0, int(l.Bits[i+1]), b[:], nil)
		}
		if l.Reachable {
			t.Mix(1)
		}
	}
	return t.Hash
}

// Same compares what matters of two sets.
func Same(a, b lisp.LocatorSet) bool {
	return slices.EqualFunc(a, b, func(a, b lisp.Locator) bool {
		return a.Path() == b.Path() && a.Bits == b.Bits && a.Priority == b.Priority && a.Weight == b.Weight && a.Reachable == b.Reachable
	})
}

// SameOrLeftOut is Same where some locators of the first set may have priority 255: a router does not use them.
func SameOrLeftOut(used, said lisp.LocatorSet) bool {
	used = slices.Clone(used)
	for i := range used {
		if i < len(said) && used[i].Priority == lisp.PriorityUnused {
			used[i].Priority = said[i].Priority
		}
	}
	return Same(used, said)
}
