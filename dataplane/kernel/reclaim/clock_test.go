// SPDX-License-Identifier: Apache-2.0

package reclaim

import (
	"testing"
	"time"
)

// TestClockWaitsForWhatIsRetiredMeanwhile retires something while programs are waited for: that wait does not count for it.
func TestClockWaitsForWhatIsRetiredMeanwhile(t *testing.T) {
	c := NewClock()
	c.began = time.Now().Add(time.Hour) // so that no real time plays a part
	began, done := make(chan struct{}), make(chan struct{})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(stop, func() { began <- struct{}{}; <-done })
	}()
	frozen := func() time.Duration { return time.Duration(c.ahead.Load()) }
	r := NewIndexes(2, frozen, func() { t.Error("the indexes waited themselves") })
	first, _, _ := r.Take()
	second, _, _ := r.Take()
	r.GiveBack(first)
	c.Hurry()
	<-began
	r.GiveBack(second)
	done <- struct{}{}
	<-began // the second wait: the first is over
	if r.wake(frozen()); len(r.ready) != 0 {
		t.Errorf("ready after half of what there is to wait for: %v", r.ready)
	}
	done <- struct{}{}
	c.Hurry()
	<-began
	if r.wake(frozen()); len(r.ready) != 2 {
		t.Errorf("ready after two whole waits since both were retired: %v", r.ready)
	}
	done <- struct{}{}
	<-began
	done <- struct{}{}
	close(stop)
	<-ended
}
