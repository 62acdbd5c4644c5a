// SPDX-License-Identifier: Apache-2.0

package nat

// Bindings of NATs that change often: packets to the node are lost each time.

import (
	"slices"

	"loci/control/internal/status"
	"loci/lisp"
)

// maxOften bounds the bindings of an RTR that are listed. Where one of them ends, another is listed at its next change.
const maxOften = 64

// often are the EID-Prefixes whose bindings change often.
type often map[lisp.Prefix]struct{}

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
		r.often[b.prefix] = struct{}{}
	}
}

// ChangingOften lists the bindings that change often, in the order of EID-Prefixes.
func (r *RTR) ChangingOften() (list []status.NATBinding) {
	for p := range r.often {
		id, known := r.byPrefix[p]
		if known {
			_, known = r.bindings.At(id).changes.OftenSince(r.h.Now)
		}
		if !known {
			delete(r.often, p)
			continue
		}
		list = append(list, r.statusOf(id))
	}
	slices.SortFunc(list, func(a, b status.NATBinding) int { return a.Prefix.Compare(b.Prefix) })
	return list
}
