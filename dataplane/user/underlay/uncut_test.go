// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestUncutTrainIsTheLast: once a train was not cut, datagrams are sent alone; other errors change nothing.
func TestUncutTrainIsTheLast(t *testing.T) {
	told := 0
	s := NewSender(&Pool{}, func(Refused) { told++ })
	s.pool.cuts.Store(true)
	s.fail(Refused{Err: unix.EIO})
	s.fail(Refused{Err: unix.EMSGSIZE, Segment: 100})
	if !s.Cuts() {
		t.Error("no train is sent after other errors")
	}
	s.fail(Refused{Err: unix.EIO, Segment: 100})
	if s.Cuts() {
		t.Error("trains are sent after one was not cut")
	}
	if told != 3 {
		t.Errorf("%d refusals were told, want 3", told)
	}
}
