// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestOneAddressOnTwoLinks: the link that is up has it, and of two that are up the one with the better default route.
// When another one has it, a mobile node's RLOC is down for a moment: what was known of its network is asked anew.
func TestOneAddressOnTwoLinks(t *testing.T) {
	rloc := netip.MustParseAddr("192.168.1.2")
	now := time.Now()
	names := []string{"wlan0", "wwan0"}
	states, memory := newRLOCStates(), NewMemory()
	for i, c := range []struct {
		up     [2]bool
		metric [2]uint64
		want   string
		moved  bool
	}{
		{[2]bool{true, true}, [2]uint64{101, 501}, "wlan0", false},
		{[2]bool{true, true}, [2]uint64{601, 501}, "wwan0", true},
		{[2]bool{true, true}, [2]uint64{601, 0}, "wlan0", true},
		{[2]bool{false, true}, [2]uint64{0, 501}, "wwan0", true},
		{[2]bool{false, true}, [2]uint64{0, 0}, "wwan0", false},
		{[2]bool{false, false}, [2]uint64{0, 0}, "wlan0", true},
	} {
		var view View
		for l, name := range names {
			view.Links = append(view.Links, Link{Name: name, Up: c.up[l], Addresses: hostAddrs("192.168.1.2"), Defaults: DefaultRoutes{IPv4: c.metric[l]}})
		}
		if got := view.InterfaceOf(rloc); got != c.want {
			t.Errorf("%d: %s has it, want %s", i, got, c.want)
		}
		host := memory.Recall(now, view, names)
		for _, name := range names {
			if got := host.AddressesOf(name, ""); slices.Contains(got, rloc) != (name == c.want) {
				t.Errorf("%d: %s counts with %v", i, name, got)
			}
		}
		own := pathsBy("wlan0", rloc)
		own.Core, own.Mobile = names, true
		now = now.Add(time.Minute)
		_, again := states.Judge(view, own, now)
		if state, _ := states.of(rloc); i > 0 && again.Equal(now) != c.moved || c.moved && state.Up {
			t.Errorf("%d: %+v, again at %s", i, state, again)
		}
		states.Judge(view, own, now.Add(time.Second))
	}
}
