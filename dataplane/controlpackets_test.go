// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"testing"
	"time"
)

// TestControlMeter: so many a second, none too long, and as before after a second, also when the clock was set back.
func TestControlMeter(t *testing.T) {
	var m ControlMeter
	now := time.Unix(1_700_000_000, 0)
	if m.Allow(now, MaxControlOctets+1) || !m.Allow(now, MaxControlOctets) {
		t.Error("the length is not bounded")
	}
	for _, at := range []time.Time{now.Add(time.Second), now.Add(2 * time.Second), now.Add(-time.Hour)} {
		allowed := 0
		for i := range 2 * MaxControlPackets {
			if m.Allow(at.Add(time.Duration(i)*time.Microsecond), 100) {
				allowed++
			}
		}
		if allowed != MaxControlPackets {
			t.Errorf("%d in a second, want %d", allowed, MaxControlPackets)
		}
	}
}
