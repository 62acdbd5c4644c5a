// SPDX-License-Identifier: Apache-2.0

package lost

import (
	"fmt"
	"testing"
	"time"

	"loci/control/internal/timing"
	"loci/lisp"
)

// prefix is the i-th of many, of one family and then of the other.
func prefix(i int) lisp.Prefix {
	if i%2 == 0 {
		return lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>9, i>>1&255))
	}
	return lisp.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/48", i))
}

// TestNewOnesLeaveRoom: more EID-Prefixes that never had locators are asked for after a return than there is room for.
// One that is lost finds a place all the same.
func TestNewOnesLeaveRoom(t *testing.T) {
	var table Table
	now := timing.Instant(time.Hour)
	table.Returned(now)
	for i := range 2 * Limit {
		table.Begin(prefix(i), now)
	}
	if table.index.Size != newLimit {
		t.Errorf("%d places are taken, want %d", table.index.Size, newLimit)
	}
	for _, p := range []lisp.Prefix{prefix(3 * Limit), prefix(3*Limit + 1)} {
		table.Had(p, now)
		if !table.Begin(p, now) || !table.Has(p) {
			t.Errorf("%v is lost and finds no place", p)
		}
	}
}

// TestNewOnesGo: whether they are used or not, EID-Prefixes that never had locators have no place after a while; what is
// lost keeps its own.
func TestNewOnesGo(t *testing.T) {
	for _, isUsed := range []bool{false, true} {
		var table Table
		now := timing.Instant(time.Hour)
		table.Returned(now)
		table.Had(prefix(0), now)
		for i := range 4 {
			table.Begin(prefix(i), now)
		}
		for end := now + timing.Instant(ReturnLasts+LongestWait+time.Second); now < end; now += timing.Instant(time.Second) {
			for id, ok := table.Timers.Due(now); ok; id, ok = table.Timers.Due(now) {
				table.Timers.Remove(id)
				if isUsed {
					table.Take(id, now)
				} else {
					table.Unused(id, now)
				}
			}
		}
		if table.index.Size != 1 || !table.Has(prefix(0)) {
			t.Errorf("used %v: %d places are taken, want that of %v only", isUsed, table.index.Size, prefix(0))
		}
	}
}
