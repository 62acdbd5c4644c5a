// SPDX-License-Identifier: Apache-2.0

package nat

// The RLOCs of one node behind NATs, by which an RTR reaches an EID-Prefix (s.5.3): the xTR-ID is what they are merged
// by. An RLOC is added, and lasts, by Map-Registers that come from it. Each Map-Register says which the node has, with
// their priorities and weights: one that it does not name is gone.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/timing"
	"loci/lisp"
)

// maxWays bounds the RLOCs of a node.
const maxWays = 8

// policy is what a node says of an own RLOC.
type policy struct {
	private          netip.Addr
	priority, weight uint8
}

// way is an RLOC of a node, and how its NAT translates it.
type way struct {
	policy
	from  netip.AddrPort
	until timing.Instant
}

// policiesOf are a node's RLOCs behind NATs: those that are registered as unreachable.
func policiesOf(set lisp.LocatorSet) (list []policy) {
	for i := range set {
		l := &set[i]
		if !l.Reachable && l.Behind == "" && len(list) < maxWays {
			list = append(list, policy{l.RLOC.Addr(), l.Priority, l.Weight})
		}
	}
	return list
}

// wayOf is the way to a private RLOC, nil for none.
func wayOf(ways []way, private netip.Addr) *way {
	for i := range ways {
		if ways[i].private == private {
			return &ways[i]
		}
	}
	return nil
}

// wayFrom is the way that leads to a translated address and port, nil for none.
func (b *binding) wayFrom(from netip.AddrPort) *way {
	for i := range b.ways {
		if b.ways[i].from == from {
			return &b.ways[i]
		}
	}
	return nil
}

// merge takes over what a Map-Register says. It reports whether the binding moved: the RLOC has another address and
// port, or the node has another RLOC in place of the one before.
func (b *binding) merge(p *pending, rec *record, now timing.Instant) (moved bool, before netip.AddrPort) {
	own := policy{private: p.private, priority: 1, weight: 100}
	var ways []way
	for _, said := range rec.locals {
		if said.private == p.private {
			own = said
			continue
		}
		if w := wayOf(b.ways, said.private); w != nil && w.until > now && w.from != p.from {
			ways = append(ways, way{said, w.from, w.until})
		}
	}
	was := b.ways
	ways = append(ways, way{own, p.from, now + timing.Instant(time.Duration(rec.lifetime))})
	slices.SortFunc(ways, func(a, b way) int { return a.private.Compare(b.private) })
	b.ways = ways
	if same := wayOf(was, p.private); same != nil {
		return same.from != p.from, same.from
	}
	for i := range was {
		if wayOf(ways, was[i].private) == nil {
			return true, was[i].from
		}
	}
	return false, before
}

// expiresAt is when the first of the ways ends.
func (b *binding) expiresAt() timing.Instant {
	at := timing.Never
	for i := range b.ways {
		at = min(at, b.ways[i].until)
	}
	return at
}

// sameWays reports whether packets go the same ways.
func sameWays(a, b []way) bool {
	return slices.EqualFunc(a, b, func(x, y way) bool { return x.policy == y.policy && x.from == y.from })
}
