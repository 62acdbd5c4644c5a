// SPDX-License-Identifier: Apache-2.0

package control

// Nodes behind NATs after failures: how soon they are reached again, and by whom not.

import (
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// TestServerWasAwayAtTheStart: a node behind a NAT that started while its Map-Server was away finds it soon after it
// is back, however long that took.
func TestServerWasAwayAtTheStart(t *testing.T) {
	for _, away := range []time.Duration{10 * time.Second, 35 * time.Second, 70 * time.Second, 20 * time.Minute} {
		n := newNetwork(t)
		n.lose = func(*testNode, SendPacket) bool { return true }
		server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
		x1 := n.add("x1", Config{}, "192.168.1.2")
		n.nat([]string{"198.51.100.1"}, x1)
		x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
		n.run(away)
		n.lose = nil
		n.run(9 * time.Second)
		server.wantForwarded("10.1.0.0/16", x1)
	}
}

// TestServerWasAwayBehindKeptPorts is the same behind a NAT that lets the Map-Notify of the direct Map-Register in:
// the Map-Server acknowledges before it is asked again.
func TestServerWasAwayBehindKeptPorts(t *testing.T) {
	n := newNetwork(t)
	lost := true
	n.lose = func(_ *testNode, p SendPacket) bool { return lost }
	server := n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	x1 := n.add("x1", Config{}, "192.168.1.2")
	box := n.nat([]string{"198.51.100.1"}, x1)
	box.next = wire.ControlPort - 1
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(5 * time.Minute)
	lost = false
	n.run(9 * time.Second)
	server.wantForwarded("10.1.0.0/16", x1)
}

// TestReplayAfterRestartOfTheRTR: an RTR that lost its bindings forwards to no one who sends what a node registered
// with, for the Map-Server does not acknowledge that again.
func TestReplayAfterRestartOfTheRTR(t *testing.T) {
	for _, keys := range [][]Key{nil, rtrKeys()} {
		n := newNetwork(t)
		c := natServerConfig(keys, "10.1.0.0/16")
		relay := Config{LocalRLOCs: []lisp.RLOC{rloc("192.0.2.50")}, ITR: c.ITR, NATRelay: c.NATRelay, Roles: c.Roles}
		c.NATRelay, c.Roles, c.ITR = nil, nil, nil
		c.MapServer.RTRs = []RTRPeer{{Address: netip.MustParseAddr("192.0.2.50"), Keys: keys}}
		n.add("server", c, natServer, natServer6)
		rtr := n.add("rtr", relay, "192.0.2.50")
		x1 := n.add("x1", Config{}, "192.168.1.2")
		n.nat([]string{"198.51.100.1"}, x1)
		x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
		n.run(time.Second)
		rtr.wantForwarded("10.1.0.0/16", x1)
		old := natRegister(t, x1)
		n.run(settings.NATPendingLast)
		n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
		clear(rtr.cache)
		rtr.start()
		rtr.inject("192.0.2.50:4342", outsider, old)
		n.run(time.Second)
		rtr.wantCounter(counter.NATRegisterRelayed, 1)
		rtr.wantNotCached("10.1.0.0/16")
		n.lose = nil
		n.run(settings.DefaultKeepalive + time.Second)
		rtr.wantForwarded("10.1.0.0/16", x1)
	}
}

// TestRTRKnowsNodeBeforeItsMapServer: a node that restarts while its Map-Server is away sends by the RTR when that
// says that it knows the node, and goes on when the Map-Server is back.
func TestRTRKnowsNodeBeforeItsMapServer(t *testing.T) {
	n := newNetwork(t)
	c := natServerConfig(nil, "10.1.0.0/16")
	relay := Config{LocalRLOCs: []lisp.RLOC{rloc("192.0.2.50")}, ITR: c.ITR, NATRelay: c.NATRelay, Roles: c.Roles}
	c.NATRelay, c.Roles, c.ITR = nil, nil, nil
	c.MapServer.RTRs = []RTRPeer{{Address: netip.MustParseAddr("192.0.2.50")}}
	server := n.add("server", c, natServer, natServer6)
	n.add("rtr", relay, "192.0.2.50")
	x1 := n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	n.run(time.Second)
	clear(x1.cache)
	x1.start()
	n.run(oneWay + oneWay/2)
	n.lose = func(from *testNode, p SendPacket) bool {
		return from == server || p.Remote.Addr() == netip.MustParseAddr(natServer)
	}
	n.run(settings.DefaultKeepalive + 2*time.Second)
	x1.wantByRTR("192.0.2.50")
	n.lose = nil
	n.run(2 * time.Minute)
	x1.wantByRTR("192.0.2.50")
}
