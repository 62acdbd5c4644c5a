// SPDX-License-Identifier: Apache-2.0

// What `loci bench miss` demands of its figures. A rate counts when it was held; a burst that was kept up with for a second shows
// what queues hold, and is left open.

package bench

import "fmt"

const (
	wantedP50Ms = 0.5
	wantedP99Ms = 2
	wantedRate  = 20000 // misses a second
	wantedHoldS = 20    // for so many seconds
)

func judgeMiss(r *Report) {
	for _, f := range missFamilies {
		name := "first-packet/" + f.name
		if p50, p99 := r.find(name, armTC, "p50"), r.find(name, armTC, "p99"); p50 != nil && p99 != nil {
			r.want(name+": p50 in ms", p50.Value, atMost(wantedP50Ms))
			r.want(name+": p99 in ms", p99.Value, atMost(wantedP99Ms))
		}
		judgeSustained(r, "sustained/"+f.name)
	}
}

// judgeSustained: a rate below the wanted one misses it, however long it was held.
func judgeSustained(r *Report, caseName string) {
	rate, held := r.find(caseName, armTC, "rate without loss"), r.find(caseName, armTC, "held for")
	if rate == nil {
		return
	}
	r.want(caseName+": misses/s without loss", rate.Value, atLeast(wantedRate))
	if rate.Value >= wantedRate && (held == nil || held.Min < wantedHoldS) {
		seconds := 0.0
		if held != nil {
			seconds = held.Min
		}
		r.leaveOpen(fmt.Sprintf("held for %s s of %d: loci bench miss --case %s", figure(seconds), wantedHoldS, caseName))
	}
}
