// SPDX-License-Identifier: Apache-2.0

package nat

// Bindings of NATs that change often: packets to the node are lost each time.

import (
	"bytes"
	"cmp"
	"slices"

	"loci/control/internal/status"
)

// maxOften bounds the bindings of an RTR that are listed. Where one of them ends, another is listed at its next change.
const maxOften = 64

// often are the bindings that change often.
type often map[claim]struct{}

// noteChange is for a binding that has another address or port, of the same node at the same private RLOC: a node that
// moved is no fault of its NAT.
func (r *RTR) noteChange(b *binding) {
	b.changes.Note(r.h.Now)
	if _, is := b.changes.OftenSince(r.h.Now); !is {
		return
	}
	if len(r.often) >= maxOften {
		r.ChangingOften()
	}
	if len(r.often) < maxOften {
		r.often[claim{b.prefix, b.node}] = struct{}{}
	}
}

// ChangingOften lists the bindings that change often, in the order of EID-Prefixes.
func (r *RTR) ChangingOften() (list []status.NATBinding) {
	for c := range r.often {
		before := len(list)
		for _, b := range r.Bindings.each(c.prefix) {
			if _, is := b.changes.OftenSince(r.h.Now); is && b.node == c.node {
				list = append(list, r.Bindings.statusOf(b))
			}
		}
		if len(list) == before {
			delete(r.often, c)
		}
	}
	slices.SortFunc(list, func(a, b status.NATBinding) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), bytes.Compare(a.XTRID[:], b.XTRID[:]),
			cmp.Compare(a.SiteID, b.SiteID))
	})
	return list
}
