// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

// randomPrefix makes few, overlapping prefixes of every kind in two Instance-IDs.
func randomPrefix(r *rand.Rand) lisp.Prefix {
	instance := lisp.InstanceID(r.IntN(2))
	var e lisp.EID
	switch r.IntN(4) {
	case 0:
		e = lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)) << 6}))
	case 1:
		e = lisp.EIDFromAddr(netip.AddrFrom16([16]byte{0x20, 1, byte(r.IntN(4)), byte(r.IntN(4)) << 6}))
	case 2:
		e = lisp.EIDFromMAC([6]byte{2, byte(r.IntN(4)), byte(r.IntN(4)) << 6})
	default:
		e, _ = lisp.EIDFromName("ietf.lisp.nexus"[:r.IntN(16)])
		p, _ := lisp.PrefixFrom(instance, e, 8*r.IntN(e.BitLen()/8+1))
		return p
	}
	p, _ := lisp.PrefixFrom(instance, e, r.IntN(min(e.BitLen(), 32)+1))
	return p
}

// TestPrefixTable compares the table with a list that is searched from end to end.
func TestPrefixTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table table.Prefixes[int]
	model := make(map[lisp.Prefix]int)
	for step := range 3000 {
		p := randomPrefix(r)
		if r.IntN(3) == 0 {
			table.Remove(p)
			delete(model, p)
		} else {
			table.Insert(p, step)
			model[p] = step
		}
		q := randomPrefix(r)
		compareTables(t, &table, model, q)
	}
	var all []lisp.Prefix
	for p, v := range table.All() {
		all = append(all, p)
		if model[p] != v {
			t.Errorf("%s is %d, want %d", p, v, model[p])
		}
	}
	if len(all) != len(model) || !slices.IsSortedFunc(all, lisp.Prefix.Compare) {
		t.Errorf("%d of %d, sorted: %v", len(all), len(model), slices.IsSortedFunc(all, lisp.Prefix.Compare))
	}
}

func compareTables(t *testing.T, table *table.Prefixes[int], model map[lisp.Prefix]int, q lisp.Prefix) {
	t.Helper()
	var best lisp.Prefix
	found, overlaps := false, false
	var within []lisp.Prefix
	for p := range model {
		if p.Covers(q) && (!found || p.Bits() > best.Bits()) {
			best, found = p, true
		}
		if q.Covers(p) {
			within = append(within, p)
		}
		overlaps = overlaps || p.Overlaps(q)
	}
	slices.SortFunc(within, lisp.Prefix.Compare)
	if match, v, ok := table.Longest(q); ok != found || match != best || v != model[best] {
		t.Fatalf("longest of %s is %s %v, want %s %v", q, match, ok, best, found)
	}
	var subtree []lisp.Prefix
	for p := range table.Subtree(q) {
		subtree = append(subtree, p)
	}
	if !slices.Equal(subtree, within) {
		t.Fatalf("subtree of %s is %v, want %v", q, subtree, within)
	}
	compareOverlapping(t, table, model, q)
	if table.Overlaps(q) != overlaps || table.Size != len(model) {
		t.Fatalf("overlaps of %s: want %v; size %d, want %d", q, overlaps, table.Size, len(model))
	}
}

// compareOverlapping lists what overlaps with q, and everything, in pages of three.
func compareOverlapping(t *testing.T, table *table.Prefixes[int], model map[lisp.Prefix]int, q lisp.Prefix) {
	t.Helper()
	for _, within := range []lisp.Prefix{q, {}} {
		var want, got []lisp.Prefix
		for p := range model {
			if within.IsZero() || p.Overlaps(within) {
				want = append(want, p)
			}
		}
		slices.SortFunc(want, lisp.Prefix.Compare)
		for after, more := (lisp.Prefix{}), true; more; {
			more = false
			for p, v := range table.Overlapping(within, after) {
				if more = len(got)%3 == 2; v != model[p] {
					t.Fatalf("%s is %d, want %d", p, v, model[p])
				}
				if got, after = append(got, p), p; more {
					break
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("what overlaps with %s: %v, want %v", within, got, want)
		}
	}
}

// Shows RFC 9301 s.8.4 (1).
func TestLeastSpecificHole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var known table.Prefixes[int]
		for range r.IntN(20) {
			known.Insert(randomPrefix(r), 0)
		}
		asked := randomPrefix(r)
		asked = lisp.HostPrefix(asked.Instance(), asked.EID())
		if known.Overlaps(asked) {
			continue
		}
		hole := table.LeastSpecificHole(asked, 0, known.Overlaps)
		if !hole.Covers(asked) || known.Overlaps(hole) {
			t.Fatalf("hole %s around %s", hole, asked)
		}
		step := 1
		if hole.Kind() == lisp.EIDName {
			step = 8
		}
		if hole.Bits() == 0 {
			continue
		}
		if wider, err := lisp.PrefixFrom(hole.Instance(), asked.EID(), hole.Bits()-step); err == nil && !known.Overlaps(wider) {
			t.Fatalf("hole %s around %s, but %s is one too", hole, asked, wider)
		}
	}
}

func TestDeadlines(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var d timing.Deadlines
	model := make(map[uint32]timing.Instant)
	for now := timing.Instant(0); now < 5000; now++ {
		id := uint32(r.IntN(200))
		switch r.IntN(4) {
		case 0:
			d.Remove(id)
			delete(model, id)
		default:
			at := now + timing.Instant(r.IntN(300))
			d.Set(id, at)
			model[id] = at
		}
		earliest := timing.Never
		for _, at := range model {
			earliest = min(earliest, at)
		}
		if d.Next() != earliest {
			t.Fatalf("next is %d, want %d", d.Next(), earliest)
		}
		for {
			id, ok := d.Due(now)
			if !ok {
				break
			}
			if model[id] > now {
				t.Fatalf("%d was due at %d, it is %d", id, model[id], now)
			}
			delete(model, id)
		}
		if d.Heap.Len() != len(model) {
			t.Fatalf("%d deadlines, want %d", d.Heap.Len(), len(model))
		}
	}
}

func TestBucket(t *testing.T) {
	rate := Rate{PerSecond: 10, Burst: 5}
	var b timing.Bucket
	taken := 0
	for now := timing.Instant(time.Hour); now < timing.Instant(time.Hour+10*time.Second); now += timing.Instant(time.Millisecond) {
		if b.Take(now, rate) {
			taken++
		}
	}
	if taken < 104 || taken > 106 {
		t.Errorf("%d tokens in ten seconds, want 5 and 10 a second", taken)
	}
}

func TestBucketsStayBoundedAndStrict(t *testing.T) {
	rate := Rate{PerSecond: 1, Burst: 2}
	var b timing.Buckets[int]
	taken := make(map[int]int)
	const seconds = 20
	key := 1000
	for now := timing.Instant(0); now < timing.Instant(seconds*time.Second); now += timing.Instant(5 * time.Millisecond) {
		for _, k := range []int{1, 2, key} { // two that insist, and a flood of others
			if b.Take(now, k, rate, 100) {
				taken[k]++
			}
		}
		key++
		if len(b.Current)+len(b.Previous) > 100 {
			t.Fatalf("%d buckets", len(b.Current)+len(b.Previous))
		}
	}
	for _, k := range []int{1, 2} {
		if taken[k] > seconds+2 || taken[k] < seconds-2 {
			t.Errorf("key %d took %d tokens in %d s", k, taken[k], seconds)
		}
	}
}

func TestCounterList(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range CounterList() {
		if c.Name == "_total" || c.Name == "refused__total" || c.Description == "" || names[c.Name] {
			t.Errorf("counter %q: %q", c.Name, c.Description)
		}
		if strings.ContainsAny(c.Name, "- ") {
			t.Errorf("counter name %q", c.Name)
		}
		names[c.Name] = true
	}
	for _, name := range []string{"map_request_received_total", "refused_replay_total", "refused_unknown_afi_total"} {
		if !names[name] {
			t.Errorf("no counter %s", name)
		}
	}
}

// TestEntryThatOnlyTheDataPlaneHas is what is left of a removal that was lost.
func TestEntryThatOnlyTheDataPlaneHas(t *testing.T) {
	_, x := loneITR(t, Limits{})
	x.miss("10.1.0.1", "10.2.1.1")
	answerAll(x, positive("10.2.0.0/16", 60))
	x.use("10.2.0.0/16")
	x.use("10.3.0.0/16")
	if reason, removed := x.removed[lisp.MustParsePrefix("10.3.0.0/16")]; !removed || reason != RemoveUnknown {
		t.Errorf("removed: %v", x.removed)
	}
	if _, removed := x.removed[lisp.MustParsePrefix("10.2.0.0/16")]; removed {
		t.Error("an entry that both have was removed")
	}
}
