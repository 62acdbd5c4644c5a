// SPDX-License-Identifier: Apache-2.0

// Tables become small in the background. The test needs root.

package kernel

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// TestTableShrinksInTime has a table that is larger than it need be, and that is not edited any more: it stays as
// it is for half a minute, and while something else changes.
func TestTableShrinksInTime(t *testing.T) {
	t.Parallel()
	a := newLinks(t).open(t, 0, Options{})
	octets := func() uint64 {
		state, _ := a.entries.State()
		return state.Octets
	}
	small := octets()
	for i := uint32(0); octets() == small; i++ {
		var address [4]byte
		binary.BigEndian.PutUint32(address[:], 11<<24+i<<8)
		host := lisp.HostPrefix(0, lisp.EIDFromAddr(netip.AddrFrom4(address)))
		a.apply(t, dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
			Mapping: lisp.Mapping{Prefix: host, Action: lisp.ActionDrop},
		}})
	}
	large, grew := octets(), time.Now()
	a.apply(t, dataplane.Flush{MapCache: true})
	a.shrinkInTime()
	if octets() != large {
		t.Errorf("%d octets right after it grew to %d", octets(), large)
	}
	const kept = 31 * time.Second // a little longer than a table that grew stays as it is
	time.Sleep(kept - 5*time.Second)
	a.changing.Lock() // as a change of interfaces does
	time.Sleep(time.Until(grew.Add(kept)))
	a.shrinkInTime()
	if octets() != large {
		t.Error("roots are stored while somebody else changes something")
	}
	a.changing.Unlock()
	eventually(t, "the table is small", func() bool { return octets() < large })
}
