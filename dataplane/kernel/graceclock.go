// SPDX-License-Identifier: Apache-2.0

// This file is a clock for what rests until no program can hold it (bpf/abi.h, "Forwarding table"). Left alone it is any clock;
// when more rests than is good it is asked to hurry: then programs are waited for, by a goroutine of its own rather than by who
// needs what rests.

package kernel

import (
	"sync/atomic"
	"time"
)

// graceClock goes with the time, and restTime ahead when programs hold nothing any more that was retired before.
type graceClock struct {
	began time.Time
	ahead atomic.Int64 // nanoseconds
	asked chan struct{}
}

func newGraceClock() *graceClock {
	return &graceClock{began: time.Now(), asked: make(chan struct{}, 1)}
}

func (c *graceClock) now() time.Duration { return time.Since(c.began) + time.Duration(c.ahead.Load()) }

// hurry has programs be waited for. It does not wait itself.
func (c *graceClock) hurry() {
	select {
	case c.asked <- struct{}{}:
	default:
	}
}

// run waits for programs whenever it is asked to, until stop. What is retired while it waits has waited for some programs
// only: so the clock goes ahead by half of the time that it rests, twice.
func (c *graceClock) run(stop <-chan struct{}, wait func()) {
	for {
		select {
		case <-c.asked:
		case <-stop:
			return
		}
		for range 2 {
			wait()
			c.ahead.Add(int64(restTime / 2))
		}
	}
}
