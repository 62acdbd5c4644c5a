// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/tap"
)

// TestBacklogPlaces takes off what programs counted for packets of several lengths, and never more than there is.
func TestBacklogPlaces(t *testing.T) {
	for octets, places := range map[int]int32{20: 1, backlogOctets - 1: 1, backlogOctets: 2, 65535: 16} {
		u := Backlog{&abi.Backlog{}}
		f := make(tap.Frame, tap.VnetOctets+tap.EthernetOctets+octets)
		f.SetMagic(abi.TAPWaiting)
		binary.BigEndian.PutUint16(f.Ethernet()[12:], unix.ETH_P_IP)
		u.numbers.Places = places + 3
		for _, share := range u.sharesOf(f) {
			u.numbers.Shares[share] = 1
		}
		u.remove(u.entryOf(f))
		if u.numbers.Places != 3 {
			t.Errorf("%d octets: %d places are left, want 3", octets, u.numbers.Places)
		}
		for _, share := range u.sharesOf(f) {
			if got := u.numbers.Shares[share]; got != 0 {
				t.Errorf("%d octets: a share of %d is left", octets, got)
			}
		}
	}
}

func TestSharesAreThoseOfTheABI(t *testing.T) {
	kerneltest.ExpectConstants(t, map[string]uint64{"LISP_BACKLOG_SHARES": backlogShares, "LISP_BACKLOG_OCTETS": backlogOctets})
}

// TestOverduePackets: what is on its way each time somebody looks is mostly something else each time. Only what was
// there at many looks, for long, is lost.
func TestOverduePackets(t *testing.T) {
	began := time.Now()
	for name, c := range map[string]struct {
		every time.Duration
		came  int // at that look nothing is on its way
		want  int // the look at which something is lost; 0: never
	}{
		"seldom":              {every: lostAfter, want: lostLooks},
		"often":               {every: lostAfter / (4 * lostLooks), want: 4*lostLooks + 1},
		"it came":             {every: lostAfter, came: lostLooks - 1},
		"it came for a while": {every: lostAfter, came: 3, want: 3 + lostLooks},
	} {
		var o overdue
		lost := 0
		for look := 1; lost == 0 && look <= 4*lostLooks+1; look++ {
			if o.isLost(began.Add(time.Duration(look)*c.every), look != c.came) {
				lost = look
			}
			if c.want == 0 && look == 2*c.came {
				break
			}
		}
		if lost != c.want {
			t.Errorf("%s: lost at look %d, want %d", name, lost, c.want)
		}
	}
}
