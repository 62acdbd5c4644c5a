// SPDX-License-Identifier: Apache-2.0

package main_test

// The TUN of the data plane in user space, from outside: deleted under the daemon, and with large MTUs.

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loci/internal/testnet"
)

// watchLeaks counts packets that enter the core from a router with an EID as their source.
func (n *lispNetwork) watchLeaks(router string) *atomic.Int64 {
	n.t.Helper()
	leaks, eids := &atomic.Int64{}, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/16")}
	running, err := testnet.Capture{Namespace: n.at["core"], Links: []string{"to-" + router}, IncomingOnly: true}.Start(func(p testnet.Captured) error {
		var from netip.Addr
		switch packet := p.Data[14:]; packet[0] >> 4 {
		case 4:
			from = netip.AddrFrom4([4]byte(packet[12:]))
		case 6:
			from = netip.AddrFrom16([16]byte(packet[8:]))
		}
		for _, eid := range eids {
			if eid.Contains(from) {
				leaks.Add(1)
			}
		}
		return nil
	})
	n.must(err)
	n.t.Cleanup(func() { _ = running.Stop() })
	return leaks
}

// TestUserPlaneHealsItsTUN deletes it under traffic: it is there again at once, with routes, rules and address; no packet of an EID
// leaves without encapsulation meanwhile, and the log tells of no error.
func TestUserPlaneHealsItsTUN(t *testing.T) {
	n := newUserPlaneNetwork(t)
	n.runAll()
	n.pingAll(3)
	before, leaks := n.leftAt("xtr1"), n.watchLeaks("xtr1")
	one, two := testSite{1}, testSite{2}
	pinging := []*pings{n.startPinging(), n.startPingingBetween(one.host6(), two.host6())}
	const times = 5
	told := func() int { return strings.Count(n.logs["xtr1"].String(), "the LISP interface was deleted") }
	for deletion := range times {
		link, err := n.at["xtr1"].Netlink().LinkByName("loci0")
		n.must(err)
		n.must(n.at["xtr1"].Netlink().LinkDel(link))
		n.await("it is told", func(context.Context) bool { return told() >= deletion+1 })
		n.await("interface, rules and routes are back", func(context.Context) bool { return len(n.leftAt("xtr1")) == len(before) })
		n.pingAll(3)
	}
	lost := 0
	for _, p := range pinging {
		close(p.stop)
		sum := <-p.sums
		lost += sum[0] - sum[1]
	}
	t.Logf("%d pings were lost in %d deletions", lost, times)
	if leaks.Load() > 0 {
		t.Errorf("%d packets of EIDs left without encapsulation", leaks.Load())
	}
	for line := range strings.Lines(n.logs["xtr1"].String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("in the log: %s", line)
		}
	}
	n.stop("xtr1", n.daemons["xtr1"])
	if left := n.leftAt("xtr1"); len(left) > 0 {
		t.Errorf("left after detach: %q", left)
	}
}

// pathMTU is what a host believes of the path to an address.
func (n *lispNetwork) pathMTU(host string, to netip.Addr) int {
	n.t.Helper()
	routes, err := n.at[host].Netlink().RouteGet(to.AsSlice())
	n.must(err)
	return routes[0].MTU
}

// TestUserPlaneTakesJumboFrames has hosts and routers with an MTU of 9000: packets of 8000 octets pass where the core carries them, and
// where it does not, hosts are told what does.
func TestUserPlaneTakesJumboFrames(t *testing.T) {
	t.Parallel() // it mostly waits
	const jumbo, octets = 9000, 8000
	n := newUserPlaneNetwork(t)
	for _, i := range []string{"1", "2"} {
		for _, end := range [][2]string{{"host" + i, "eth0"}, {"xtr" + i, "site0"}, {"xtr" + i, "core0"}, {"core", "to-xtr" + i}} {
			n.must(n.at[end[0]].SetMTU(end[1], jumbo))
		}
	}
	n.runAll()
	n.pingAll(1)
	link, err := n.at["xtr1"].Netlink().LinkByName("loci0")
	n.must(err)
	if link.Attrs().MTU != jumbo {
		t.Errorf("the MTU of loci0 is %d", link.Attrs().MTU)
	}
	sizes := map[bool]int{}
	large := func(one, two netip.Addr, count int) (received int) {
		result, err := testnet.Ping{Namespace: n.at["host1"], Source: one, Destination: two, Count: count, Octets: octets, Timeout: time.Second}.Run(t.Context())
		n.must(err)
		sizes[one.Is4()] = n.pathMTU("host1", two)
		return result.Received
	}
	n.bothFamilies(func(one, two netip.Addr) {
		if received := large(one, two, 10); received != 10 || sizes[one.Is4()] != 0 {
			t.Errorf("%s: %d of 10 pings of %d octets answered; the host believes in a path of %d", two, received, octets, sizes[one.Is4()])
		}
	})
	n.must(n.at["core"].SetMTU("to-xtr2", 1500))
	n.must(n.at["xtr2"].SetMTU("core0", 1500))
	n.bothFamilies(func(one, two netip.Addr) {
		n.await("the host is told what the path carries", func(context.Context) bool {
			_ = large(one, two, 1)
			return sizes[one.Is4()] > 0
		})
		if size := sizes[one.Is4()]; size != 1464 && size != 1444 { // over IPv4 or IPv6
			t.Errorf("%s: the host is told of %d octets", two, size)
		}
		n.await("fragments pass", func(context.Context) bool { return large(one, two, 1) == 1 })
	})
}
