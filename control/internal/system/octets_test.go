// SPDX-License-Identifier: Apache-2.0

package system

import (
	"testing"
	"time"

	"loci/control/internal/timing"
)

// TestOctetsOfAnHour: those of the last hour, to a minute, also after a pause.
func TestOctetsOfAnHour(t *testing.T) {
	var o HourOctets
	at := timing.Instant(7 * time.Second)
	for range 600 { // ten an minute, for an hour
		o.add(at, 10)
		at += timing.Instant(6 * time.Second)
	}
	if got := o.Sum(at); got < 5900 || got > 6000 {
		t.Errorf("%d in an hour", got)
	}
	if got := o.Sum(at + timing.Instant(30*time.Minute)); got < 2900 || got > 3100 {
		t.Errorf("%d half an hour later", got)
	}
	if got := o.Sum(at + timing.Instant(1000*time.Hour)); got != 0 {
		t.Errorf("%d long after", got)
	}
	o.add(at+timing.Instant(1001*time.Hour), 3)
	if got := o.Sum(at + timing.Instant(1001*time.Hour)); got != 3 {
		t.Errorf("%d after a pause", got)
	}
}
