// SPDX-License-Identifier: Apache-2.0

package virtual

// A router's own clock, which is not quite right.

import (
	"time"
)

// Clock is a router's own.
type Clock struct {
	Offset time.Duration
	Ppm    int64 // how much it goes wrong
}

// At is what the clock shows at a virtual time.
func (c Clock) At(t time.Duration) time.Time { return Epoch.Add(c.shows(t)) }

// shows is how much time has gone by since epoch, by this clock. It never goes back.
func (c Clock) shows(t time.Duration) time.Duration {
	wrong := time.Duration(c.Ppm)
	return c.Offset + t + t/1_000_000*wrong + t%1_000_000*wrong/1_000_000
}

// Until is the first virtual time at which the clock shows that.
func (c Clock) Until(deadline time.Time) time.Duration {
	shown := deadline.Sub(Epoch)
	t := shown - c.Offset
	t -= t/1_000_000*time.Duration(c.Ppm) + t%1_000_000*time.Duration(c.Ppm)/1_000_000
	for left := shown - c.shows(t); left > 0; left = shown - c.shows(t) {
		t += max(left/2, 1)
	}
	return t
}

// Epoch is the wall clock at virtual time 0.
var Epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
