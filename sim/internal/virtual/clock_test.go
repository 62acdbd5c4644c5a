// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"strings"
	"testing"
	"time"
)

func TestTraceKeepsTheLast(t *testing.T) {
	tr := Trace{Keep: 3}
	for _, line := range []string{"a", "b", "c", "d"} {
		tr.Say(0, func() string { return line })
	}
	got := tr.Lines()
	if len(got) != 3 || !strings.HasSuffix(got[0], "b") || !strings.HasSuffix(got[2], "d") {
		t.Errorf("got %q, want b to d", got)
	}
}

func TestClock(t *testing.T) {
	for _, c := range []Clock{{}, {Offset: time.Hour, Ppm: 100}, {Offset: -time.Minute, Ppm: -100}, {Ppm: 37}} {
		for _, at := range []time.Duration{0, 1, time.Second, 7*time.Minute + 3, time.Hour} {
			got := c.Until(c.At(at))
			if c.At(got).Before(c.At(at)) || got-at > time.Microsecond || at-got > time.Microsecond {
				t.Errorf("%+v shows %s at %s, by its own account at %s", c, c.At(at), at, got)
			}
		}
	}
}

// A clock that went back at some moment would show a deadline as over before it and as to come at it, for ever.
func TestClocksNeverGoBack(t *testing.T) {
	const around = 2 * time.Millisecond
	for _, ppm := range []int64{-100, -99, -1, 0, 1, 100} {
		c := Clock{Offset: -time.Minute, Ppm: ppm}
		for now := 350*time.Second - around; now < 350*time.Second; now++ {
			if next := c.shows(now + 1); next < c.shows(now) {
				t.Fatalf("%d ppm: %s is shown after %s", ppm, next, c.shows(now))
			}
			if until := c.Until(c.At(now)); until > now || c.shows(until) < c.shows(now) {
				t.Fatalf("%d ppm: %s is the first moment to show what %s shows", ppm, until, now)
			}
		}
	}
}
