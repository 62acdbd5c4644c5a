// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"net/netip"
	"testing"
	"time"
)

// TestControlMeter: so many a second, so many of one address, none too long, and as before after a second, also when the
// clock was set back.
func TestControlMeter(t *testing.T) {
	var m ControlMeter
	now := time.Unix(1_700_000_000, 0)
	address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }
	if m.Allow(now, address(0), MaxControlOctets+1) || !m.Allow(now, address(0), MaxControlOctets) {
		t.Error("the length is not bounded")
	}
	for _, at := range []time.Time{now.Add(time.Second), now.Add(2 * time.Second), now.Add(-time.Hour)} {
		allowed := map[netip.Addr]int{}
		for from := range 5 {
			for range MaxControlPackets {
				if m.Allow(at, address(from), 100) {
					allowed[address(from)]++
				}
			}
		}
		for from := range 5 {
			want := MaxControlPacketsFrom
			if from == 4 { // the others had all
				want = 0
			}
			if got := allowed[address(from)]; got != want {
				t.Errorf("%d in a second from the address %d, want %d", got, from, want)
			}
		}
	}
}
