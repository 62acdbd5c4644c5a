// SPDX-License-Identifier: Apache-2.0

// This file converts between the time of day, which the control plane uses, and
// nanoseconds since boot, which the pinned maps hold: those go on over a step of
// the clock and over a restart of the daemon. It never decides that time is up.

package bootclock

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

// A Clock knows how far the time of day is ahead of the time since boot. It is
// kept in pinned memory, so that a restart converts as before. A caller adjusts it before it
// converts times, in either direction: the last adjustment may be long ago.
type Clock struct {
	Offset *uint64 // nanoseconds
	Sample func() (wall, boot int64, err error)
}

// sampleTries is how often the clocks are read to find them close to each other.
const sampleTries = 5

// Sample reads both clocks of the system, of which wall is read between two readings of the other.
func Sample() (wall, boot int64, err error) {
	return sample(sinceBoot, func() int64 { return time.Now().UnixNano() })
}

// sample takes the closest of some readings: on a busy machine others may run for long between two of them, which would look
// as if the time of day had been set.
func sample(sinceBoot func() (int64, error), day func() int64) (wall, boot int64, err error) {
	closest := int64(math.MaxInt64)
	for range sampleTries {
		before, err := sinceBoot()
		if err != nil {
			return 0, 0, err
		}
		now := day()
		after, err := sinceBoot()
		if err != nil {
			return 0, 0, err
		}
		if apart := after - before; apart < closest {
			closest, wall, boot = apart, now, before+apart/2
		}
		if closest < int64(clockStep/10) {
			break
		}
	}
	return wall, boot, nil
}

func sinceBoot() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("reading the time since boot: %w", err)
	}
	return ts.Nano(), nil
}

// Adjust follows the time of day when it was set.
func (c Clock) Adjust() error {
	wall, boot, err := c.Sample()
	if err != nil {
		return err
	}
	offset := wall - boot
	if moved := time.Duration(offset - int64(c.Ahead())); moved.Abs() > clockStep {
		atomic.StoreUint64(c.Offset, uint64(offset))
	}
	return nil
}

// Ahead is how far the time of day is ahead of the time since boot, in nanoseconds.
func (c Clock) Ahead() uint64 { return atomic.LoadUint64(c.Offset) }

// Moment is one point in time by two clocks.
type Moment struct {
	day     time.Time     // without a monotonic part
	Running time.Duration // since this process began: setting a clock does not change it
}

var processBegan = time.Now()

// Now is this moment.
func Now() Moment {
	now := time.Now()
	return Moment{now.Round(0), now.Sub(processBegan)}
}

// Stepped reports whether the time of day was set since an earlier moment.
func (m Moment) Stepped(earlier Moment) bool {
	moved := m.day.Sub(earlier.day) - (m.Running - earlier.Running)
	return moved > clockStep || moved < -clockStep
}

// ToBoot converts a time; the zero time is 0. The result is signed when the time
// lies before boot, and survives as such.
func (c Clock) ToBoot(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	nanoseconds := t.UnixNano()
	if seconds := t.Unix(); seconds >= math.MaxInt64/int64(time.Second) || seconds <= math.MinInt64/int64(time.Second) { // beyond what UnixNano can say
		nanoseconds = math.MaxInt64 / 2
	}
	boot := uint64(nanoseconds - int64(c.Ahead()))
	if boot == 0 {
		return 1
	}
	return boot
}

// FromBoot converts back.
func (c Clock) FromBoot(boot uint64) time.Time { return DayOf(boot, c.Ahead()) }

// DayOf is fromBoot where the time of day is ahead by that.
func DayOf(boot, ahead uint64) time.Time {
	if boot == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(boot)+int64(ahead))
}
