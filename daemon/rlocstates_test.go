// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/netip"
	"testing"
	"time"
)

// oneRLOC is a host with 192.0.2.1 at core0, whose gateway is 192.0.2.254.
func oneRLOC(change func(*hostLink)) hostView {
	link := hostLink{name: "core0", up: true, addresses: addresses("192.0.2.1"), gateways: addresses("192.0.2.254")}
	change(&link)
	return hostView{links: []hostLink{{name: "lo", up: true, loopback: true, addresses: addresses("198.51.100.1")}, link}}
}

func TestOwnRLOCReasons(t *testing.T) {
	core0, loopback := "192.0.2.1", "198.51.100.1"
	for _, c := range []struct {
		name, rloc string
		change     func(*hostLink)
		want       rlocReason
	}{
		{"as it should be", core0, func(*hostLink) {}, rlocUsable},
		{"no carrier", core0, func(l *hostLink) { l.up = false }, rlocLinkDown},
		{"no address", core0, func(l *hostLink) { l.addresses = nil }, rlocAddressGone},
		{"a silent gateway", core0, func(l *hostLink) { l.silent = l.gateways }, rlocGatewaySilent},
		{"one of two gateways", core0, func(l *hostLink) { l.silent, l.gateways = l.gateways, addresses("192.0.2.254", "192.0.2.253") }, rlocUsable},
		{"a silent gateway of the other family", core0, func(l *hostLink) { l.gateways = addresses("2001:db8::1"); l.silent = l.gateways }, rlocUsable},
		{"on lo", loopback, func(*hostLink) {}, rlocUsable},
		{"on lo, the core's link is down", loopback, func(l *hostLink) { l.up = false }, rlocLinkDown},
		{"where no programs are", core0, func(l *hostLink) { l.name = "core9" }, rlocLinkDown},
		{"where no programs are, which is down", core0, func(l *hostLink) { l.name, l.up = "core9", false }, rlocLinkDown},
	} {
		s := newRLOCStates()
		rloc := netip.MustParseAddr(c.rloc)
		changes, _ := s.judge(oneRLOC(c.change), []string{"core0"}, []netip.Addr{rloc}, time.Now())
		got := s.byRLOC[rloc]
		if got.reason != c.want || got.up != (c.want == rlocUsable) || len(changes) > 0 == got.up {
			t.Errorf("%s: %+v, %d changes, want %s", c.name, *got, len(changes), c.want)
		}
	}
}

// An RLOC need not be at a core interface, as long as there is one that packets to it may come in by.
func TestRLOCBesideTheCore(t *testing.T) {
	rloc := netip.MustParseAddr("203.0.113.1")
	view := oneRLOC(func(*hostLink) {})
	view.links = append(view.links, hostLink{name: "bridge0", up: true, addresses: addresses("203.0.113.1"), gateways: addresses("203.0.113.254"), silent: addresses("203.0.113.254")})
	s := newRLOCStates()
	if s.judge(view, []string{"core0"}, []netip.Addr{rloc}, time.Now()); s.byRLOC[rloc].reason != rlocUsable {
		t.Errorf("beside a core interface: %s", s.byRLOC[rloc].reason)
	}
	if s.judge(view, []string{"core1"}, []netip.Addr{rloc}, time.Now()); s.byRLOC[rloc].reason != rlocLinkDown {
		t.Errorf("without one: %s", s.byRLOC[rloc].reason)
	}
}

// TestSilentGatewayStaysSilent until it answers: the kernel forgets it in between.
func TestSilentGatewayStaysSilent(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	rloc := netip.MustParseAddr("192.0.2.1")
	up := func(change func(*hostLink)) bool {
		now = now.Add(2 * time.Second)
		s.judge(oneRLOC(change), []string{"core0"}, []netip.Addr{rloc}, now)
		return s.byRLOC[rloc].up
	}
	if !up(func(*hostLink) {}) || up(func(l *hostLink) { l.silent = l.gateways }) || up(func(*hostLink) {}) {
		t.Error("a silent gateway is forgotten")
	}
	answers := func(l *hostLink) { l.answering = l.gateways }
	if up(answers) || !up(answers) { // the first begins the time for which it must stay so
		t.Error("a gateway that answers again")
	}
}

// TestRLOCThatWasNeverUpIsNotHeld: its interface came up after the start.
func TestRLOCThatWasNeverUpIsNotHeld(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	rloc := netip.MustParseAddr("192.0.2.1")
	for _, up := range []bool{false, true} {
		s.judge(oneRLOC(func(l *hostLink) { l.up = up }), nil, []netip.Addr{rloc}, now)
		if s.byRLOC[rloc].up != up {
			t.Errorf("link up %v, RLOC up %v", up, !up)
		}
	}
}

func TestFlappingRLOCIsHeldLonger(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	rloc := netip.MustParseAddr("192.0.2.1")
	judge := func(up bool) (bool, time.Time) {
		_, again := s.judge(oneRLOC(func(l *hostLink) { l.up = up }), nil, []netip.Addr{rloc}, now)
		return s.byRLOC[rloc].up, again
	}
	judge(true)
	for fall, hold := 1, rlocHold; fall <= 8; fall++ {
		if up, _ := judge(false); up {
			t.Fatal("down is not believed at once")
		}
		up, again := judge(true)
		if up || again.Sub(now) != hold {
			t.Fatalf("fall %d: up %v, held for %s, want %s", fall, up, again.Sub(now), hold)
		}
		now = again.Add(-time.Millisecond)
		if up, _ := judge(true); up {
			t.Fatalf("fall %d: up too early", fall)
		}
		now = again
		if up, _ := judge(true); !up {
			t.Fatalf("fall %d: not up in time", fall)
		}
		hold = min(2*hold, rlocHoldMax)
	}
	now = now.Add(rlocFlapMemory + time.Second)
	judge(false)
	if _, again := judge(true); again.Sub(now) != rlocHold {
		t.Errorf("flaps are remembered for ever: %s", again.Sub(now))
	}
}

// TestLostAddressStaysALocator until the interface has another.
func TestLostAddressStaysALocator(t *testing.T) {
	m := newHostMemory()
	named := []string{"core0"}
	m.recall(oneRLOC(func(*hostLink) {}), named)
	m.owned = addresses("192.0.2.1")
	host := m.recall(oneRLOC(func(l *hostLink) { l.addresses = nil }), named)
	if got := host.addressesOf("core0", "both"); len(got) != 1 || !host.isOwn(got[0]) {
		t.Errorf("lost: %v", got)
	}
	host = m.recall(oneRLOC(func(l *hostLink) { l.addresses = addresses("192.0.2.77") }), named)
	if got := host.addressesOf("core0", "both"); len(got) != 1 || got[0].String() != "192.0.2.77" {
		t.Errorf("renumbered: %v", got)
	}
	if m.recall(hostView{}, nil); len(m.seen) != 0 {
		t.Errorf("remembers interfaces that nobody names: %v", m.seen)
	}
}
