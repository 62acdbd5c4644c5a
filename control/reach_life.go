// SPDX-License-Identifier: Apache-2.0

package control

import (
	"loci/lisp"
	"slices"
	"time"
)

// Which locators show life.

// showsLife reports whether one of the locators answers RLOC-probes, did so lately, or sent packets lately.
func (p *prober) showsLife(set lisp.LocatorSet) bool {
	return slices.ContainsFunc(set, func(o lisp.Locator) bool {
		_, l, known := p.table.get(o.RLOC)
		if !known {
			return false
		}
		answered := l.probes.answeredAt != 0 && p.h.now-l.probes.answeredAt < instant(signOfLife)
		return l.state == LocatorUp || answered || p.table.heardWithin(l, signOfLife)
	})
}

// signOfLife is how lately a locator must have answered or sent packets for its mapping to
// be kept.
const signOfLife = time.Minute

// renewal is when the mapping of a locator is asked for again.
type renewal struct {
	prefix lisp.Prefix
	in     uint8 // RLOC-probes
	gap    uint8
}

// isStranded reports whether every locator of a set was judged, and none answers as yet. Its first
// one is asked for all of them.
func (p *prober) isStranded(set lisp.LocatorSet, by lisp.RLOC) bool {
	first := true
	for _, l := range set {
		if !l.Usable() {
			continue
		}
		_, row, known := p.table.get(l.RLOC)
		if !known || !row.isFallen() || first && l.RLOC != by {
			return false
		}
		first = false
	}
	return !first
}

// lookAgain makes the next RLOC-probe of locators that do not answer come soon, where another
// mapping came in place of one that had them: what else has them may have changed as well.
func (p *prober) lookAgain(set lisp.LocatorSet) {
	for _, l := range set {
		id, row, known := p.table.get(l.RLOC)
		if known && row.isFallen() && p.probes(l.RLOC) {
			p.table.timers.set(id, min(p.table.timers.of(id), p.h.after(p.config.RetriesInterval)))
		}
	}
}
