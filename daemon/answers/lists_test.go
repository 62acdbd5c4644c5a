// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"testing"
	"time"
)

func TestListsRestInProportion(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: pageRest, 100 * time.Microsecond: pageRest, 2 * time.Millisecond: 6 * time.Millisecond, time.Second: longestRest,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("after a page that took %s: %s, want %s", took, got, want)
		}
	}
}

// TestIdleListsGoOn: a list alone rests for a moment every few milliseconds; traffic makes it rest in proportion, for a second.
func TestIdleListsGoOn(t *testing.T) {
	now := time.Now()
	p := pace{traffic: 7}
	const took = 2 * time.Millisecond
	for i, c := range []struct {
		after   time.Duration
		traffic uint64
		want    time.Duration
	}{
		{0, 7, pageRest}, // it has not rested yet
		{took, 7, 0},
		{took, 7, 0},
		{took, 7, pageRest},
		{took, 8, restShare * took},
		{idleAfter - took, 8, restShare * took},
		{took, 8, 0},
		{restShare*took + idleStretch, 8, pageRest},
	} {
		now = now.Add(c.after)
		if got := p.restAfterPage(now, took, c.traffic); got != c.want {
			t.Errorf("page %d: rests %s, want %s", i, got, c.want)
		}
	}
}
