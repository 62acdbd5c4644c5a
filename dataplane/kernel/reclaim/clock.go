// SPDX-License-Identifier: Apache-2.0

// This file is a clock for what rests until no program can hold it (bpf/abi.h, "Forwarding table"). Left alone it is any clock;
// when more rests than is good it is asked to hurry: then programs are waited for, by a goroutine of its own rather than by who
// needs what rests.

package reclaim

import (
	"sync/atomic"
	"time"
)

// Clock goes with the time, and restTime ahead when programs hold nothing any more that was retired before.
type Clock struct {
	began time.Time
	ahead atomic.Int64 // nanoseconds
	asked chan struct{}
}

// NewClock makes a clock that begins at 0.
func NewClock() *Clock {
	return &Clock{began: time.Now(), asked: make(chan struct{}, 1)}
}

// Now is the time of the clock.
func (c *Clock) Now() time.Duration { return time.Since(c.began) + time.Duration(c.ahead.Load()) }

// Hurry has programs be waited for. It does not wait itself.
func (c *Clock) Hurry() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// Run waits for programs whenever it is asked to, until stop. What is retired while it waits has waited for some programs
// only: so the clock goes ahead by half of the time that it rests, twice.
func (c *Clock) Run(stop <-chan struct{}, wait func()) {
	for {
		select {
		case <-c.asked:
		case <-stop:
			return
		}
		for range 2 {
			wait()
			c.ahead.Add(int64(RestTime / 2))
		}
	}
}
