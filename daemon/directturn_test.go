// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"sync/atomic"
	"testing"
	"time"

	"loci/daemon/transport"
)

// heldSockets have a batch that waits.
type heldSockets struct {
	*transport.Sockets
	held atomic.Bool
}

func (s *heldSockets) Waiting() bool { return s.held.Load() || s.Sockets.Waiting() }

// TestDirectTurns has turns taken by who brings an event where nobody else is in one, and only there.
func TestDirectTurns(t *testing.T) {
	var held *heldSockets
	d := daemonWith(t, func(s *transport.Sockets) controlSockets { held = &heldSockets{Sockets: s}; return held })
	var s transport.Activity
	try := func() (taken bool) {
		done := d.loop.tryTurn(&s, turnOfCall, func(time.Time) { taken = true })
		if done != taken {
			t.Fatalf("reported %v, taken %v", done, taken)
		}
		return taken
	}
	untilTaken := func() { // the loop's goroutine begins, or takes a turn of its own
		for !try() {
			time.Sleep(time.Millisecond)
		}
	}
	untilTaken()
	held.held.Store(true) // a batch that came before waits
	if try() {
		t.Error("a turn was taken before messages that came earlier")
	}
	held.held.Store(false)
	untilTaken()
	d.loop.mu.Lock() // as in a turn
	if try() {
		t.Error("two were in a turn")
	}
	d.loop.mu.Unlock()
	untilTaken()
	d.loop.setRunning(false)
	if try() {
		t.Error("a turn was taken after the loop's end")
	}
}

// TestDirectMessages has a batch that is long left to the loop, where there is more than one processor.
func TestDirectMessages(t *testing.T) {
	d := runningDaemon(t)
	var s transport.Activity
	for len(d.loop.receiveDirectly(&s, make([]transport.Message, directMessages))) > 0 {
		time.Sleep(time.Millisecond)
	}
	long := make([]transport.Message, directMessages+1)
	if left := d.loop.receiveDirectly(&s, long); !oneProcessor && len(left) != len(long) {
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
