// SPDX-License-Identifier: Apache-2.0

package eventloop

import (
	"sync/atomic"
	"testing"
	"time"

	"loci/daemon/transport"
)

// heldSockets have a batch that waits.
type heldSockets struct {
	Sockets
	held atomic.Bool
}

func (s *heldSockets) Waiting() bool { return s.held.Load() || s.Sockets.Waiting() }

// TestDirectIterations has the goroutine that brings an event take the iteration itself if no other goroutine is in one.
func TestDirectIterations(t *testing.T) {
	parts := partsOf(t)
	held := &heldSockets{Sockets: parts.Sockets}
	parts.Sockets = held
	l := running(t, parts)
	var s transport.Activity
	try := func() (taken bool) {
		done := l.tryIterate(&s, func(time.Time) { taken = true })
		if done != taken {
			t.Fatalf("reported %v, taken %v", done, taken)
		}
		return taken
	}
	untilTaken := func() { // the loop's goroutine begins, or takes an iteration of its own
		for !try() {
			time.Sleep(time.Millisecond)
		}
	}
	untilTaken()
	held.held.Store(true) // a batch that came before waits
	if try() {
		t.Error("an iteration was taken before messages that came earlier")
	}
	held.held.Store(false)
	untilTaken()
	l.mu.Lock() // as in an iteration
	if try() {
		t.Error("two were in an iteration")
	}
	l.mu.Unlock()
	untilTaken()
	l.setRunning(false)
	if try() {
		t.Error("an iteration was taken after the loop's end")
	}
}

// TestDirectMessages has a batch that is long left to the loop, where there is more than one processor.
func TestDirectMessages(t *testing.T) {
	l := running(t, partsOf(t))
	var s transport.Activity
	for len(l.receiveDirectly(&s, make([]transport.Message, directMessages))) > 0 {
		time.Sleep(time.Millisecond)
	}
	long := make([]transport.Message, directMessages+1)
	if left := l.receiveDirectly(&s, long); !oneProcessor && len(left) != len(long) {
		t.Errorf("%d of %d messages are left to the loop", len(left), len(long))
	}
}

func TestUntilRing(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ deadline, want time.Duration }{
		{-time.Hour, 0}, {0, 0}, {1, timerPause}, {timerPause, timerPause}, {time.Hour, time.Hour},
	} {
		if got := untilRing(now, now.Add(c.deadline)); got != c.want {
			t.Errorf("deadline in %v: rings in %v, want %v", c.deadline, got, c.want)
		}
	}
}
