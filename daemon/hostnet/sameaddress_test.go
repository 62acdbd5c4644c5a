// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
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

// TestCarrierLostBetweenLooks: a mobile node whose link was gone for less than a look takes is in another network, also
// when it has the same address there.
func TestCarrierLostBetweenLooks(t *testing.T) {
	network := testnet.ForTest(t)
	node, err := network.Namespace("mn")
	must(t, err)
	access, err := network.Namespace("ap")
	must(t, err)
	must(t, testnet.Connect(
		testnet.End{Namespace: node, Name: "wlan0",
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.2/24")}},
		testnet.End{Namespace: access, Name: "inside"}))
	rloc := netip.MustParseAddr("192.168.1.2")
	own := pathsBy("wlan0", rloc)
	for _, mobile := range []bool{true, false} {
		states, now := newRLOCStates(), time.Now()
		own.Mobile = mobile
		look := func(want bool) {
			t.Helper()
			var view View
			must(t, node.Do(func() (err error) { view, err = Look(); return err }))
			now = now.Add(time.Minute)
			states.Judge(view, own, now)
			if state, _ := states.of(rloc); state.Up != want {
				t.Errorf("mobile %v: %+v, want up %v", mobile, state, want)
			}
		}
		look(true)
		must(t, access.SetUp("inside", false))
		must(t, access.SetUp("inside", true))
		awaitCarrier(t, node, "wlan0")
		look(!mobile)
		look(true)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitCarrier waits until an interface is up and has a carrier.
func awaitCarrier(t *testing.T, ns *testnet.Namespace, link string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		found, err := ns.Netlink().LinkByName(link)
		must(t, err)
		if found.Attrs().OperState == netlink.OperUp {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no carrier")
		}
	}
}
