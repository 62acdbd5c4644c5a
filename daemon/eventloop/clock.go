// SPDX-License-Identifier: Apache-2.0

package eventloop

// How long iterations of the event loop take, by the clock: the time of other processes counts too.

import (
	"sync/atomic"
	"time"
)

// longIteration is longer than an iteration should take on a machine with processor time to spare.
const longIteration = 5 * time.Millisecond

// iterationClock keeps the longest iteration so far, in nanoseconds, and how many were longer than longIteration.
type iterationClock struct {
	longest atomic.Int64
	long    atomic.Uint64
}

// end records an iteration. Only one runs at a time.
func (c *iterationClock) end(began time.Time) {
	took := time.Since(began)
	if took > longIteration {
		c.long.Add(1)
	}
	if int64(took) > c.longest.Load() {
		c.longest.Store(int64(took))
	}
}

// Times are the longest iteration, and how many took more than 5 ms.
type Times struct {
	Longest time.Duration
	Long    uint64
}

func (c *iterationClock) times() Times {
	return Times{Longest: time.Duration(c.longest.Load()), Long: c.long.Load()}
}
