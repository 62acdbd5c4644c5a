// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"loci/lisp"
)

// setOf makes a locator-set of "priority/weight" texts; RLOCs are 192.0.2.1 and up.
func setOf(t testing.TB, texts ...string) lisp.LocatorSet {
	t.Helper()
	var locators []lisp.Locator
	for i, text := range texts {
		l := lisp.Locator{RLOC: rlocOf(i), Reachable: true}
		if _, err := fmt.Sscanf(text, "%d/%d", &l.Priority, &l.Weight); err != nil {
			t.Fatal(err)
		}
		locators = append(locators, l)
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func rlocOf(i int) lisp.RLOC {
	return lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}))
}

func counts(v BucketVector) map[int]int {
	n := map[int]int{}
	for _, b := range v {
		n[int(b)]++
	}
	return n
}

func upExcept(down ...int) Rank {
	return func(l *lisp.Locator) (int, bool) {
		return 0, !slices.ContainsFunc(down, func(i int) bool { return l.RLOC == rlocOf(i) })
	}
}

// Of usable locators the best rank decides, then the priority, then the weight.
// Shows RFC 9300 s.10 (3).
func TestRankComesBeforePriority(t *testing.T) {
	const down = -1
	for _, c := range []struct {
		name     string
		locators []string
		ranks    []int
		want     map[int]int
	}{
		{"the better rank has the worse priority", []string{"1/1", "2/1"}, []int{1, 0}, map[int]int{1: 128}},
		{"the better rank has no weight", []string{"1/1", "1/0"}, []int{1, 0}, map[int]int{1: 128}},
		{"one rank", []string{"1/1", "1/3", "2/9"}, []int{2, 2, 2}, map[int]int{0: 32, 1: 96}},
		{"down has no rank", []string{"1/1", "2/1"}, []int{down, 2}, map[int]int{1: 128}},
		{"all down", []string{"1/1", "2/1"}, []int{down, down}, map[int]int{NoBucket: 128}},
		{"a locator with priority 255 counts for nothing", []string{"255/1", "1/1"}, []int{0, 2}, map[int]int{1: 128}},
		{"three ranks", []string{"1/1", "1/1", "1/1"}, []int{2, 0, 1}, map[int]int{1: 128}},
	} {
		rank := func(l *lisp.Locator) (int, bool) {
			for i, its := range c.ranks {
				if l.RLOC == rlocOf(i) {
					return its, its != down
				}
			}
			return 0, false
		}
		if got := counts(Buckets(setOf(t, c.locators...), rank)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// Shows RFC 9300 s.9 (1), RFC 9301 s.5.4 (6).
func TestBuckets(t *testing.T) {
	cases := []struct {
		locators []string
		down     []int
		want     map[int]int
	}{
		{[]string{"1/100"}, nil, map[int]int{0: 128}},
		{[]string{"1/50", "1/50"}, nil, map[int]int{0: 64, 1: 64}},
		{[]string{"1/10", "1/15"}, nil, map[int]int{0: 51, 1: 77}}, // 51.2 and 76.8
		{[]string{"1/25", "1/75"}, nil, map[int]int{0: 32, 1: 96}},
		{[]string{"1/0", "1/0"}, nil, map[int]int{0: 64, 1: 64}},
		{[]string{"1/0", "1/0", "1/0"}, nil, map[int]int{0: 43, 1: 42, 2: 43}},
		{[]string{"1/0", "1/7"}, nil, map[int]int{1: 128}},
		{[]string{"1/255", "1/255", "1/2"}, nil, map[int]int{0: 64, 1: 64}},
		{[]string{"2/100", "1/1"}, nil, map[int]int{1: 128}},
		{[]string{"2/100", "1/1"}, []int{1}, map[int]int{0: 128}},
		{[]string{"1/0", "1/7"}, []int{1}, map[int]int{0: 128}}, // rather a weight of 0 than a worse priority
		{[]string{"1/1", "1/1", "2/9"}, []int{0}, map[int]int{1: 128}},
		{[]string{"1/10", "1/20", "1/30"}, []int{0}, map[int]int{1: 51, 2: 77}},
		{[]string{"255/100", "1/1"}, []int{1}, map[int]int{NoBucket: 128}},
		{[]string{"255/100"}, nil, map[int]int{NoBucket: 128}},
		{nil, nil, map[int]int{NoBucket: 128}},
	}
	for _, c := range cases {
		got := counts(Buckets(setOf(t, c.locators...), upExcept(c.down...)))
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v without %v: %v, want %v", c.locators, c.down, got, c.want)
		}
	}
}

// Shows RFC 9300 s.9 (6).
func TestBucketsOfUnreachableLocator(t *testing.T) {
	set := setOf(t, "1/50", "1/50")
	set[0].Reachable = false
	if got := counts(Buckets(set, nil)); got[1] != BucketCount {
		t.Errorf("buckets %v, want all for the reachable one", got)
	}
}

// TestBucketsMoveOneLocatorsFlows takes locators away one after the other, in every
// order, and demands that only the buckets of the lost one move, and that the
// remaining shares stay fair.
func TestBucketsMoveOneLocatorsFlows(t *testing.T) {
	texts := []string{"1/10", "1/20", "1/30", "1/40", "1/28"}
	set := setOf(t, texts...)
	var lose func(down []int, before BucketVector)
	lose = func(down []int, before BucketVector) {
		for lost := range set {
			if slices.Contains(down, lost) || len(down)+1 == len(set) {
				continue
			}
			now := append(append([]int{}, down...), lost)
			after := Buckets(set, upExcept(now...))
			for i := range after {
				if int(before[i]) != lost && after[i] != before[i] {
					t.Fatalf("without %v, then %d: bucket %d moved from %d to %d", down, lost, i, before[i], after[i])
				}
			}
			expectShares(t, set, now, after)
			lose(now, after)
		}
	}
	lose(nil, Buckets(set, nil))
}

// expectShares allows each level of redistribution a rounding error.
func expectShares(t *testing.T, set lisp.LocatorSet, down []int, v BucketVector) {
	t.Helper()
	total := 0
	for i, l := range set {
		if !slices.Contains(down, i) {
			total += int(l.Weight)
		}
	}
	got := counts(v)
	for i, l := range set {
		want := BucketCount * int(l.Weight) / total
		if slices.Contains(down, i) {
			want = 0
		}
		if off := max(got[i]-want, want-got[i]); off > 8 {
			t.Errorf("without %v: locator %d has %d buckets, want about %d", down, i, got[i], want)
		}
	}
}

func TestBucketsOfManyLocators(t *testing.T) {
	var texts []string
	for range lisp.MaxLocators {
		texts = append(texts, "1/1")
	}
	set := setOf(t, texts...)
	for down := range lisp.MaxLocators {
		lost := make([]int, down)
		for i := range lost {
			lost[i] = i
		}
		got := counts(Buckets(set, upExcept(lost...)))
		left := lisp.MaxLocators - down
		for i := down; i < len(set); i++ {
			if got[i] < BucketCount/left/3 {
				t.Errorf("%d locators left: %v", left, got)
				break
			}
		}
	}
}

func TestSelectLocator(t *testing.T) {
	set := setOf(t, "1/50", "1/50")
	buckets := Buckets(set, nil)
	first, ok := SelectLocator(set, &buckets, 0)
	second, also := SelectLocator(set, &buckets, 127<<14)
	if !ok || !also || first.RLOC != rlocOf(0) || second.RLOC != rlocOf(1) {
		t.Errorf("bucket 0 gives %s, bucket 127 %s", first, second)
	}
	none := Buckets(nil, nil)
	if _, ok := SelectLocator(nil, &none, 0); ok {
		t.Error("a locator was selected from an empty set")
	}
}
