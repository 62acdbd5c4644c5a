// SPDX-License-Identifier: Apache-2.0

package reach

// Round-trip times of one locator: an exponential average for the long run, and a
// window of the last samples for percentiles (RFC 9301 s.7.1 gives the samples). It
// measures nothing itself.

import (
	"slices"
	"time"

	"loci/control/internal/status"
)

// roundTripWindow is how many samples the percentiles are of: about ten minutes of
// the default interval.
const roundTripWindow = 64

// roundTripGain is the weight of a new sample in the average, as TCP's (1/8).
const roundTripGain = 8

// RoundTrips keeps samples in microseconds: 256 octets a locator.
type RoundTrips struct {
	count   int // samples ever
	average time.Duration
	samples [roundTripWindow]uint32
}

// Add adds a sample.
func (r *RoundTrips) Add(d time.Duration) {
	d = max(d, 0)
	r.samples[r.count%roundTripWindow] = uint32(min(d/time.Microsecond, 1<<32-1))
	if r.count == 0 {
		r.average = d
	}
	r.average += (d - r.average) / roundTripGain
	r.count++
}

// Status sums up the samples.
func (r *RoundTrips) Status() status.RoundTrip {
	if r.count == 0 {
		return status.RoundTrip{}
	}
	sorted := slices.Clone(r.samples[:min(r.count, roundTripWindow)])
	slices.Sort(sorted)
	// The nearest rank: the smallest sample that p percent do not exceed.
	percentile := func(p int) time.Duration {
		return time.Duration(sorted[(len(sorted)*p+99)/100-1]) * time.Microsecond
	}
	last := r.samples[(r.count-1)%roundTripWindow]
	return status.RoundTrip{
		Samples: r.count, Last: time.Duration(last) * time.Microsecond, Average: r.average,
		Median: percentile(50), Percentile90: percentile(90), Percentile99: percentile(99),
		Min: time.Duration(sorted[0]) * time.Microsecond, Most: percentile(100),
	}
}
