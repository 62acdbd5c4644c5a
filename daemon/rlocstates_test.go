// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// oneRLOC is a host with 192.0.2.1 at core0, whose gateway is 192.0.2.254.
func oneRLOC(change func(*hostLink)) hostView {
	link := hostLink{name: "core0", up: true, addresses: addresses("192.0.2.1"), gateways: addresses("192.0.2.254")}
	change(&link)
	return hostView{links: []hostLink{{name: "lo", up: true, loopback: true, addresses: addresses("198.51.100.1")}, link}}
}

// planWith is a plan with a core interface and own RLOCs of one family, each of which will do.
func planWith(core string, rlocs ...netip.Addr) plan {
	p := plan{rlocs: rlocs, settings: dataplane.Settings{Interfaces: []dataplane.Interface{{Name: core, Side: dataplane.SideCore}}}}
	var choice []lisp.RLOC
	for _, rloc := range rlocs {
		choice = append(choice, lisp.RLOCFromAddr(rloc))
	}
	p.choices = [][]lisp.RLOC{choice}
	return p
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
		changes, _ := s.judge(oneRLOC(c.change), planWith("core0", rloc), time.Now())
		got, _ := s.of(rloc)
		if got.reason != c.want || got.up != (c.want == rlocUsable) || len(changes) > 0 == got.up {
			t.Errorf("%s: %+v, %d changes, want %s", c.name, got, len(changes), c.want)
		}
	}
}

// An RLOC need not be at a core interface, as long as there is one that packets to it may come in by.
func TestRLOCBesideTheCore(t *testing.T) {
	rloc := netip.MustParseAddr("203.0.113.1")
	view := oneRLOC(func(*hostLink) {})
	view.links = append(view.links, hostLink{name: "bridge0", up: true, addresses: addresses("203.0.113.1"), gateways: addresses("203.0.113.254"), silent: addresses("203.0.113.254")})
	for core, want := range map[string]rlocReason{"core0": rlocUsable, "core1": rlocLinkDown} {
		s := newRLOCStates()
		s.judge(view, planWith(core, rloc), time.Now())
		if got, _ := s.of(rloc); got.reason != want {
			t.Errorf("core interface %s: %s, want %s", core, got.reason, want)
		}
	}
}

// TestSilentGatewayStaysSilent until it answers: the kernel forgets it in between.
func TestSilentGatewayStaysSilent(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	rloc := netip.MustParseAddr("192.0.2.1")
	up := func(change func(*hostLink)) bool {
		now = now.Add(2 * time.Second)
		s.judge(oneRLOC(change), planWith("core0", rloc), now)
		state, _ := s.of(rloc)
		return state.up
	}
	if !up(func(*hostLink) {}) || up(func(l *hostLink) { l.silent = l.gateways }) || up(func(*hostLink) {}) {
		t.Error("a silent gateway is forgotten")
	}
	if !up(func(l *hostLink) { l.answering = l.gateways }) {
		t.Error("a gateway that answers again")
	}
}

// TestHeldRLOCSaysSo, until the other one falls.
func TestHeldRLOCSaysSo(t *testing.T) {
	s, now := newRLOCStates(), time.Now()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.1")
	judge := func(oneUp, otherUp bool) rlocState {
		view := oneRLOC(func(l *hostLink) { l.up = oneUp })
		view.links = append(view.links, hostLink{name: "core1", up: otherUp, addresses: []netip.Addr{other}})
		p := planWith("core0", one, other)
		p.settings.Interfaces = append(p.settings.Interfaces, dataplane.Interface{Name: "core1", Side: dataplane.SideCore})
		s.judge(view, p, now)
		state, _ := s.of(one)
		return state
	}
	for _, c := range []struct {
		oneUp, otherUp bool
		up             bool
		want           rlocReason
	}{{true, true, true, rlocUsable}, {false, true, false, rlocLinkDown}, {true, true, false, rlocHeldDown}, {true, false, true, rlocUsable}} {
		if got := judge(c.oneUp, c.otherUp); got.up != c.up || got.reason != c.want || s.down()[one] == c.up {
			t.Errorf("%+v: %+v, down %v", c, got, s.down())
		}
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
