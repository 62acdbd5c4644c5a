// SPDX-License-Identifier: Apache-2.0

package control

import (
	"testing"
	"time"
)

// TestTimesAreFromTheFirstMessage: lost messages belong to the time that a resolution or a registration took.
func TestTimesAreFromTheFirstMessage(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(time.Second)
	if got := x1.RegistrationTimes(); got.Count == 0 || got.Sum <= 0 || got.Sum > time.Duration(got.Count)*time.Second {
		t.Errorf("registrations took %+v", got)
	}
	if got := ms.ResolutionTimes(); got.Count != 0 {
		t.Errorf("resolutions of a Map-Server: %+v", got)
	}
	x1.miss("10.1.0.5", "10.2.0.9")
	n.run(time.Second)
	quick := x1.ResolutionTimes()
	if quick.Count != 1 || quick.Sum <= 0 || quick.Sum >= time.Second {
		t.Errorf("a resolution took %+v", quick)
	}
	n.lose = func(*testNode, SendPacket) bool { return true }
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	n.run(1500 * time.Millisecond)
	n.lose = nil
	n.run(5 * time.Second)
	if got := x1.ResolutionTimes(); got.Count != 2 || got.Sum-quick.Sum < 1500*time.Millisecond {
		t.Errorf("with a lost Map-Request: %+v after %+v", got, quick)
	}
}
