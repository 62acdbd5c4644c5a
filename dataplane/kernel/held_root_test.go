// SPDX-License-Identifier: Apache-2.0

// HOLD lasts until what programs have sent to loci0 was written back, also what is still on its way there. The tests
// need root.

package kernel

import (
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/dataplane/kernel/abi"
	"loci/internal/testnet"
)

// TestPacketsOnTheirWayToTheTAP has the kernel's queue before loci0 keep the second packet of a flow for a moment, as
// it keeps one that it cuts into segments, while the mapping comes: the third one, which meets the mapping, does not
// overtake it.
func TestPacketsOnTheirWayToTheTAP(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			a := n.routers[0]
			n.routers[1].apply(t, mappingOf(0, p.outer)...)
			delaySecond(t, a.ns, a.tap.TAP().Name)
			to := netip.AddrPortFrom(p.inner(1, 10), 5000)
			server, err := n.hosts[1].ListenUDP(to)
			must(t, err)
			defer server.Close()
			f := n.udpFlow(t, netip.AddrPort{}, to)
			f.send(t, 2)
			a.nextMiss(t)
			a.apply(t, mappingOf(1, p.outer)...)
			f.send(t, 1)
			expectInOrder(t, server, 1, 3)
		})
	}
}

// delaySecond has a link send one packet of a udpFlow at once, and the next one some 30 ms later.
func delaySecond(t *testing.T, ns *testnet.Namespace, name string) {
	t.Helper()
	const rate, burst = 4000, 170 // octets a second, and at once; a packet has 142 or 162
	link, err := ns.Netlink().LinkByName(name)
	must(t, err)
	must(t, ns.Netlink().QdiscReplace(&netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       rate, Limit: 1 << 16, Buffer: netlink.Xmittime(rate, burst),
	}))
}

// TestHoldEndsWithoutWhatIsLost: what was counted as sent to loci0, and never comes, keeps no mapping on hold.
func TestHoldEndsWithoutWhatIsLost(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	a := n.routers[0]
	atomic.AddInt32(&a.store.Backlog.Places, 3)
	n.mapBoth(t, rloc4)
	eventually(t, "no entry on hold", func() bool {
		for _, record := range a.records() {
			if atomic.LoadUint32(&record.Flags)&abi.MappingHold != 0 {
				return false
			}
		}
		return true
	})
	a.expectNoBacklog(t)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
}
