// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"testing"
	"time"

	"loci/lisp"
)

// TestWaitShares floods from several sources, and demands room for one more each time.
func TestWaitShares(t *testing.T) {
	const total = 1200
	q := NewWaitQueue[int](WaitBounds{PacketsPerDestination: total, PacketsTotal: total, OctetsTotal: total * 100, Time: time.Minute})
	flood := func(source string) (taken int) {
		from, err := lisp.ParseEID(source)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * total {
			to := waitingFor(fmt.Sprintf("10.%d.%d.1", i/200, i%200))
			_, reason := q.AddFrom(start, from, to, 100, i)
			if reason == DropNone {
				taken++
			} else if reason != DropWaitingSourceLimit {
				t.Fatalf("refused by %s", reason)
			}
		}
		return taken
	}
	for _, c := range []struct {
		source string
		want   int
	}{{"192.168.0.1", total / 2}, {"192.168.0.2", total / 4}, {"2001:db8::3", total / 8}, {"192.168.0.1", 0}} {
		if got := flood(c.source); got != c.want {
			t.Errorf("%s took %d places, want %d", c.source, got, c.want)
		}
	}
	q.SetBounds(WaitBounds{PacketsPerDestination: total, PacketsTotal: total, OctetsTotal: total * 100})
	if expired := q.Expire(start); len(expired) != total/2+total/4+total/8 || len(q.sources) != 0 {
		t.Errorf("%d expired, shares of %d sources are left", len(expired), len(q.sources))
	}
	if got := flood("192.168.0.1"); got != total/2 {
		t.Errorf("%d places in the empty queue, want %d", got, total/2)
	}
}
