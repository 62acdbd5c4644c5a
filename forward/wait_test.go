// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"loci/lisp"
)

var start = time.Unix(1_800_000_000, 0)

func waitingFor(text string) Destination {
	p := lisp.MustParsePrefix(text)
	return Destination{Instance: p.Instance(), EID: p.EID()}
}

func packetsOf(list []Waiting[int]) (numbers []int) {
	for _, w := range list {
		numbers = append(numbers, w.Packet)
	}
	return numbers
}

var roomy = WaitBounds{PacketsPerDestination: 100, PacketsTotal: 1000, OctetsTotal: 1 << 20, Time: 5 * time.Second}

func TestWaitQueueReleasesInOrder(t *testing.T) {
	q := NewWaitQueue[int](roomy)
	for i, to := range []string{"10.2.0.1", "10.3.0.1", "10.2.0.2", "10.2.0.1", "[7]10.2.0.1", "2001:db8::1"} {
		first, reason := q.Add(start.Add(time.Duration(i)), waitingFor(to), 100, i)
		if reason != DropNone || first != (i != 3) {
			t.Errorf("packet %d: first %t, %s", i, first, reason)
		}
	}
	if q.Packets() != 6 || q.Octets() != 600 || q.Destinations() != 5 || !q.Waits(waitingFor("[7]10.2.0.1")) {
		t.Errorf("%d packets, %d octets, %d destinations", q.Packets(), q.Octets(), q.Destinations())
	}
	for _, c := range []struct {
		prefix string
		want   []int
	}{
		{"10.9.0.0/16", nil}, {"10.2.0.0/16", []int{0, 2, 3}}, {"10.2.0.0/16", nil}, {"10.3.0.1/32", []int{1}}, {"10.3.0.1/32", nil},
		{"[7]0.0.0.0/0", []int{4}}, {"::/0", []int{5}},
	} {
		if got := packetsOf(q.Release(lisp.MustParsePrefix(c.prefix))); !slices.Equal(got, c.want) {
			t.Errorf("%s releases %v, want %v", c.prefix, got, c.want)
		}
	}
	if q.Packets() != 0 || q.Octets() != 0 || q.Destinations() != 0 {
		t.Errorf("%d packets of %d octets are left", q.Packets(), q.Octets())
	}
	if _, ok := q.NextExpiry(); ok {
		t.Error("an empty queue expires")
	}
}

func TestWaitQueueReleasesWhatIsReady(t *testing.T) {
	q := NewWaitQueue[int](roomy)
	for i, to := range []string{"10.2.0.1", "10.2.0.2", "10.2.0.1"} {
		q.Add(start, waitingFor(to), 1, i)
	}
	ready := func(d Destination) bool { return d == waitingFor("10.2.0.1") }
	if got := packetsOf(q.ReleaseReady(lisp.MustParsePrefix("10.2.0.2/32"), ready)); got != nil {
		t.Errorf("released %v, which is not ready", got)
	}
	if got := packetsOf(q.ReleaseReady(lisp.MustParsePrefix("10.0.0.0/8"), ready)); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("released %v, want 0 and 2", got)
	}
}

func TestWaitQueueBounds(t *testing.T) {
	bounds := WaitBounds{PacketsPerDestination: 2, PacketsTotal: 4, OctetsTotal: 1000, Time: time.Second}
	q := NewWaitQueue[int](bounds)
	add := func(to string, octets int, want DropReason) {
		t.Helper()
		if _, reason := q.Add(start, waitingFor(to), octets, 0); reason != want {
			t.Errorf("%d octets to %s: %s, want %s", octets, to, reason, want)
		}
	}
	add("10.0.0.1", 501, DropWaitingOctetsLimit) // no destination takes more than half
	add("10.0.0.1", 400, DropNone)
	add("10.0.0.1", 101, DropWaitingOctetsLimit)
	add("10.0.0.1", 100, DropNone)
	add("10.0.0.1", 1, DropWaitingPacketsLimit)
	add("10.0.0.2", 450, DropNone)
	add("10.0.0.3", 51, DropWaitingOctetsLimit)
	add("10.0.0.3", 50, DropNone)
	add("10.0.0.4", 0, DropWaitingPacketsLimit)
	if q.Destinations() != 3 || q.Octets() != 1000 {
		t.Errorf("%d destinations, %d octets: a refused packet left something behind", q.Destinations(), q.Octets())
	}
	q.SetBounds(roomy)
	add("10.0.0.1", 1, DropNone)
	var none WaitQueue[int]
	if _, reason := none.Add(start, waitingFor("10.0.0.1"), 1, 0); reason != DropWaitingPacketsLimit {
		t.Errorf("the zero queue takes a packet: %s", reason)
	}
}

func TestWaitQueueExpires(t *testing.T) {
	q := NewWaitQueue[int](roomy)
	for i := range 6 {
		q.Add(start.Add(time.Duration(i)*time.Second), waitingFor(fmt.Sprintf("10.0.0.%d", i%3)), 1, i)
	}
	if at, ok := q.NextExpiry(); !ok || !at.Equal(start.Add(roomy.Time)) {
		t.Errorf("next expiry %s", at)
	}
	if got := q.Expire(start.Add(roomy.Time - 1)); got != nil {
		t.Errorf("expired early: %v", got)
	}
	if got := packetsOf(q.Expire(start.Add(roomy.Time + 3*time.Second))); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("expired %v, want 0 to 3", got)
	}
	if got := packetsOf(q.Release(lisp.MustParsePrefix("0.0.0.0/0"))); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("left %v, want 4 and 5", got)
	}
}

// TestWaitQueueAgainstModel does random things to the queue and to a plain slice.
func TestWaitQueueAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	q := NewWaitQueue[int](WaitBounds{PacketsPerDestination: 5, PacketsTotal: 30, OctetsTotal: 1 << 20, Time: 50})
	var model []Waiting[int]
	takeOut := func(match func(Waiting[int]) bool) (out []int) {
		model = slices.DeleteFunc(model, func(w Waiting[int]) bool {
			if match(w) {
				out = append(out, w.Packet)
			}
			return match(w)
		})
		return out
	}
	for i := range 20000 {
		now := start.Add(time.Duration(i))
		to := waitingFor(fmt.Sprintf("10.0.%d.%d", random.IntN(2), random.IntN(6)))
		switch random.IntN(10) {
		case 0:
			prefix := lisp.MustParsePrefix([]string{"10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/16", "10.0.1.3/32"}[random.IntN(4)])
			want := takeOut(func(w Waiting[int]) bool { return prefix.Contains(w.Destination.Instance, w.Destination.EID) })
			if got := packetsOf(q.Release(prefix)); !slices.Equal(got, want) {
				t.Fatalf("step %d: released %v, want %v", i, got, want)
			}
		case 1:
			want := takeOut(func(w Waiting[int]) bool { return now.Sub(w.Since) >= 50 })
			if got := packetsOf(q.Expire(now)); !slices.Equal(got, want) {
				t.Fatalf("step %d: expired %v, want %v", i, got, want)
			}
		default:
			same := 0
			for _, w := range model {
				if w.Destination == to {
					same++
				}
			}
			_, reason := q.Add(now, to, 1, i)
			if full := same >= 5 || len(model) >= 30; full != (reason != DropNone) {
				t.Fatalf("step %d: %s with %d of %d packets", i, reason, same, len(model))
			}
			if reason == DropNone {
				model = append(model, Waiting[int]{Destination: to, Since: now, Octets: 1, Packet: i})
			}
		}
		if q.Packets() != len(model) || q.Octets() != len(model) {
			t.Fatalf("step %d: %d packets, %d octets, want %d", i, q.Packets(), q.Octets(), len(model))
		}
	}
}
