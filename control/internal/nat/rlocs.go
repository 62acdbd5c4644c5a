// SPDX-License-Identifier: Apache-2.0

package nat

// The RLOCs of one node behind NATs, by which an RTR reaches an EID-Prefix (s.5.3): the xTR-ID is what they are merged
// by. An RLOC is added, and lasts, by Map-Registers that come from it. Each Map-Register says which the node has, with
// their priorities and weights: one that it does not name is gone.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// policy is what a node says of an own RLOC.
type policy struct {
	private          netip.Addr
	priority, weight uint8
}

// natRLOC is an RLOC of a node, and how its NAT translates it.
type natRLOC struct {
	policy
	from  netip.AddrPort
	until timing.Instant
}

// policiesOf are a node's RLOCs behind NATs: those that are registered as unreachable.
func policiesOf(set lisp.LocatorSet) (list []policy) {
	for i := range set {
		l := &set[i]
		if !l.Reachable && l.Behind == "" && len(list) < settings.NATRLOCs {
			list = append(list, policy{l.RLOC.Addr(), l.Priority, l.Weight})
		}
	}
	return list
}

// hasRoomFor reports whether the RLOC that a Map-Register came from is one of those that the node names first.
func (rec *record) hasRoomFor(p *pending) bool {
	return len(rec.locals) < settings.NATRLOCs || slices.ContainsFunc(rec.locals, func(w policy) bool { return w.private == p.private })
}

// rlocOf is the one with that private address, nil for none.
func rlocOf(rlocs []natRLOC, private netip.Addr) *natRLOC {
	for i := range rlocs {
		if rlocs[i].private == private {
			return &rlocs[i]
		}
	}
	return nil
}

// rlocFrom is the one that has that translated address and port, nil for none.
func (b *binding) rlocFrom(from netip.AddrPort) *natRLOC {
	for i := range b.rlocs {
		if b.rlocs[i].from == from {
			return &b.rlocs[i]
		}
	}
	return nil
}

// merge takes over what a Map-Register says. It reports whether the binding moved: the RLOC has another address and
// port, or the node has another RLOC in place of the one before.
func (b *binding) merge(p *pending, rec *record, now timing.Instant) (moved bool, before netip.AddrPort) {
	own := policy{private: p.private, priority: 1, weight: 100}
	var rlocs []natRLOC
	for _, said := range rec.locals {
		if said.private == p.private {
			own = said
			continue
		}
		if w := rlocOf(b.rlocs, said.private); w != nil && w.until > now && w.from != p.from {
			rlocs = append(rlocs, natRLOC{said, w.from, w.until})
		}
	}
	was := b.rlocs
	rlocs = append(rlocs, natRLOC{own, p.from, now + timing.Instant(time.Duration(rec.lifetime))})
	slices.SortFunc(rlocs, func(a, b natRLOC) int { return a.private.Compare(b.private) })
	b.rlocs = rlocs
	if same := rlocOf(was, p.private); same != nil {
		return same.from != p.from, same.from
	}
	for i := range was {
		if rlocOf(rlocs, was[i].private) == nil {
			return true, was[i].from
		}
	}
	return false, before
}

// expiresAt is when the first of the RLOCs ends.
func (b *binding) expiresAt() timing.Instant {
	at := timing.Never
	for i := range b.rlocs {
		at = min(at, b.rlocs[i].until)
	}
	return at
}

// sameRLOCs reports whether packets go to the same RLOCs alike.
func sameRLOCs(a, b []natRLOC) bool {
	return slices.EqualFunc(a, b, func(x, y natRLOC) bool { return x.policy == y.policy && x.from == y.from })
}
