// SPDX-License-Identifier: Apache-2.0

// These tests have indexes rest.

package reclaim

import (
	"testing"
	"time"
)

func TestRecyclerLetsIndexesRest(t *testing.T) {
	clock, waits := time.Duration(0), 0
	r := NewIndexes(2, func() time.Duration { return clock }, func() { waits++ })
	a, reused, ok := r.Take()
	if a != 0 || reused || !ok {
		t.Fatalf("first index: %d, reused %v, ok %v", a, reused, ok)
	}
	r.GiveBack(a)
	if b, _, _ := r.Take(); b != 1 {
		t.Errorf("an index that rests was handed out although a fresh one was left")
	}
	if again, reused, ok := r.Take(); again != 0 || !reused || !ok || waits != 1 {
		t.Errorf("last index: %d, reused %v, ok %v after %d waits, want 0, true, true after 1", again, reused, ok, waits)
	}
	if _, _, ok := r.Take(); ok {
		t.Error("an index was handed out twice")
	}
	r.GiveBack(1)
	clock += RestTime
	if index, _, ok := r.Take(); index != 1 || !ok || waits != 1 {
		t.Error("an index that has rested was not handed out without waiting")
	}
	if r.Available() != 0 || r.InUse() != 2 {
		t.Errorf("available %d, in use %d, want 0 and 2", r.Available(), r.InUse())
	}
}

func TestRecyclerAdopts(t *testing.T) {
	r := NewIndexes(8, func() time.Duration { return 0 }, func() {})
	r.Adopt(func(index uint32) bool { return index == 1 || index == 3 })
	seen := map[uint32]bool{}
	for {
		index, _, ok := r.Take()
		if !ok {
			break
		}
		seen[index] = true
	}
	if len(seen) != 6 || seen[1] || seen[3] {
		t.Errorf("handed out %v, want all but 1 and 3", seen)
	}
}

func TestRestQueueKeepsItsOrder(t *testing.T) {
	var q Queue[int]
	next, popped := 0, 0
	for now := range time.Duration(1000) {
		for range now % 4 {
			q.Push(next, now+50)
			next++
		}
		for item, ok := q.Pop(now); ok; item, ok = q.Pop(now) {
			if item != popped {
				t.Fatalf("%d came before %d", item, popped)
			}
			popped++
		}
	}
	if q.Len() != next-popped || popped == 0 || len(q.items) > 4*q.Len() {
		t.Errorf("%d of %d came out, %d are left, in the memory of %d", popped, next, q.Len(), len(q.items))
	}
}
