// SPDX-License-Identifier: Apache-2.0

package reach

// What hints say about paths: the Locator-Status-Bit of a path is the path's; ICMP is about one of its hops.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/hops"
	"loci/control/internal/timing"
	"loci/lisp"
)

// maxHopPaths bounds the paths that are looked at for one hint about a hop of theirs.
const maxHopPaths = 64

// setStatusBit notes what the site of an EID-Prefix says of a path.
func (a *Paths) setStatusBit(path lisp.Path, by lisp.Prefix, up bool) {
	t := a.table
	id, known := t.Paths.ByPath[path]
	if !known {
		t.h.Count(counter.RefusedHint)
		return
	}
	row := t.Paths.Rows.At(id)
	switch at := slices.Index(row.loweredBy, by); {
	case up && at >= 0:
		row.loweredBy = slices.Delete(row.loweredBy, at, at+1)
	case !up && at < 0 && len(row.loweredBy) < maxLoweredBy:
		row.loweredBy, row.loweredAt = append(row.loweredBy, by), t.h.Now
	default:
		return
	}
	t.Paths.judge(id)
}

// releaseStatusBit lets go of an old status bit, as ReleaseStatusBits does for a plain locator.
func (a *Paths) releaseStatusBit(l *lisp.Locator, by lisp.Prefix) {
	t := a.table
	id, known := t.Paths.ByPath[l.Path()]
	if !known || !l.Usable() {
		return
	}
	row := t.Paths.Rows.At(id)
	at := slices.Index(row.loweredBy, by)
	if at < 0 || t.h.Now-row.loweredAt < timing.Instant(StatusBitHold) {
		return
	}
	row.loweredBy = slices.Delete(row.loweredBy, at, at+1)
	t.Paths.judge(id)
}

// nextWithout is where packets of a locator would be sent if a hop were down, that hop where there is no other one.
func (a *Paths) nextWithout(l *lisp.Locator, gone lisp.RLOC) lisp.RLOC {
	t := a.table
	if l.Behind == "" {
		return l.RLOC
	}
	router := *t.Paths.router()
	router.State = func(r lisp.RLOC) hops.State {
		if r == gone {
			return hops.Down
		}
		return t.hopState(r)
	}
	c := router.Choose(l.Path(), &l.Bits)
	if !c.Usable() {
		return gone
	}
	return l.Path().Hop(int(c.Next))
}

// needsHop reports whether a mapping whose only locator is a path would have no hop left that is known to answer without this one;
// so is it taken to be where very many paths have the hop.
func (a *Paths) needsHop(r lisp.RLOC) bool {
	t := a.table
	ids := t.Paths.ByHop[r]
	if len(ids) > maxHopPaths {
		return true
	}
	return slices.ContainsFunc(ids, func(id uint32) bool {
		row := t.Paths.Rows.At(id)
		if row.alone == 0 || row.Path.Hop(int(row.choice.Next)) != r {
			return false
		}
		next := t.Paths.nextWithout(&lisp.Locator{RLOC: row.Path.RLOC, Behind: row.Path.Behind, Bits: row.bits}, r)
		_, l, known := t.Get(next)
		return next == r || !known || l.State != effect.LocatorUp
	})
}

// fallen reports whether a locator was judged and cannot be used, or is unconfirmed, and where its packets are sent.
func (a *Paths) fallen(p lisp.Path) (bool, lisp.RLOC) {
	t := a.table
	if id, is := t.Paths.ByPath[p]; is {
		row := t.Paths.Rows.At(id)
		down := row.State == effect.LocatorDown || row.State == effect.LocatorUnconfirmed
		return down, row.Path.Hop(int(row.choice.Next))
	}
	_, l, known := t.Get(p.RLOC)
	return known && p.IsPlain() && l.isFallen(), p.RLOC
}
