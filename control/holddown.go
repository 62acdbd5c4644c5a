// SPDX-License-Identifier: Apache-2.0

package control

// Hysteresis of this router's own RLOCs (RFC 9300 s.10: R bits and Locator-Status-Bits say
// what an ETR knows of its own locators). One that cannot be used any more is down at once.
// One that can be used again is held down for a while, which grows when it flaps, as long
// as another path is up: the last one of a locator-set is used at once, so that neither a
// router nor its site is without one. Whether an RLOC can be used, others find out.

import (
	"cmp"
	"slices"
	"time"

	"loci/lisp"
)

// How long an RLOC that fell must be usable again before it is used beside others: the
// first time in holdMemory holdFirst, each further time double, holdMost at most.
const (
	holdFirst  = time.Second
	holdMost   = time.Minute
	holdMemory = 10 * time.Minute
)

// HoldDown says which own RLOCs are used. The zero value knows none. It is not safe for
// concurrent use.
type HoldDown struct {
	rows map[lisp.RLOC]*ownRLOC

	// Steady is how long an RLOC is up until its fall counts no more as one that flaps; 0: each does.
	Steady time.Duration
}

// ownRLOC is what is known of one.
type ownRLOC struct {
	up        bool
	changedAt time.Time // of up
	falls     int       // within holdMemory of each other
	fellAt    time.Time
	usableAt  time.Time // since when nothing speaks against it; zero while something does
}

// OwnPath is an own RLOC, and whether the host could use it now.
type OwnPath struct {
	RLOC   lisp.RLOC
	Usable bool
}

// Judge brings the states of these RLOCs up to date and forgets all others. Each choice is
// a list of own RLOCs of one family that a sender chooses between: the other sites those of
// a locator-set, this router those that it sends from. changed are the RLOCs that are up or
// down since now. again is when the next one may come up, zero for never.
func (h *HoldDown) Judge(now time.Time, paths []OwnPath, choices [][]lisp.RLOC) (changed []lisp.RLOC, again time.Time) {
	h.forgetOthers(paths)
	var waiting []lisp.RLOC
	for _, p := range paths {
		if h.note(now, p) {
			changed = append(changed, p.RLOC)
		}
		if row := h.rows[p.RLOC]; !row.up && p.Usable {
			waiting = append(waiting, p.RLOC)
		}
	}
	dueAt := func(r lisp.RLOC) time.Time { return h.rows[r].dueAt() }
	slices.SortStableFunc(waiting, func(a, b lisp.RLOC) int { return cmp.Compare(dueAt(a).Sub(now), dueAt(b).Sub(now)) })
	for _, r := range waiting { // who is due first comes first where one of them is enough
		if due := dueAt(r); now.Before(due) && h.isSpare(r, choices) {
			if again.IsZero() {
				again = due
			}
			continue
		}
		h.rows[r].set(true, now)
		changed = append(changed, r)
	}
	return changed, again
}

// IsUp reports whether an RLOC is used, and since when that is so; an unknown one is not.
func (h *HoldDown) IsUp(r lisp.RLOC) (up bool, since time.Time) {
	row, known := h.rows[r]
	if !known {
		return false, time.Time{}
	}
	return row.up, row.changedAt
}

func (h *HoldDown) forgetOthers(paths []OwnPath) {
	if h.rows == nil {
		h.rows = map[lisp.RLOC]*ownRLOC{}
	}
	for r := range h.rows {
		if !slices.ContainsFunc(paths, func(p OwnPath) bool { return p.RLOC == r }) {
			delete(h.rows, r)
		}
	}
}

// note takes what the host can use, and reports whether an RLOC fell by it, or is new and down.
func (h *HoldDown) note(now time.Time, p OwnPath) (down bool) {
	row, known := h.rows[p.RLOC]
	if !known {
		h.rows[p.RLOC] = &ownRLOC{up: p.Usable, changedAt: now}
		return !p.Usable
	}
	switch {
	case !p.Usable:
		row.usableAt = time.Time{}
		if row.up {
			row.fall(now, h.Steady)
			return true
		}
	case row.usableAt.IsZero():
		row.usableAt = now
	}
	return false
}

// isSpare reports whether senders can do without an RLOC: in each choice that has it another one is up.
func (h *HoldDown) isSpare(r lisp.RLOC, choices [][]lisp.RLOC) bool {
	isUp := func(other lisp.RLOC) bool { up, _ := h.IsUp(other); return up }
	return !slices.ContainsFunc(choices, func(choice []lisp.RLOC) bool {
		return slices.Contains(choice, r) && !slices.ContainsFunc(choice, isUp)
	})
}

func (r *ownRLOC) set(up bool, now time.Time) { r.up, r.changedAt = up, now }

func (r *ownRLOC) fall(now time.Time, steady time.Duration) {
	if r.fellAt.IsZero() || now.Sub(r.fellAt) > holdMemory {
		r.falls = 0
	}
	if steady > 0 && now.Sub(r.changedAt) >= steady {
		r.falls = -1
	}
	r.set(false, now)
	r.fellAt = now
	r.falls++
}

// dueAt is when an RLOC that is usable again comes up beside others. One that was never up,
// as when its interface comes after the start, is due at once.
func (r *ownRLOC) dueAt() time.Time {
	if r.falls == 0 {
		return r.usableAt
	}
	return r.usableAt.Add(min(holdFirst<<min(r.falls-1, 16), holdMost))
}
