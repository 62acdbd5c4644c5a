// SPDX-License-Identifier: Apache-2.0

package nat

// Bindings of NATs that change often: packets to the node are lost each time.

import (
	"slices"
	"time"

	"loci/control/internal/status"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// A binding changes often with oftenChanges within oftenWithin.
	oftenChanges = 5
	oftenWithin  = 10 * time.Minute
	// maxOften bounds the bindings of an RTR that are listed. Where one of them ends, another is listed at its next
	// change.
	maxOften = 64
)

// changes are the times of the last changes of a binding, the latest one last; 0 for none.
type changes [oftenChanges]timing.Instant

func (c *changes) note(now timing.Instant) {
	copy(c[:], c[1:])
	c[oftenChanges-1] = now
}

// oftenSince is the first of the last changes, where they were close to each other and to now.
func (c *changes) oftenSince(now timing.Instant) (since timing.Instant, often bool) {
	return c[0], c[0] != 0 && now-c[0] <= timing.Instant(oftenWithin)
}

// often are the EID-Prefixes whose bindings change often.
type often map[lisp.Prefix]struct{}

// noteChange is for a binding that has another address or port, of the same node at the same private RLOC: a node that
// moved is no fault of its NAT.
func (r *RTR) noteChange(b *binding) {
	b.changes.note(r.h.Now)
	if _, is := b.changes.oftenSince(r.h.Now); !is {
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
			_, known = r.bindings.At(id).changes.oftenSince(r.h.Now)
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
