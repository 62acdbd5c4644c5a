// SPDX-License-Identifier: Apache-2.0

package misses

import (
	"slices"
	"testing"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

func TestARateCountsWhenItWasHeld(t *testing.T) {
	const name = "sustained/ipv6"
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
		{"one of three rounds was short", []float64{20000, 20000, 20000}, []float64{21, 3, 21}, false, true},
	} {
		r := &report.Report{}
		for i, rate := range one.rate {
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

// The wanted rate must be the first that is tried, and without options both families must have time to hold it.
func TestTheWantedRateCanBeHeld(t *testing.T) {
	if missRates[0] != wantedRate || !slices.IsSortedFunc(missRates, func(a, b float64) int { return int(b - a) }) {
		t.Errorf("rates %v", missRates)
	}
	b := Miss()
	for _, f := range missFamilies {
		if slot := b.Slot(missMeasure, "sustained/"+f.name); slot.Seconds() < wantedHoldS {
			t.Errorf("%s: %v", f.name, slot)
		}
	}
}
