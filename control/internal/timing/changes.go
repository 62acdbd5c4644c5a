// SPDX-License-Identifier: Apache-2.0

package timing

// Whether something changes often: five times within ten minutes.

import "time"

const (
	// Something changes often with oftenChanges within oftenWithin.
	oftenChanges = 5
	oftenWithin  = 10 * time.Minute
)

// Changes are the times of the last changes of something, the latest one last; 0 for none.
type Changes [oftenChanges]Instant

// Note is for a change.
func (c *Changes) Note(now Instant) {
	copy(c[:], c[1:])
	c[oftenChanges-1] = now
}

// OftenSince is the first of the last changes, where they were close to each other and to now.
func (c *Changes) OftenSince(now Instant) (since Instant, often bool) {
	return c[0], c[0] != 0 && now-c[0] <= Instant(oftenWithin)
}
