// SPDX-License-Identifier: Apache-2.0

package misses

import (
	"slices"
	"testing"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// The echo server answers 250,000 messages a second, so 20,000 misses a second are wanted.
func TestARateCountsWhenItWasHeld(t *testing.T) {
	const name, echoed = "sustained/ipv6", 250000
	for _, one := range []struct {
		what       string
		rate, held []float64
		met, open  bool
	}{
		{"held", []float64{20000}, []float64{20.4}, true, false},
		{"held for exactly so long", []float64{20000}, []float64{20}, true, false},
		{"a short burst", []float64{20000}, []float64{0.47}, false, true},
		{"just too short", []float64{20000}, []float64{19.9}, false, true},
		{"no time at all", []float64{20000}, nil, false, true},
		{"too slow, and held", []float64{15000}, []float64{25}, false, false},
		{"too slow, and not held", []float64{10000}, []float64{2.3}, false, false},
		{"nothing was kept up with", []float64{0}, nil, false, false},
		{"five rounds together", []float64{20000, 20000, 20000, 20000, 20000}, []float64{4, 4, 4, 4, 4}, true, false},
		{"four rounds together", []float64{20000, 20000, 20000, 20000}, []float64{4, 4, 4, 4}, false, true},
		{"most rounds too slow", []float64{15000, 15000, 20000}, []float64{7, 7, 7}, false, false},
	} {
		r := &report.Report{}
		for i, rate := range one.rate {
			r.Add(name, armRate, []report.Sample{report.Figure("rate without loss", "messages/s", echoed)})
			r.Add(name, testbed.ArmTC, []report.Sample{report.Figure("rate without loss", "misses/s", rate)})
			if i < len(one.held) {
				r.Add(name, testbed.ArmTC, []report.Sample{report.Figure("held for", "s", one.held[i])})
			}
		}
		r.SumUp()
		judgeMiss(r)
		if len(r.Targets) != 1 {
			t.Fatalf("%s: targets %+v", one.what, r.Targets)
		}
		target := r.Targets[0]
		if target.Met != one.met || (target.Open != "") != one.open {
			t.Errorf("%s: %+v; want met %v, open %v", one.what, target, one.met, one.open)
		}
		if missed := len(r.Missed()) > 0; missed != (!one.met && !one.open) {
			t.Errorf("%s: missed %v", one.what, missed)
		}
	}
}

func TestFirstPacketsAreComparedWithTheFloorOfTheirRound(t *testing.T) {
	r := &report.Report{}
	for _, round := range []struct{ floor, packet float64 }{{0.1, 0.2}, {0.2, 0.4}, {0.4, 1.2}} {
		r.Add("first-packet/ipv4", armTrips, []report.Sample{report.Figure("p50", "ms", round.floor)})
		r.Add("first-packet/ipv4", testbed.ArmTC, []report.Sample{report.Figure("p50", "ms", round.packet)})
	}
	r.SumUp()
	judgeMiss(r)
	if len(r.Targets) != 1 || r.Targets[0].Measured != 2 || !r.Targets[0].Met {
		t.Errorf("targets %+v; want the median of the ratios, 2", r.Targets)
	}
}

// The wanted rate must be the first that is tried, and without options both families must have time to hold it.
func TestTheWantedRateCanBeHeld(t *testing.T) {
	if missRates[0] != 1 || !slices.IsSortedFunc(missRates, func(a, b float64) int { return int(1e6 * (b - a)) }) {
		t.Errorf("rates %v", missRates)
	}
	b := Miss()
	for _, f := range missFamilies {
		slot := b.Slot(missMeasure, "sustained/"+f.name)
		if held := (slot - slot/floorShare).Seconds() * missRounds; held < wantedHoldS {
			t.Errorf("%s: held for %v s", f.name, held)
		}
	}
}
