// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/lisp"
)

// Events of packets that wait do not wake the reader, so it may read them long after: the pending-packet queue has told of them.
func TestOldMissesAreNotToldAgain(t *testing.T) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		age  time.Duration
		told int
	}{
		{"new", 0, 1},
		{"older than the interval between two events", MissInterval + time.Minute, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewMisses(new(uint64), func(uint32) string { return "site0" }, func(lisp.InstanceID) bool { return false }, nil)
			event := abi.Event{
				Kind: uint32(abi.EventMiss), Family: 4, TimeNs: uint64(now.Nano() - int64(c.age)),
				Source: [16]uint8{10, 1, 0, 1}, Destination: [16]uint8{10, 2, 0, 1},
			}
			sample := unsafe.Slice((*byte)(unsafe.Pointer(&event)), unsafe.Sizeof(event))
			if err := m.take(sample); err != nil {
				t.Fatal(err)
			}
			if len(m.events) != c.told {
				t.Errorf("%d events told, want %d", len(m.events), c.told)
			}
		})
	}
}

// Events for which the channel has no room are tried now and then, not with each packet that is read: they may be thousands.
func TestEventsWithoutRoomAreTriedNowAndThen(t *testing.T) {
	var lost uint64
	m := NewMisses(&lost, func(uint32) string { return "site0" }, func(lisp.InstanceID) bool { return false }, nil)
	r := NewQueue(Parts{Misses: m})
	now := time.Now()
	to := forward.Destination{EID: lisp.MustParsePrefix("10.2.0.1/32").EID()}
	r.waiting.AddFrom(now, to.EID, to, 1, nil)
	r.unraised[to] = missedPacket{destination: to}
	for len(m.events) < cap(m.events) {
		m.events <- nil
	}
	for i, c := range []struct {
		later time.Duration
		lost  uint64
	}{{0, 1}, {time.Millisecond, 1}, {raiseAgainTime - 1, 1}, {raiseAgainTime, 2}} {
		if r.raiseAgain(now.Add(c.later)); lost != c.lost {
			t.Errorf("step %d: %d events found no room, want %d", i, lost, c.lost)
		}
	}
	<-m.events
	if r.raiseAgain(now.Add(2 * raiseAgainTime)); len(r.unraised) > 0 || lost != 2 {
		t.Errorf("%d events are still to be raised, %d found no room", len(r.unraised), lost)
	}
}

// TestRestBeginsWithAsking has the queue busy for long before it asks for a frame that is there: that is no rest, and the frame behind it
// is taken as well before anything is told. That a machine sleeps in between is no fault: then it is asked again.
func TestRestBeginsWithAsking(t *testing.T) {
	asTAP, far := kerneltest.PairedTAP(t)
	r := NewQueue(Parts{TAP: asTAP})
	r.working.Lock()
	defer r.working.Unlock()
	kerneltest.Eventually(t, "two frames are taken together", func() bool {
		for range 2 {
			_, err := far.Write(make([]byte, tap.VnetOctets+tap.EthernetOctets))
			must(t, err)
		}
		must(t, r.takeFrames(time.Now().Add(-time.Hour)))
		if asTAP.IsEmpty() {
			return true
		}
		_, err := asTAP.TryRead(r.buffer)
		must(t, err)
		return false
	})
}
