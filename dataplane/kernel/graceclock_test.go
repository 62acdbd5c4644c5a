// SPDX-License-Identifier: Apache-2.0

// These tests retire indexes before and while programs are waited for.

package kernel

import (
	"testing"
	"time"

	"loci/dataplane/kernel/abi"
)

// TestGraceClockWaitsForWhatIsRetiredMeanwhile retires one index before programs are waited for and one while they are: the
// second may be known to a program that the first wait had not to wait for.
func TestGraceClockWaitsForWhatIsRetiredMeanwhile(t *testing.T) {
	c := newGraceClock()
	c.began = time.Now().Add(time.Hour) // so that no real time plays a part
	began, done := make(chan struct{}), make(chan struct{})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.run(stop, func() { began <- struct{}{}; <-done })
	}()
	frozen := func() time.Duration { return time.Duration(c.ahead.Load()) }
	r := newMappingPages(make([]abi.Mapping, 2), make([]uint64, 1), frozen, func() { t.Error("the pages waited themselves") })
	first, _, _ := r.take(noPageKey)
	second, _, _ := r.take(noPageKey)
	if r.isScarce(1) {
		t.Error("scarce while nothing rests")
	}
	r.giveBack(first)
	if !r.isScarce(1) {
		t.Error("not scarce while all that is left rests")
	}
	c.hurry()
	<-began
	r.giveBack(second)
	done <- struct{}{}
	<-began // the second wait: the first is over
	if r.wake(frozen()); r.ready != 0 {
		t.Errorf("ready after half of what there is to wait for: %v", r.ready)
	}
	done <- struct{}{}
	c.hurry()
	<-began
	if r.wake(frozen()); r.ready != 2 {
		t.Errorf("ready after two whole waits since both were retired: %v", r.ready)
	}
	done <- struct{}{}
	<-began
	done <- struct{}{}
	close(stop)
	<-ended
}

func TestRestQueueKeepsItsOrder(t *testing.T) {
	var q restQueue[int]
	next, popped := 0, 0
	for now := range time.Duration(1000) {
		for range now % 4 {
			q.push(next, now+50)
			next++
		}
		for item, ok := q.pop(now); ok; item, ok = q.pop(now) {
			if item != popped {
				t.Fatalf("%d came before %d", item, popped)
			}
			popped++
		}
	}
	if q.len() != next-popped || popped == 0 || len(q.items) > 4*q.len() {
		t.Errorf("%d of %d came out, %d are left, in the memory of %d", popped, next, q.len(), len(q.items))
	}
}
