// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"
	"time"
)

// expectRing waits for a ring; the watchdog is generous.
func expectRing(t *testing.T, a *alarm) {
	t.Helper()
	select {
	case <-a.rings:
		a.heard()
	case <-time.After(30 * time.Second):
		t.Fatal("the alarm never rang")
	}
}

func TestAlarmRingsForEachDeadline(t *testing.T) {
	a := newAlarm()
	defer a.stop()
	now := time.Now()
	for name, in := range map[string]time.Duration{"past": -time.Second, "now": 0, "at once": time.Nanosecond, "soon": 5 * time.Millisecond} {
		a.set(now, now.Add(in))
		expectRing(t, a)
		if now = time.Now(); !a.at.IsZero() {
			t.Errorf("%s: set for %v after it was heard", name, a.at)
		}
	}
}

// What rings too early is set again by who hears it.
func TestAlarmIsSetAnewOnlyToRingEarlier(t *testing.T) {
	a := newAlarm()
	defer a.stop()
	now := time.Now()
	for _, one := range []struct{ set, want time.Duration }{
		{10 * time.Hour, 10 * time.Hour},
		{20 * time.Hour, 10 * time.Hour},
		{5 * time.Hour, 5 * time.Hour},
		{time.Microsecond, alarmInterval},
		{2 * time.Hour, alarmInterval},
		{-time.Hour, -time.Hour},
	} {
		if a.set(now, now.Add(one.set)); !a.at.Equal(now.Add(one.want)) {
			t.Errorf("set for %v: rings in %v, want %v", one.set, a.at.Sub(now), one.want)
		}
	}
	expectRing(t, a)
}
