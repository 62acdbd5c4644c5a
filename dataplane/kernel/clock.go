// SPDX-License-Identifier: Apache-2.0

// This file converts between the time of day, which the control plane uses, and
// nanoseconds since boot, which the pinned maps hold: those go on over a step of
// the clock and over a restart of the daemon. It never decides that time is up.

package kernel

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// clockStep is by how much the time of day must have moved against the time since
// boot before entries follow it. Below, times come back exactly as they were given.
const clockStep = 100 * time.Millisecond

// A bootClock knows how far the time of day is ahead of the time since boot. It is
// kept in pinned memory, so that a restart converts as before. Who tells times
// adjusts it first, as who takes some does: nobody else may have for long.
type bootClock struct {
	offset *uint64 // nanoseconds
	sample func() (wall, boot int64, err error)
}

// sampleClocks reads both clocks of the system.
func sampleClocks() (wall, boot int64, err error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, 0, fmt.Errorf("reading the time since boot: %w", err)
	}
	return time.Now().UnixNano(), ts.Nano(), nil
}

// adjust follows the time of day when it was set.
func (c bootClock) adjust() error {
	wall, boot, err := c.sample()
	if err != nil {
		return err
	}
	offset := wall - boot
	if moved := time.Duration(offset - int64(c.ahead())); moved.Abs() > clockStep {
		atomic.StoreUint64(c.offset, uint64(offset))
	}
	return nil
}

func (c bootClock) ahead() uint64 { return atomic.LoadUint64(c.offset) }

// moment is one point in time by two clocks.
type moment struct {
	day     time.Time     // without a monotonic part
	running time.Duration // since this process began, which nobody sets
}

var processBegan = time.Now()

func momentNow() moment {
	now := time.Now()
	return moment{now.Round(0), now.Sub(processBegan)}
}

// stepped reports whether the time of day was set since an earlier moment.
func (m moment) stepped(earlier moment) bool {
	moved := m.day.Sub(earlier.day) - (m.running - earlier.running)
	return moved > clockStep || moved < -clockStep
}

// toBoot converts a time; the zero time is 0. The result is signed when the time
// lies before boot, and survives as such.
func (c bootClock) toBoot(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	nanoseconds := t.UnixNano()
	if seconds := t.Unix(); seconds >= math.MaxInt64/int64(time.Second) || seconds <= math.MinInt64/int64(time.Second) { // beyond what UnixNano can say
		nanoseconds = math.MaxInt64 / 2
	}
	boot := uint64(nanoseconds - int64(c.ahead()))
	if boot == 0 {
		return 1
	}
	return boot
}

// fromBoot converts back.
func (c bootClock) fromBoot(boot uint64) time.Time { return dayOf(boot, c.ahead()) }

// dayOf is fromBoot where the time of day is ahead by that.
func dayOf(boot, ahead uint64) time.Time {
	if boot == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(boot)+int64(ahead))
}
