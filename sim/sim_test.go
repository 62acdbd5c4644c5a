// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"
)

// A few seeds must keep every promise; `make sim` runs many more.
func TestSeeds(t *testing.T) {
	gleaned := uint64(0)
	for r := range collect(t, Options{Seed: 1, Routers: 20, Duration: 6 * time.Minute}, 12) {
		gleaned += r.Stats.Gleaned
		if r.Violation != nil {
			t.Errorf("seed %d: %s", r.Seed, r.Violation)
		}
		if r.Stats.PacketsArrived == 0 || r.Stats.Messages["Map-Reply"] == 0 || len(r.Stats.Faults) == 0 {
			t.Errorf("seed %d did not do anything: %+v", r.Seed, r.Stats)
		}
	}
	if gleaned == 0 {
		t.Error("no seed gleaned a mapping")
	}
}

func collect(t *testing.T, o Options, count int) func(func(Result) bool) {
	return func(yield func(Result) bool) { RunMany(t.Context(), o, count, yield) }
}

// A run is its seed.
func TestSameSeedSameTrace(t *testing.T) {
	o := Options{Seed: 42, Routers: 16, Duration: 5 * time.Minute}
	first := Run(o)
	o.Trace = true // must not move anything
	second := Run(o)
	o.Seed++
	other := Run(o)
	if first.Hash != second.Hash || first.Stats.Events != second.Stats.Events {
		t.Errorf("the same seed gave %016x after %d events and %016x after %d", first.Hash, first.Stats.Events, second.Hash, second.Stats.Events)
	}
	if first.Hash == other.Hash {
		t.Errorf("two seeds gave %016x", first.Hash)
	}
	if len(second.Trace) == 0 || len(first.Trace) != 0 {
		t.Errorf("%d and %d lines of trace", len(first.Trace), len(second.Trace))
	}
}

// Without faults everything is in place as soon as all have registered and resolved.
func TestCalm(t *testing.T) {
	r := RunMeasured(Options{Seed: 3, Routers: 40, Duration: 5 * time.Minute, Calm: true})
	if r.Violation != nil {
		t.Fatal(r.Violation)
	}
	if r.Stats.Convergence > 100 { // a Map-Register that is lost without Map-Notify comes again after 60
		t.Errorf("converged after %s", r.Stats.Convergence.Duration())
	}
	if r.Stats.HeapPerRouter == 0 {
		t.Error("no memory measured")
	}
}
