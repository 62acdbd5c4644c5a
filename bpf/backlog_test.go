// SPDX-License-Identifier: Apache-2.0

// Whose packets find a place in the TAP's queue, packet by packet, while no reader empties it.

package bpf_test

import (
	"math"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// backlogLimit is the length of a short queue.
const backlogLimit = 80

// inNetwork is a host of 10.1.x.0/24, or of 2001:db8:1:x::/64.
func inNetwork(like netip.Addr, x, host int) netip.Addr {
	if like.Is4() {
		return netip.AddrFrom4([4]byte{10, 1, byte(x), byte(host)})
	}
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, 1, 7: byte(x), 15: byte(host)})
}

// TestSharesOfTheTAP fills the queue as far as each may: half of it by one host, three quarters by all of its network, seven
// eighths by all of an interface; what is left is there for another interface.
func TestSharesOfTheTAP(t *testing.T) {
	b, tap := newBenchWithTAP(t, fields{})
	b.database(0, "10.1.0.0/16")
	b.database(0, "2001:db8:1::/48")
	for _, p := range pairs[:2] {
		t.Run(p.name, func(t *testing.T) {
			b.update("backlog", uint32(0), b.encode("lisp_backlog", fields{"limit": uint32(backlogLimit), "tried_ns": uint64(math.MaxInt64)}))
			refused := b.dropped("LISP_DROP_BACKLOG_SOURCE_LIMIT")
			all := 0
			for _, step := range []struct {
				who    string
				at     netlink.Link
				source func(i int) netip.Addr
				filled int
			}{
				{"one host", b.site, func(int) netip.Addr { return inNetwork(p.inner(0, 1), 0, 10) }, backlogLimit / 2},
				{"its network", b.site, func(i int) netip.Addr { return inNetwork(p.inner(0, 1), 0, 20+i) }, backlogLimit * 3 / 4},
				{"its interface", b.site, func(i int) netip.Addr { return inNetwork(p.inner(0, 1), 1+i, 10) }, backlogLimit * 7 / 8},
				{"another interface", tap, func(i int) netip.Addr { return inNetwork(p.inner(0, 1), 1+i, 10) }, backlogLimit*7/8 + 9},
			} {
				for i := range 2 * backlogLimit {
					all += b.fill(t, step.at, ip{from: step.source(i), to: p.inner(1, 10), ttl: 64, port: 9}.serialize())
				}
				// One that happens to be at another one's place in the table of shares makes a difference of one.
				if all < step.filled-1 || all > step.filled {
					t.Errorf("%s: %d packets in the queue, want %d", step.who, all, step.filled)
				}
			}
			if got := b.dropped("LISP_DROP_BACKLOG_SOURCE_LIMIT") - refused; got != uint64(4*2*backlogLimit-all) {
				t.Errorf("%d packets refused, %d in the queue; %s", got, all, b.allDrops())
			}
		})
	}
}

// fill sends a packet that has to wait and says how many have found a place: one or none.
func (b *bench) fill(t *testing.T, at netlink.Link, packet []byte) int {
	t.Helper()
	var answer uint32
	taken := uint32(actRedirect)
	if at == b.site {
		answer, _ = b.toSite(t, b.fromHost(packet))
	} else {
		answer, _ = b.run(t, "lisp_egress", at, false, ethernet(at.Attrs().HardwareAddr, at.Attrs().HardwareAddr, packet))
		taken = actOK
	}
	switch answer {
	case taken:
		return 1
	case actShot:
		return 0
	}
	t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
	return 0
}
