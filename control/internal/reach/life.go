// SPDX-License-Identifier: Apache-2.0

package reach

// Which locators show life.

import (
	"slices"
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/timing"
	"loci/lisp"
)

// ShowsLife reports whether one of the locators answers RLOC-probes, did so lately, or sent packets lately.
func (p *Prober) ShowsLife(set lisp.LocatorSet) bool {
	return slices.ContainsFunc(set, func(o lisp.Locator) bool {
		_, l, known := p.Table.Get(o.Path().Last()) // that a relay lives says nothing about the site
		if !known {
			return false
		}
		answered := l.Probes.answeredAt != 0 && p.h.Now-l.Probes.answeredAt < timing.Instant(signOfLife)
		return l.State == effect.LocatorUp || answered || p.Table.heardWithin(l, signOfLife)
	})
}

// signOfLife is how lately a locator must have answered or sent packets for its mapping to
// be kept.
const signOfLife = time.Minute

// IsStranded reports whether every locator of a set was judged, and none answers as yet. Its first
// one is asked for all of them.
func (p *Prober) IsStranded(set lisp.LocatorSet, by lisp.RLOC) bool {
	first := true
	for _, l := range set {
		if !isWatched(&l) {
			continue
		}
		fallen, next := p.Table.Paths.fallen(l.Path())
		if !fallen || first && next != by {
			return false
		}
		first = false
	}
	return !first
}

// lookAgain makes the next RLOC-probe of locators that do not answer come soon, where another
// mapping came in place of one that had them: what else has them may have changed as well.
func (p *Prober) lookAgain(set lisp.LocatorSet) {
	for _, l := range set {
		for _, hop := range l.Path().Hops() {
			id, row, known := p.Table.Get(hop)
			if known && row.isFallen() && p.probes(hop) {
				p.Table.Timers.Set(id, min(p.Table.Timers.Of(id), p.h.After(p.Config.RetriesInterval)))
			}
		}
	}
}

// Replaced takes notice of one in whose place another came. sameSet says that the data
// plane has the same locator-set for both: it tells of Locator-Status-Bits again when it
// has another.
func (p *Prober) Replaced(m lisp.Mapping, sameSet bool) {
	p.untrack(m, sameSet)
	p.lookAgain(m.Locators)
}
