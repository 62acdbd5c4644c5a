// SPDX-License-Identifier: Apache-2.0

package subflow

// Passes over all subflows, a batch in each event-loop iteration: bindings are made anew where the mapping no longer
// has their path, or where it does not answer; subflows without a path are given one; all are unbound when binding is
// switched off.

import (
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// passBatch is how much one event-loop iteration does, bindCost what a row costs whose mapping is looked up.
	passBatch = 1024
	bindCost  = 4
	// passInterval is how far apart passes for changed mappings are at least.
	passInterval = time.Second
	// seekInterval is how often a path is looked for where there were not two usable ones.
	seekInterval = 5 * time.Second
)

// pass is where the pass over all subflows is.
type pass struct {
	cursor  uint32
	unbinds bool           // binding is off
	changed bool           // a mapping of a subflow's destination, or a locator, changed since the pass began
	reviews bool           // bound subflows are looked at too
	endedAt timing.Instant // when the last one was done
}

// MappingChanged notes that another mapping, or one with other locators, is in the map-cache, or that one is gone.
func (b *Binder) MappingChanged(p lisp.Prefix) {
	if b.pass.changed {
		return
	}
	for range b.flows.destinations.Subtree(p) {
		b.StatesChanged()
		return
	}
}

// StatesChanged notes that a locator is in another state.
func (b *Binder) StatesChanged() {
	if !b.on || b.pass.changed || len(b.flows.byFlow) == 0 {
		return
	}
	b.pass.changed = true
	b.schedule(max(b.h.Now+1, b.pass.endedAt+timing.Instant(passInterval)))
}

// seekPaths looks for paths of subflows without one, later.
func (b *Binder) seekPaths() {
	if b.flows.unbound > 0 && !b.Work.Waits() {
		b.schedule(b.h.After(seekInterval))
	}
}

// schedule begins a pass, unless one is under way or due before.
func (b *Binder) schedule(at timing.Instant) {
	if b.pass.cursor == 0 && !b.pass.unbinds && at < b.Work.Next() {
		b.Work.At(at)
	}
}

// HandleWork does a batch of the pass.
func (b *Binder) HandleWork() {
	if b.pass.cursor == 0 {
		b.pass.reviews, b.pass.changed = b.pass.changed, false
	}
	if b.Work.Run(b.h.Now, passBatch, b.step) {
		return
	}
	changed := b.pass.changed
	b.pass = pass{endedAt: b.h.Now, changed: changed}
	if changed {
		b.schedule(b.h.After(passInterval))
	}
	b.seekPaths()
}

func (b *Binder) step() (cost int, more bool) {
	if int(b.pass.cursor) >= b.flows.rows.Len() {
		return 0, false
	}
	id := b.pass.cursor
	b.pass.cursor++
	r := b.flows.rows.At(id)
	switch {
	case r.flow.Protocol == 0, !b.pass.unbinds && r.state == expected: // a free row
		return 1, true
	case b.pass.unbinds:
		b.end(id, "configured")
	case r.path.IsZero() || b.pass.reviews:
		b.review(id)
	default:
		return 1, true
	}
	return bindCost, true
}

// review gives a subflow another path where its own is gone, or answers no RLOC-probes while others do; to the latter
// it returns. It gives it one where it has none. A path that is down stays: the data plane leaves it and returns to it.
func (b *Binder) review(id uint32) {
	r := b.flows.rows.At(id)
	candidates := b.Candidates(&r.flow)
	if b.asks {
		b.reviewAsked(id, candidates)
		return
	}
	b.Asker.release(r)
	now, home := find(candidates, r.path), find(candidates, r.home)
	switch {
	case len(candidates) == 0:
	case r.path.IsZero():
		if _, ok := choose(candidates); ok {
			b.bindTo(id, candidates)
		}
	case home != nil && home.Usable:
		r.home = lisp.Path{}
		b.move(id, home.Path, "returned")
	case now == nil:
		r.home = lisp.Path{}
		b.h.Count(counter.SubflowMoved)
		b.bindTo(id, candidates)
	case now.Avoided:
		b.leave(id, candidates)
	}
}

// leave gives a subflow another path for a while.
func (b *Binder) leave(id uint32, candidates []Candidate) {
	r := b.flows.rows.At(id)
	path, usable := best(candidates, b.loads(r))
	if usable == 0 {
		return
	}
	if r.home.IsZero() {
		r.home = r.path
	}
	b.move(id, path, "unconfirmed")
}

// move binds a subflow to another path.
func (b *Binder) move(id uint32, p lisp.Path, why string) {
	b.h.Count(counter.SubflowMoved)
	b.bindPath(id, p, effect.NoticeSubflowMoved, why)
}
