// SPDX-License-Identifier: Apache-2.0

package timing

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	rate := Rate{PerSecond: 10, Burst: 5}
	var b Bucket
	taken := 0
	for now := Instant(time.Hour); now < Instant(time.Hour+10*time.Second); now += Instant(time.Millisecond) {
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
	var b Buckets[int]
	taken := make(map[int]int)
	const seconds = 20
	key := 1000
	for now := Instant(0); now < Instant(seconds*time.Second); now += Instant(5 * time.Millisecond) {
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
