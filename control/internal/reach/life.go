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

// Liveness is what the RLOC-probes of all locators say together.
type Liveness struct {
	AnsweredAt timing.Instant // when one last answered, be it down still; 0 for never
	Answers    *Locator       // one that answers, nil for none
	Doubtful   bool           // one that did is being asked again
	Down       bool           // one that did is unconfirmed or down
	Unanswered bool           // every one that did leaves at least one RLOC-probe unanswered, or is unconfirmed or down
}

// Liveness looks at a bounded number of locators.
func (t *Table) Liveness() (all Liveness) {
	hopeful := false
	for id := range min(t.Rows.Len(), judgeRows) {
		l := t.Rows.At(uint32(id))
		if l.isNeeded() {
			all.AnsweredAt = max(all.AnsweredAt, l.Probes.answeredAt)
		}
		switch {
		case !l.isNeeded():
		case l.State == effect.LocatorUp && l.Probes.unanswered == 0:
			all.Answers, all.Unanswered = l, false
			return all
		case l.isPeerOnly(): // no packets go there, so that its silence says nothing of them
		case l.State == effect.LocatorUp:
			all.Doubtful = true
			hopeful = hopeful || l.Probes.unanswered == 1
		case l.isFallen() && l.proven:
			all.Down = true
		}
	}
	all.Unanswered = !hopeful && (all.Doubtful || all.Down)
	return all
}

// Proven is the next locator behind a row that answered RLOC-probes at least once and is wanted, with its row; without
// wanted, one in use. It looks at a bounded number of them; nil for none.
func (t *Table) Proven(behind uint32, wanted func(*Locator) bool) (*Locator, uint32) {
	if wanted == nil {
		wanted = func(l *Locator) bool { return t.isActive(max(l.usedAt, l.SentAt)) }
	}
	rows := uint32(min(t.Rows.Len(), judgeRows))
	for i := range rows {
		id := (behind + 1 + i) % rows
		if l := t.Rows.At(id); l.mappings > 0 && l.proven && wanted(l) {
			return l, id
		}
	}
	return nil, behind
}

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

// LifeUntil is until when a locator's last sign of life counts for a mapping past its TTL, 0 where there was none: an answer to an
// RLOC-probe, or packets from it where those are trusted. Locators that take no packets do not count.
func (p *Prober) LifeUntil(set lisp.LocatorSet, trustsPackets bool) timing.Instant {
	var last timing.Instant
	for _, o := range set {
		_, l, known := p.Table.Get(o.Path().Last())
		if !known || !o.Usable() {
			continue
		}
		last = max(last, l.Probes.answeredAt)
		if trustsPackets {
			last = max(last, l.heardAt)
		}
	}
	if last == 0 {
		return 0
	}
	return last + timing.Instant(signOfLife)
}

// ProbeWithin has the locators of a set probed within a time, however long the interval is.
func (p *Prober) ProbeWithin(set lisp.LocatorSet, d time.Duration) {
	for _, o := range set {
		for _, hop := range o.Path().Hops() {
			if id, _, known := p.Table.Get(hop); known && p.probes(hop) && p.Table.Timers.Of(id) > p.h.After(d) {
				p.Table.Timers.Set(id, p.h.After(d-p.Below(d/2)))
			}
		}
	}
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
// plane has the same locator-set for both: it reports Locator-Status-Bits again when it
// has another.
func (p *Prober) Replaced(m lisp.Mapping, static, sameSet bool) {
	if !static {
		p.Private.remove(&m)
	}
	p.untrack(p.Table.proxies.withProxyETRs(m, static, -1), sameSet)
	p.lookAgain(m.Locators)
}
