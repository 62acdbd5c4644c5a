// SPDX-License-Identifier: Apache-2.0

package transport

// When a goroutine that brings events was busy last.

import "time"

// directRest is how long a goroutine had no events before it may run an iteration itself. Events that come closer
// together are better handled together: by the loop, while the goroutine reads the next ones.
const directRest = 500 * time.Microsecond

// Activity is when a goroutine had events last; it belongs to that goroutine.
type Activity struct{ last time.Time }

// Rested reports whether there was nothing to do for directRest.
func (a *Activity) Rested() bool { return time.Since(a.last) > directRest }

// Worked notes the end of work.
func (a *Activity) Worked() { a.last = time.Now() }
