// SPDX-License-Identifier: Apache-2.0

// What `loci bench miss` demands of its figures, as ratios to the floors of the same round. A rate counts when it was held; a
// burst that was kept up with for a second shows what queues hold, and is left open.

package misses

import (
	"fmt"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	wantedTrips     = 2.5  // p50 of a first packet, in times of two echo round trips
	wantedRateShare = 0.08 // misses a second, of the messages a second of an echo server
	wantedHoldS     = 20   // seconds, in all rounds together
)

func judgeMiss(r *report.Report) {
	for _, metric := range []string{"p50", "p99"} {
		r.Compare(metric, testbed.ArmTC, armTrips)
	}
	r.Compare("rate without loss", testbed.ArmTC, armRate)
	for _, f := range missFamilies {
		r.WantRatioIn("first-packet/"+f.name, "p50", testbed.ArmTC, armTrips, report.AtMost(wantedTrips))
		judgeSustained(r, "sustained/"+f.name)
	}
}

// judgeSustained: a rate below the wanted one misses it, however long it was held.
func judgeSustained(r *report.Report, caseName string) {
	before := len(r.Targets)
	r.WantRatioIn(caseName, "rate without loss", testbed.ArmTC, armRate, report.AtLeast(wantedRateShare))
	if len(r.Targets) == before || !r.Targets[before].Met {
		return
	}
	seconds := 0.0
	if held := r.Find(caseName, testbed.ArmTC, "held for"); held != nil {
		for _, s := range held.Samples {
			seconds += s
		}
	}
	if seconds < wantedHoldS {
		r.LeaveOpen(fmt.Sprintf("held for %s s of %d: loci bench miss --case %s", report.Digits(seconds), wantedHoldS, caseName))
	}
}
