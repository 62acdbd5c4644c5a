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
	if expired := q.Expire(start); len(expired) != total/2+total/4+total/8 || len(q.shares) != 0 {
		t.Errorf("%d expired, %d shares are left", len(expired), len(q.shares))
	}
	if got := flood("192.168.0.1"); got != total/2 {
		t.Errorf("%d places in the empty queue, want %d", got, total/2)
	}
}

// TestWaitSharesOfForgedSources floods from a source of its own each time: first from one network, then from all of an
// Instance-ID. What is left is there for other networks, the other family and other Instance-IDs.
func TestWaitSharesOfForgedSources(t *testing.T) {
	const total = 1600
	for _, form := range []string{"10.%d.0.%d", "2001:db8:0:%x::%x"} {
		q := NewWaitQueue[int](WaitBounds{PacketsPerDestination: total, PacketsTotal: total, OctetsTotal: total * 100, Time: time.Minute})
		flood := func(instance lisp.InstanceID, source func(i int) string) (taken int) {
			for i := range 2 * total {
				from, err := lisp.ParseEID(source(i))
				if err != nil {
					t.Fatal(err)
				}
				to := waitingFor(fmt.Sprintf("10.%d.%d.1", i/200, i%200))
				to.Instance = instance
				if _, reason := q.AddFrom(start, from, to, 100, i); reason == DropNone {
					taken++
				} else if reason != DropWaitingSourceLimit {
					t.Fatalf("refused by %s", reason)
				}
			}
			return taken
		}
		oneNetwork := func(i int) string { return fmt.Sprintf(form, 1, i%250) }
		anyNetwork := func(i int) string { return fmt.Sprintf(form, 2+i%200, i/200) }
		if got := flood(0, oneNetwork); got != total*3/4 {
			t.Errorf("one network took %d places, want %d", got, total*3/4)
		}
		if got := flood(0, anyNetwork); got != total/8 {
			t.Errorf("others of the Instance-ID took %d places, want %d", got, total/8)
		}
		if got := flood(1, oneNetwork); got == 0 {
			t.Error("nothing was left for another Instance-ID")
		}
		q.Release(lisp.MustParsePrefix("10.0.0.0/8"))
		q.Release(lisp.MustParsePrefix("[1]10.0.0.0/8"))
		if q.Packets() != 0 || len(q.shares) != 0 {
			t.Errorf("%d packets and %d shares are left", q.Packets(), len(q.shares))
		}
	}
}
