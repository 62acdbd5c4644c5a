// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"loci/control/internal/settings"
	"loci/lisp"
)

// TestRestartsBehindNAT: packets reach a node behind a NAT, and leave it, a keepalive and a second after the restart of
// the node, of its RTR or of its Map-Server, whenever that crashed and however long it was away.
func TestRestartsBehindNAT(t *testing.T) {
	const steps = 10
	for _, crashed := range []string{"x1", "rtr", "server"} {
		for _, away := range []time.Duration{500 * time.Millisecond, 10 * time.Second, 2 * time.Minute} {
			for step := range steps {
				n, x1, rtr := withRTRApart(t)
				n.run(time.Second + time.Duration(step)*settings.DefaultKeepalive/steps)
				victim := n.nodes[slices.IndexFunc(n.nodes, func(d *testNode) bool { return d.name == crashed })]
				n.lose = func(from *testNode, p SendPacket) bool {
					public := p.Remote.Addr() == netip.MustParseAddr("198.51.100.1")
					return from == victim || slices.Contains(victim.addrs, p.Remote.Addr()) || public && victim == x1
				}
				n.run(away)
				n.lose = nil
				clear(victim.cache)
				victim.start()
				n.run(settings.DefaultKeepalive + time.Second)
				rtr.wantForwarded("10.1.0.0/16", x1)
				x1.wantByRTR("192.0.2.50")
				if t.Failed() {
					t.Fatalf("%s was away for %s, from step %d of a keepalive on", crashed, away, step)
				}
			}
		}
	}
}

// withRTRApart is a node behind a NAT, whose RTR is another router than its Map-Server.
func withRTRApart(t *testing.T) (n *testNetwork, x1, rtr *testNode) {
	t.Helper()
	n = newNetwork(t)
	c := natServerConfig(rtrKeys(), "10.1.0.0/16")
	relay := Config{LocalRLOCs: []lisp.RLOC{rloc("192.0.2.50")}, ITR: c.ITR, NATRelay: c.NATRelay, Roles: c.Roles}
	c.NATRelay, c.Roles, c.ITR = nil, nil, nil
	c.MapServer.RTRs = []RTRPeer{{Address: netip.MustParseAddr("192.0.2.50"), Keys: rtrKeys()}}
	n.add("server", c, natServer, natServer6)
	rtr = n.add("rtr", relay, "192.0.2.50")
	x1 = n.add("x1", Config{}, "192.168.1.2")
	n.nat([]string{"198.51.100.1"}, x1)
	x1.configure(natNode(1, natServer, "192.168.1.2", "10.1.0.0/16"))
	return n, x1, rtr
}
