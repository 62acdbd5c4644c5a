// SPDX-License-Identifier: Apache-2.0

package transport

// When a goroutine that brings events had some.

import "time"

// directRest is how long nothing came to a goroutine that takes a turn itself. What comes closer together is better
// taken together: by the loop, while the goroutine reads what comes next.
const directRest = 500 * time.Microsecond

// Activity is when a goroutine that brings events last had some; it belongs to that goroutine.
type Activity struct{ last time.Time }

// Rested reports whether there was nothing to do for directRest.
func (a *Activity) Rested() bool { return time.Since(a.last) > directRest }

// Worked notes the end of work.
func (a *Activity) Worked() { a.last = time.Now() }
