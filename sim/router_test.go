// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"
)

// A clock that went back at some moment would show a deadline as over before it and as to come at it, for ever.
func TestClocksNeverGoBack(t *testing.T) {
	const around = 2 * time.Millisecond
	for _, ppm := range []int64{-100, -99, -1, 0, 1, 100} {
		c := clock{offset: -time.Minute, ppm: ppm}
		for now := 350*time.Second - around; now < 350*time.Second; now++ {
			if next := c.shows(now + 1); next < c.shows(now) {
				t.Fatalf("%d ppm: %s is shown after %s", ppm, next, c.shows(now))
			}
			if until := c.until(c.at(now)); until > now || c.shows(until) < c.shows(now) {
				t.Fatalf("%d ppm: %s is the first moment to show what %s shows", ppm, until, now)
			}
		}
	}
}
