// SPDX-License-Identifier: Apache-2.0

package daemon

// Goroutines that work for long let the others run in between: on one processor the loop waits for
// them, and Go's scheduler would let it wait for 10 ms. The loop has its own rule, because it must not
// be interrupted in a turn.

import (
	"runtime"
	"time"
)

// workSlice is how long a goroutine goes on: longer than most of what it does at a time, or it would
// wait for its turn more than it works.
const workSlice = 2 * time.Millisecond

// slice is when the others were let run last, or the goroutine began to work.
type slice struct{ began time.Time }

func (s *slice) begin() { s.began = time.Now() }

// yield lets the others run when it is time.
func (s *slice) yield() {
	if time.Since(s.began) < workSlice {
		return
	}
	runtime.Gosched()
	s.begin()
}
