// SPDX-License-Identifier: Apache-2.0

package daemon

// The loop's alarm clock. A timer's channel in the loop's select would be put into the
// runtime's timers at each turn and taken out again, and each time some thread would be
// woken to wait for the new time: that costs more than most turns. This one is set
// again only when it has to ring earlier. It belongs to whoever is in a turn.

import "time"

// alarmInterval is the shortest time from one ring to the next, unless something is due
// already: deadlines that follow each other closely, as those of a thousand
// resolutions, are one turn.
const alarmInterval = time.Millisecond

// alarm rings once for each time it was set, sometimes too early.
type alarm struct {
	rings chan struct{}
	timer *time.Timer
	at    time.Time // when it rings; zero: it is not set
}

func newAlarm() *alarm {
	a := &alarm{rings: make(chan struct{}, 1)}
	a.timer = time.AfterFunc(idle, func() {
		select {
		case a.rings <- struct{}{}:
		default: // it has rung, and nobody has heard it yet
		}
	})
	return a
}

// set makes it ring at a time, or before.
func (a *alarm) set(now, deadline time.Time) {
	if deadline.After(now) {
		deadline = later(deadline, now.Add(alarmInterval))
	}
	if !a.at.IsZero() && !deadline.Before(a.at) {
		return
	}
	a.at = deadline
	a.timer.Reset(deadline.Sub(now))
}

// heard says that a ring was received: nothing is set any more.
func (a *alarm) heard() { a.at = time.Time{} }

func (a *alarm) stop() { a.timer.Stop() }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
