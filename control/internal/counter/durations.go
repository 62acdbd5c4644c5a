// SPDX-License-Identifier: Apache-2.0

package counter

// How long things took, in few numbers, from which a histogram is made.

import "time"

// durationBounds is how many there are, from a millisecond to half a minute.
const durationBounds = 14

// DurationBounds are the upper bounds of what Durations tells apart, in order.
func DurationBounds() [durationBounds]time.Duration {
	return [...]time.Duration{
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	}
}

// Durations counts how long something took.
type Durations struct {
	Count uint64
	Sum   time.Duration
	// Within counts those of at most DurationBounds at the same index, and of more than the one before it.
	Within [durationBounds]uint64
}

// Add counts one.
func (d *Durations) Add(took time.Duration) {
	d.Count++
	d.Sum += took
	for i, bound := range DurationBounds() {
		if took <= bound {
			d.Within[i]++
			return
		}
	}
}
