// SPDX-License-Identifier: Apache-2.0

// Tables become small in the background.

package kernel

import (
	"testing"
	"time"
)

// TestTableShrinksInTime has a table that is larger than it need be, and that is not edited any more.
func TestTableShrinksInTime(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	thresholds := &a.tables.Table.Thresholds
	set := func(smallest int, keptGrown time.Duration) {
		a.mu.Lock()
		defer a.mu.Unlock()
		thresholds.Smallest, thresholds.KeptGrown = smallest, keptGrown
	}
	octets := func() uint64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		state, _ := a.tables.State()
		return state.Octets
	}
	large := octets()
	set(1<<10, time.Hour)
	a.shrinkInTime()
	if octets() != large {
		t.Errorf("%d octets right after it grew to %d", octets(), large)
	}
	a.changing.Lock() // as who tells programs of interfaces, which knows nothing of mu
	set(1<<10, time.Nanosecond)
	a.shrinkInTime()
	if octets() != large {
		t.Error("roots are stored while somebody else changes something")
	}
	a.changing.Unlock()
	eventually(t, "the table is small", func() bool { return octets() < large })
}
