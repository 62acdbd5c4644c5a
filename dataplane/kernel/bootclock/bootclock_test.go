// SPDX-License-Identifier: Apache-2.0

// These tests set the time of day.

package bootclock

import (
	"testing"
	"time"
)

func TestBootClock(t *testing.T) {
	var offset uint64
	wall, boot := int64(1_700_000_000_000_000_000), int64(5_000_000_000)
	c := Clock{Offset: &offset, Sample: func() (int64, int64, error) { return wall, boot, nil }}
	must(t, c.Adjust())
	for _, when := range []time.Time{{}, time.Unix(1_700_000_000, 123), time.Unix(1, 0), time.Unix(0, wall-boot)} {
		got := c.FromBoot(c.ToBoot(when))
		if d := got.Sub(when); d < 0 || d > 1 { // the moment of boot is 0, which is taken
			t.Errorf("%v came back as %v", when, got)
		}
	}
	stored := c.ToBoot(time.Unix(1_700_000_000, 0))
	wall += int64(50 * time.Millisecond) // drift
	must(t, c.Adjust())
	if got := c.FromBoot(stored); !got.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("a small drift moved the entry to %v", got)
	}
	wall += int64(time.Hour) // the clock was set
	must(t, c.Adjust())
	if got := c.FromBoot(stored); got.Sub(time.Unix(1_700_003_600, 0)).Abs() > clockStep {
		t.Errorf("a step of an hour moved the entry to %v", got)
	}
}

// TestSampleOfABusyMachine: other processes run between two readings of the clocks.
func TestSampleOfABusyMachine(t *testing.T) {
	boot, interrupted := int64(5*time.Second), 0
	const ahead = int64(1000 * time.Hour)
	sinceBoot := func() (int64, error) { return boot, nil }
	day := func() int64 {
		if interrupted++; interrupted < sampleTries {
			boot += int64(300 * time.Millisecond)
		}
		return boot + ahead
	}
	wall, at, err := sample(sinceBoot, day)
	must(t, err)
	if off := time.Duration(wall - at - ahead); off.Abs() > time.Millisecond {
		t.Errorf("the clocks are %s apart from what they are", off)
	}
}

func TestMomentStepped(t *testing.T) {
	began := Moment{time.Unix(1_700_000_000, 0), time.Minute}
	for name, c := range map[string]struct {
		day, running time.Duration
		want         bool
	}{
		"no time":          {0, 0, false},
		"a millisecond":    {time.Millisecond, time.Millisecond, false},
		"an hour":          {time.Hour, time.Hour, false},
		"drift":            {time.Hour + clockStep/2, time.Hour, false},
		"set forwards":     {time.Hour, time.Millisecond, true},
		"set backwards":    {-time.Hour, time.Millisecond, true},
		"never looked yet": {0, 0, true},
	} {
		earlier := began
		if name == "never looked yet" {
			earlier = Moment{}
		}
		if got := (Moment{began.day.Add(c.day), began.Running + c.running}).Stepped(earlier); got != c.want {
			t.Errorf("%s: stepped is %v", name, got)
		}
	}
}
