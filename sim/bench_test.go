// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
)

// BenchmarkRun is one seed of the size that `make sim` runs.
func BenchmarkRun(b *testing.B) {
	events := uint64(0)
	for i := range b.N {
		events += Run(Options{Seed: uint64(i + 40)}).Stats.Events
	}
	b.ReportMetric(float64(events)/float64(b.N), "events/op")
}
