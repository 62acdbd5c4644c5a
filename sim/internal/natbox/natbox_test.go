// SPDX-License-Identifier: Apache-2.0

package natbox

import (
	"net/netip"
	"testing"
	"time"

	"loci/sim/internal/virtual"
)

var (
	first  = netip.MustParseAddrPort("192.168.1.2:4341")
	second = netip.MustParseAddrPort("192.168.1.3:4341")
	rtr    = netip.MustParseAddrPort("192.0.2.100:4342")
	other  = netip.MustParseAddrPort("192.0.2.66:4342")
)

func box(s Settings) (*Box, virtual.Random) {
	s.Public = []netip.Addr{netip.MustParseAddr("198.51.100.1")}
	return New(s), virtual.NewRandom(1, 1)
}

func mustOut(t *testing.T, b *Box, at time.Duration, local, remote netip.AddrPort, r virtual.Random) netip.AddrPort {
	t.Helper()
	public, ok := b.Out(at, local, remote, r)
	if !ok {
		t.Fatalf("no port for %s", local)
	}
	return public
}

func wantIn(t *testing.T, b *Box, at time.Duration, public, remote, want netip.AddrPort) {
	t.Helper()
	if local, ok := b.In(at, public, remote); local != want || ok != want.IsValid() {
		t.Errorf("%s to %s reaches %s, want %s", remote, public, local, want)
	}
}

// TestPorts: two hosts of one port get different ones, however they are chosen, and each its own packets only.
func TestPorts(t *testing.T) {
	for _, ports := range []Ports{KeepPort, NextPort, RandomPort} {
		for _, perRemote := range []bool{false, true} {
			b, r := box(Settings{Ports: ports, PerRemote: perRemote, Idle: time.Minute})
			one, two := mustOut(t, b, 0, first, rtr, r), mustOut(t, b, 0, second, rtr, r)
			if one == two || (one.Port() == first.Port()) != (ports == KeepPort) {
				t.Errorf("ports %d: %s and %s", ports, one, two)
			}
			wantIn(t, b, 0, one, rtr, first)
			wantIn(t, b, 0, two, rtr, second)
			third := first
			if perRemote {
				third = netip.AddrPort{}
			}
			wantIn(t, b, 0, one, other, third)
			if again := mustOut(t, b, 0, first, other, r); (again == one) == perRemote && ports != KeepPort {
				t.Errorf("per remote %t: %s to another address, %s to the first", perRemote, again, one)
			}
		}
	}
}

// TestIdleBindingEnds, and goes to another host then.
func TestIdleBindingEnds(t *testing.T) {
	for _, outOnly := range []bool{false, true} {
		b, r := box(Settings{Idle: 30 * time.Second, OutOnly: outOnly, PerRemote: true})
		public := mustOut(t, b, 0, first, rtr, r)
		wantIn(t, b, 20*time.Second, public, rtr, first)
		want := first
		if outOnly {
			want = netip.AddrPort{}
		}
		wantIn(t, b, 40*time.Second, public, rtr, want)
		if got := mustOut(t, b, 2*time.Minute, second, rtr, r); got != public {
			t.Errorf("the next host gets %s", got)
		}
		wantIn(t, b, 2*time.Minute, public, rtr, second)
		if got := b.Bindings(2*time.Minute, second.Addr(), rtr.Addr()); got != 1 {
			t.Errorf("%d bindings", got)
		}
	}
}

// TestForgetAndRewrite: what was forgotten reaches no one; what was rewritten its host, at another port.
func TestForgetAndRewrite(t *testing.T) {
	b, r := box(Settings{Idle: time.Minute, PerRemote: true})
	before := mustOut(t, b, 0, first, rtr, r)
	b.Rewrite(0, r)
	wantIn(t, b, 0, before, rtr, netip.AddrPort{})
	after := mustOut(t, b, 0, first, rtr, r)
	if after == before {
		t.Errorf("still %s", after)
	}
	wantIn(t, b, 0, after, rtr, first)
	b.Forget()
	wantIn(t, b, 0, after, rtr, netip.AddrPort{})
}

// TestNoPortLeft: a full NAT refuses, and has room again when bindings end.
func TestNoPortLeft(t *testing.T) {
	b, r := box(Settings{Ports: NextPort, Idle: time.Minute})
	for i := range 1<<16 - firstPort {
		mustOut(t, b, 0, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 4341), rtr, r)
	}
	if public, ok := b.Out(0, first, rtr, r); ok {
		t.Errorf("%s is given out", public)
	}
	mustOut(t, b, time.Minute, first, rtr, r)
}
