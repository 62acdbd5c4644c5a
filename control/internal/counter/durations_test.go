// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"slices"
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	if bounds := DurationBounds(); !slices.IsSorted(bounds[:]) {
		t.Errorf("bounds %v", bounds)
	}
	var d Durations
	for _, took := range []time.Duration{0, time.Millisecond, time.Millisecond + 1, 30 * time.Second, time.Minute} {
		d.Add(took)
	}
	want := Durations{Count: 5, Sum: 90*time.Second + 2*time.Millisecond + 1}
	want.Within[0], want.Within[1], want.Within[len(want.Within)-1] = 2, 1, 1
	if d != want {
		t.Errorf("%+v, want %+v", d, want)
	}
}
