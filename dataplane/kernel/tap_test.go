// SPDX-License-Identifier: Apache-2.0

// What becomes of an engine whose TAP somebody deletes. The test needs root.

package kernel

import (
	"context"
	"net/netip"
	"testing"
)

func TestTAPIsMadeAnew(t *testing.T) {
	n := newNetwork(t)
	a := n.routers[0]
	must(t, a.Detach(context.Background()))
	remade := make(chan struct{}, 1)
	a.open(t, Options{TAPRemade: func() { remade <- struct{}{} }})
	a.apply(t, siteOperations(0)...)
	n.routers[1].apply(t, mappingOf(0, rloc4)...)
	f := n.udpFlow(t, netip.AddrPort{}, netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	server, err := n.hosts[1].ListenUDP(netip.AddrPortFrom(siteAddress4(1, 10), 5000))
	must(t, err)
	defer server.Close()
	f.send(t, 3)
	eventually(t, "packets wait", func() bool { return a.Counters().WaitingPackets == 3 })

	for range 2 {
		before := a.Counters().Other["tap-errors"]
		tap, err := a.ns.Netlink().LinkByName(DefaultTAP)
		must(t, err)
		must(t, a.ns.Netlink().LinkDel(tap))
		<-remade
		if after := a.Counters().Other["tap-errors"]; after == before {
			t.Error("nobody is told that the TAP could not be read")
		}
	}
	f.send(t, 3)
	eventually(t, "more packets wait", func() bool { return a.Counters().WaitingPackets == 6 })
	a.apply(t, mappingOf(1, rloc4)...)
	expectInOrder(t, server, 1, 6)
	n.expectPings(t, n.hosts[0], siteAddress4(0, 10), siteAddress4(1, 10))
}
