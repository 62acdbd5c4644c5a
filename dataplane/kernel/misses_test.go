// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"loci/lisp"
)

// Events of packets that wait wake nobody, so they may be read long after: the waiting room has told of them.
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
		{"older than the interval between two events", missInterval + time.Minute, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMisses(new(uint64), func(uint32) string { return "site0" }, func(lisp.InstanceID) bool { return false })
			event := lisptcLispEvent{
				Kind: uint32(lisptcLispEventKindLISP_EVENT_MISS), Family: 4, TimeNs: uint64(now.Nano() - int64(c.age)),
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
