// SPDX-License-Identifier: Apache-2.0

package control

// Replays at an RTR whose Map-Server takes any nonce, and what the RTR does under floods.

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
)

// acceptAnyNonce lets a Map-Server take old nonces of its sites.
func (d *testNode) acceptAnyNonce() {
	c := d.config
	ms := *c.MapServer
	ms.Sites = slices.Clone(ms.Sites)
	for i := range ms.Sites {
		ms.Sites[i].AcceptAnyNonce = true
	}
	c.MapServer = &ms
	d.configure(c)
}

// outside is where an RTR sends the packets of an EID-Prefix.
func (d *testNode) outside(prefix string) string {
	r := d.cache[lisp.MustParsePrefix(prefix)].Mapping.Locators[0].RLOC
	return netip.AddrPortFrom(r.Addr(), r.Port()).String()
}

// TestReplayFromTheNodesAddress: the oldest Map-Register from the node's own address, forged, does not let a later one
// move the binding.
func TestReplayFromTheNodesAddress(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	server.acceptAnyNonce()
	first := natRegister(t, x1)
	n.run(time.Minute)
	middle := natRegister(t, x1)
	n.run(time.Minute)
	server.inject(natServer+":4342", server.outside("10.1.0.0/16"), first)
	n.run(time.Second)
	server.inject(natServer+":4342", outsider, middle)
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantCounter(counter.RefusedNATReplay, 1)
	server.wantCounter(counter.NATBindingMoved, 0)
}

// TestReplayLongAfter: when the RTR knows the first nonces no more they still are less than the last one.
func TestReplayLongAfter(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	server.acceptAnyNonce()
	first := natRegister(t, x1)
	n.run(time.Minute)
	second := natRegister(t, x1)
	n.run(90 * time.Minute)
	server.inject(natServer+":4342", server.outside("10.1.0.0/16"), first)
	n.run(time.Second)
	server.inject(natServer+":4342", outsider, second)
	n.run(time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
	server.wantCounter(counter.NATBindingMoved, 0)
}

// TestReplayAfterTheEnd: the Map-Register of a node that is gone makes no binding for another address; the node itself
// comes back.
func TestReplayAfterTheEnd(t *testing.T) {
	n, x1, _, server, first, _ := natSites(t, nil)
	server.acceptAnyNonce()
	old := natRegister(t, x1)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	n.run(settings.DefaultRegistrationTimeout + time.Minute)
	server.wantNotCached("10.1.0.0/16")
	server.inject(natServer+":4342", outsider, old)
	n.run(time.Second)
	server.wantNotCached("10.1.0.0/16")
	server.wantCounter(counter.RefusedNATReplay, 1)
	n.lose = nil
	first.flush()
	n.run(time.Minute)
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestFloodKeepsBindings: forged Map-Registers of many addresses fill their places; who is forwarded to renews.
func TestFloodKeepsBindings(t *testing.T) {
	n, x1, _, server, _, _ := natSites(t, nil)
	n.run(30 * time.Second)
	verified := func() time.Time {
		for b := range server.rtr.Bindings {
			if b.Prefix == lisp.MustParsePrefix("10.1.0.0/16") {
				return b.VerifiedAt
			}
		}
		return time.Time{}
	}
	before := verified()
	for i := range settings.NATPending + 100 {
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 4341).String()
		server.inject(natServer+":4342", from, forge(t, natServer+":4342", "10.9.0.0/16", uint64(i)+1))
	}
	if server.counter(counter.RefusedNATPending) < 100 {
		t.Errorf("the places of others are not full: %d", server.counter(counter.RefusedNATPending))
	}
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")) // registers at once
	n.run(time.Second)
	if !verified().After(before) {
		t.Error("the binding is not renewed")
	}
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestSourcesOfIPv6: one /64 has the places of one source, and another has its own.
func TestSourcesOfIPv6(t *testing.T) {
	n := newNetwork(t)
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	send := func(from string, nonce uint64) {
		server.inject("["+natServer6+"]:4342", from, forge(t, natServer+":4342", "10.1.0.0/16", nonce))
	}
	for i := range uint64(settings.NATPendingPerSource) + 50 {
		send(fmt.Sprintf("[2001:db8:e::%x]:4341", i+1), 100+i)
	}
	server.wantCounter(counter.NATRegisterRelayed, settings.NATPendingPerSource)
	server.wantCounter(counter.RefusedNATPending, 50)
	send("[2001:db8:e:1::1]:4341", 1)
	server.wantCounter(counter.NATRegisterRelayed, settings.NATPendingPerSource+1)
	n.run(time.Second)
}
