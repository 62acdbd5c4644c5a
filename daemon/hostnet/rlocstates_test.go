// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/lisp"
)

// oneRLOC is a host with 192.0.2.1 at core0, whose gateway is 192.0.2.254.
func oneRLOC(change func(*Link)) View {
	link := Link{Name: "core0", Up: true, Addresses: hostAddrs("192.0.2.1"), Gateways: hostAddrs("192.0.2.254")}
	change(&link)
	return View{Links: []Link{{Name: "lo", Up: true, Loopback: true, Addresses: hostAddrs("198.51.100.1")}, link}}
}

// pathsBy are a core interface and own RLOCs of one family, each of which will do.
func pathsBy(core string, rlocs ...netip.Addr) OwnPaths {
	p := OwnPaths{RLOCs: rlocs, Core: []string{core}}
	var choice []lisp.RLOC
	for _, rloc := range rlocs {
		choice = append(choice, lisp.RLOCFromAddr(rloc))
	}
	p.Choices = [][]lisp.RLOC{choice}
	return p
}

func TestOwnRLOCReasons(t *testing.T) {
	core0, loopback := "192.0.2.1", "198.51.100.1"
	for _, c := range []struct {
		name, rloc string
		change     func(*Link)
		want       RLOCReason
	}{
		{"as it should be", core0, func(*Link) {}, rlocUsable},
		{"no carrier", core0, func(l *Link) { l.Up = false }, rlocLinkDown},
		{"no address", core0, func(l *Link) { l.Addresses = nil }, rlocAddressGone},
		{"a silent gateway", core0, func(l *Link) { l.Silent = l.Gateways }, rlocGatewaySilent},
		{"one of two gateways", core0, func(l *Link) { l.Silent, l.Gateways = l.Gateways, hostAddrs("192.0.2.254", "192.0.2.253") }, rlocUsable},
		{"a silent gateway of the other family", core0, func(l *Link) { l.Gateways = hostAddrs("2001:db8::1"); l.Silent = l.Gateways }, rlocUsable},
		{"on lo", loopback, func(*Link) {}, rlocUsable},
		{"on lo, the core's link is down", loopback, func(l *Link) { l.Up = false }, rlocLinkDown},
		{"where no programs are", core0, func(l *Link) { l.Name = "core9" }, rlocLinkDown},
		{"where no programs are, which is down", core0, func(l *Link) { l.Name, l.Up = "core9", false }, rlocLinkDown},
	} {
		s := newRLOCStates()
		rloc := netip.MustParseAddr(c.rloc)
		changes, _ := s.Judge(oneRLOC(c.change), pathsBy("core0", rloc), time.Now())
		got, _ := s.of(rloc)
		if got.Reason != c.want || got.Up != (c.want == rlocUsable) || len(changes) > 0 == got.Up {
			t.Errorf("%s: %+v, %d changes, want %s", c.name, got, len(changes), c.want)
		}
	}
}

// An RLOC need not be at a core interface, as long as there is one that packets to it may come in by.
func TestRLOCBesideTheCore(t *testing.T) {
	rloc := netip.MustParseAddr("203.0.113.1")
	view := oneRLOC(func(*Link) {})
	view.Links = append(view.Links, Link{Name: "bridge0", Up: true, Addresses: hostAddrs("203.0.113.1"), Gateways: hostAddrs("203.0.113.254"), Silent: hostAddrs("203.0.113.254")})
	for core, want := range map[string]RLOCReason{"core0": rlocUsable, "core1": rlocLinkDown} {
		s := newRLOCStates()
		s.Judge(view, pathsBy(core, rloc), time.Now())
		if got, _ := s.of(rloc); got.Reason != want {
			t.Errorf("core interface %s: %s, want %s", core, got.Reason, want)
		}
	}
}

// TestSilentGatewayStaysSilent until it answers: the kernel forgets it in between.
func TestSilentGatewayStaysSilent(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	rloc := netip.MustParseAddr("192.0.2.1")
	up := func(change func(*Link)) bool {
		now = now.Add(2 * time.Second)
		s.Judge(oneRLOC(change), pathsBy("core0", rloc), now)
		state, _ := s.of(rloc)
		return state.Up
	}
	if !up(func(*Link) {}) || up(func(l *Link) { l.Silent = l.Gateways }) || up(func(*Link) {}) {
		t.Error("a silent gateway is forgotten")
	}
	if !up(func(l *Link) { l.Answering = l.Gateways }) {
		t.Error("a gateway that answers again")
	}
}

// TestHeldRLOCSaysSo, until the other one falls.
func TestHeldRLOCSaysSo(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.1")
	judge := func(oneUp, otherUp bool) RLOCState {
		view := oneRLOC(func(l *Link) { l.Up = oneUp })
		view.Links = append(view.Links, Link{Name: "core1", Up: otherUp, Addresses: []netip.Addr{other}})
		p := pathsBy("core0", one, other)
		p.Core = append(p.Core, "core1")
		s.Judge(view, p, now)
		state, _ := s.of(one)
		return state
	}
	for _, c := range []struct {
		oneUp, otherUp bool
		up             bool
		want           RLOCReason
	}{{true, true, true, rlocUsable}, {false, true, false, rlocLinkDown}, {true, true, false, rlocHeldDown}, {true, false, true, rlocUsable}} {
		if got := judge(c.oneUp, c.otherUp); got.Up != c.up || got.Reason != c.want || s.Down()[one] == c.up {
			t.Errorf("%+v: %+v, down %v", c, got, s.Down())
		}
	}
}

// TestLostAddressStaysALocator until the interface has another.
func TestLostAddressStaysALocator(t *testing.T) {
	m := NewMemory()
	named := []string{"core0"}
	m.Recall(time.Now(), oneRLOC(func(*Link) {}), named)
	m.Owned = hostAddrs("192.0.2.1")
	host := m.Recall(time.Now(), oneRLOC(func(l *Link) { l.Addresses = nil }), named)
	if got := host.AddressesOf("core0", "both"); len(got) != 1 || !host.IsOwn(got[0]) {
		t.Errorf("lost: %v", got)
	}
	host = m.Recall(time.Now(), oneRLOC(func(l *Link) { l.Addresses = hostAddrs("192.0.2.77") }), named)
	if got := host.AddressesOf("core0", "both"); len(got) != 1 || got[0].String() != "192.0.2.77" {
		t.Errorf("renumbered: %v", got)
	}
	if m.Recall(time.Now(), View{}, nil); len(m.seen) != 0 {
		t.Errorf("remembers interfaces that the configuration does not name: %v", m.seen)
	}
}

// TestAddressMovesToAnotherLink: two networks may give a mobile node the same private address, one after the other.
func TestAddressMovesToAnotherLink(t *testing.T) {
	m := NewMemory()
	named := []string{"wlan0", "wwan0"}
	at := func(wlan, wwan []netip.Addr) Host {
		return m.Recall(time.Now(), View{Links: []Link{{Name: "wlan0", Addresses: wlan}, {Name: "wwan0", Addresses: wwan}}}, named)
	}
	one, none := hostAddrs("192.168.1.2"), []netip.Addr(nil)
	at(one, none)
	for i, host := range []Host{at(none, one), at(one, none)} {
		have, lost := "wwan0", "wlan0"
		if i == 1 {
			have, lost = lost, have
		}
		if got := host.AddressesOf(have, "both"); !slices.Equal(got, one) {
			t.Errorf("move %d: %s has %v", i+1, have, got)
		}
		if got := host.AddressesOf(lost, "both"); len(got) > 0 {
			t.Errorf("move %d: %s still has %v, which %s has now", i+1, lost, got, have)
		}
	}
	if host := at(none, none); len(host.AddressesOf("wlan0", "both")) != 1 || len(host.AddressesOf("wwan0", "both")) > 0 {
		t.Errorf("lost: the address is remembered at each link that had it: %v", host.lost)
	}
}

func hostAddrs(list ...string) (addresses []netip.Addr) {
	for _, a := range list {
		addresses = append(addresses, netip.MustParseAddr(a))
	}
	return addresses
}

// TestMissingSince: an interface is missing since it vanished, not since the start.
func TestMissingSince(t *testing.T) {
	m, start := NewMemory(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	there := View{Links: []Link{{Name: "lan0"}}}
	for _, c := range []struct {
		second int
		view   View
		since  time.Time
	}{{0, View{}, at(0)}, {20, View{}, at(0)}, {30, there, time.Time{}}, {3600, View{}, at(3600)}, {3620, View{}, at(3600)}} {
		host := m.Recall(at(c.second), c.view, []string{"lan0"})
		if since := host.Missing["lan0"]; !since.Equal(c.since) {
			t.Errorf("at %d s: missing since %s, want %s", c.second, since, c.since)
		}
	}
	if host := m.Recall(at(3630), View{}, nil); len(host.Missing) > 0 {
		t.Errorf("not named: %v", host.Missing)
	}
}

// TestMobileRLOCWaitsForItsRoute: an address that came before its default route sends nothing yet, and a link that a
// mobile node leaves and finds again is used at once, unless it flaps. Other routers, and hosts that never had a
// default route, wait for none.
func TestMobileRLOCWaitsForItsRoute(t *testing.T) {
	s, now, rloc := newRLOCStates(), time.Now(), netip.MustParseAddr("192.0.2.1")
	paths := pathsBy("core0", rloc)
	paths.Mobile = true
	judge := func(metric uint64) RLOCReason {
		now = now.Add(time.Second)
		s.Judge(oneRLOC(func(l *Link) { l.Defaults.IPv4 = metric }), paths, now)
		state, _ := s.of(rloc)
		return state.Reason
	}
	if got := judge(0); got != rlocUsable {
		t.Errorf("where no default route was seen: %s", got)
	}
	if got := judge(1); got != rlocUsable {
		t.Errorf("with a default route: %s", got)
	}
	if got := judge(0); got != rlocNoRoute {
		t.Errorf("without the default route: %s", got)
	}
	if got := judge(101); got != rlocUsable {
		t.Errorf("with another default route: %s", got)
	}
	paths.Mobile = false
	if got := judge(0); got != rlocUsable {
		t.Errorf("of a router that is no mobile node: %s", got)
	}
}
