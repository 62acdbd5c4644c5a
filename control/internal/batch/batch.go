// SPDX-License-Identifier: Apache-2.0

package batch

// Long work: one batch of steps at a time, and when the next batch is due. It reads no clock and knows no role.

import "loci/control/internal/timing"

// Step does the least piece of some work. It returns what that cost, and whether there is more.
type Step func() (cost int, more bool)

// Steps does steps until their costs reach the budget, and reports whether there is more.
func Steps(budget int, step Step) (more bool) {
	for left := budget; left > 0; {
		cost, more := step()
		if !more {
			return false
		}
		left -= cost
	}
	return true
}

// Work is when the next batch of some work is due. The zero Work has nothing to do.
type Work struct{ due timing.Instant }

// At lets the next batch be done at a time; timing.Never ends the work.
func (w *Work) At(due timing.Instant) { w.due = due }

// End leaves nothing to do.
func (w *Work) End() { w.due = timing.Never }

// Next is when the next batch is due, timing.Never when there is nothing to do.
func (w *Work) Next() timing.Instant {
	if w.due == 0 {
		return timing.Never
	}
	return w.due
}

// Waits reports whether there is something left to do.
func (w *Work) Waits() bool { return w.Next() != timing.Never }

// Run does one batch. If there is more, the next one is due in the next event-loop iteration.
func (w *Work) Run(now timing.Instant, budget int, step Step) (more bool) {
	w.End()
	if more = Steps(budget, step); more {
		w.At(now + 1)
	}
	return more
}

// Job is a work with the function that does one batch of it.
type Job struct {
	Work *Work
	Do   func()
}

// Jobs are the works of a Node, in the order in which those of one moment are done.
type Jobs []Job

// Next is when the first of them is due.
func (j Jobs) Next() timing.Instant {
	next := timing.Never
	for i := range j {
		next = min(next, j[i].Work.Next())
	}
	return next
}

// RunOldest does a batch of the work that waits longest, if it is due.
func (j Jobs) RunOldest(now timing.Instant) {
	oldest, since := -1, timing.Never
	for i := range j {
		if at := j[i].Work.Next(); at < since {
			oldest, since = i, at
		}
	}
	if oldest < 0 || since > now {
		return
	}
	j[oldest].Work.End()
	j[oldest].Do()
}
