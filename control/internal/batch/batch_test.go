// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"testing"

	"loci/control/internal/timing"
)

// countdown is work of so many steps, each of some cost.
type countdown struct {
	Work
	left, cost, batches int
}

func (c *countdown) job(now *timing.Instant, budget int) Job {
	return Job{Work: &c.Work, Do: func() {
		c.batches++
		c.Run(*now, budget, func() (int, bool) {
			c.left--
			return c.cost, c.left > 0
		})
	}}
}

func TestStepsStayWithinTheirBudget(t *testing.T) {
	for _, c := range []struct {
		name                   string
		steps, cost, budget    int
		wantSteps, wantBatches int
	}{
		{"all at once", 3, 1, 10, 3, 1},
		{"as many as the budget", 10, 1, 10, 10, 1},
		{"cost more than one", 10, 4, 10, 10, 4},
		{"each costs more than a batch", 3, 50, 10, 3, 3},
	} {
		batches, done := 0, 0
		for more := true; more; batches++ {
			began := done
			more = Steps(c.budget, func() (int, bool) {
				done++
				return c.cost, done < c.steps
			})
			if spent := (done - began - 1) * c.cost; spent >= c.budget {
				t.Errorf("%s: a batch went on after %d of %d", c.name, spent, c.budget)
			}
		}
		if done != c.wantSteps || batches != c.wantBatches {
			t.Errorf("%s: %d steps in %d batches, want %d in %d", c.name, done, batches, c.wantSteps, c.wantBatches)
		}
	}
}

// TestJobsTakeTurns: long works proceed side by side, whatever their size, and one that begins
// meanwhile waits for no more than one batch of each other.
func TestJobsTakeTurns(t *testing.T) {
	now := timing.Instant(1)
	works := []*countdown{{left: 1000, cost: 1}, {left: 100, cost: 1}, {left: 1000, cost: 5}}
	var jobs Jobs
	for _, w := range works {
		w.At(now)
		jobs = append(jobs, w.job(&now, 10))
	}
	for range 30 {
		jobs.RunOldest(now)
		now++
	}
	for i, w := range works {
		if w.batches != 10 {
			t.Errorf("work %d had %d of 30 iterations, want 10", i, w.batches)
		}
	}
	if works[1].Waits() {
		t.Error("a work that is over waits")
	}
	late := &countdown{left: 1, cost: 1}
	late.At(now)
	jobs = append(jobs, late.job(&now, 10))
	for range len(jobs) {
		jobs.RunOldest(now)
		now++
	}
	if late.batches != 1 {
		t.Errorf("a work that began late had %d batches after one of each other", late.batches)
	}
}

func TestWorkOfTheFutureWaits(t *testing.T) {
	now := timing.Instant(1)
	w := &countdown{left: 2, cost: 1}
	jobs := Jobs{w.job(&now, 1)}
	if jobs.Next() != timing.Never {
		t.Error("work that never began is due")
	}
	w.At(5)
	for ; now < 5; now++ {
		jobs.RunOldest(now)
	}
	if w.batches != 0 || jobs.Next() != 5 {
		t.Errorf("%d batches before its time; next at %d, want 5", w.batches, jobs.Next())
	}
	jobs.RunOldest(now)
	if w.batches != 1 || w.Next() != now+1 {
		t.Errorf("%d batches at its time; next at %d, want %d", w.batches, w.Next(), now+1)
	}
	if w.End(); w.Waits() {
		t.Error("ended work waits")
	}
}
