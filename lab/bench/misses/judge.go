// SPDX-License-Identifier: Apache-2.0

// What `loci bench miss` demands of its figures. A rate counts when it was held; a burst that was kept up with for a second shows
// what queues hold, and is left open.

package misses

import (
	"fmt"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	wantedP50Ms = 0.5
	wantedP99Ms = 2
	wantedRate  = 20000 // misses a second
	wantedHoldS = 20    // for so many seconds
)

func judgeMiss(r *report.Report) {
	for _, f := range missFamilies {
		name := "first-packet/" + f.name
		if p50, p99 := r.Find(name, testbed.ArmTC, "p50"), r.Find(name, testbed.ArmTC, "p99"); p50 != nil && p99 != nil {
			r.Want(name+": p50 in ms", p50.Value, report.AtMost(wantedP50Ms))
			r.Want(name+": p99 in ms", p99.Value, report.AtMost(wantedP99Ms))
		}
		judgeSustained(r, "sustained/"+f.name)
	}
}

// judgeSustained: a rate below the wanted one misses it, however long it was held.
func judgeSustained(r *report.Report, caseName string) {
	rate, held := r.Find(caseName, testbed.ArmTC, "rate without loss"), r.Find(caseName, testbed.ArmTC, "held for")
	if rate == nil {
		return
	}
	r.Want(caseName+": misses/s without loss", rate.Value, report.AtLeast(wantedRate))
	if rate.Value >= wantedRate && (held == nil || held.Min < wantedHoldS) {
		seconds := 0.0
		if held != nil {
			seconds = held.Min
		}
		r.LeaveOpen(fmt.Sprintf("held for %s s of %d: loci bench miss --case %s", report.Digits(seconds), wantedHoldS, caseName))
	}
}
