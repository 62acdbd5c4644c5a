// SPDX-License-Identifier: Apache-2.0

package control

// Routers that come behind a NAT: what they learnt before.

import (
	"net/netip"
	"testing"
	"time"
)

// TestMappingsLearntBeforeTheNAT: behind a NAT a router sends everything to its RTR, also to EIDs whose mappings it has
// from before. ETRs that check sources would drop its packets, and answers to its RLOC-probes would not reach it.
// Static mappings stay.
func TestMappingsLearntBeforeTheNAT(t *testing.T) {
	for _, family := range []struct{ server, before, behind, public, other, mine, peer, host, to string }{
		{natServer, "192.0.2.44", "172.16.0.5", "203.0.113.9", "198.51.100.77", "10.1.0.0/16", "10.2.0.0/16",
			"10.1.0.1", "10.2.0.1"},
		{natServer6, "2001:db8:f::44", "fd00::5", "2001:db8:f::9", "2001:db8:f::77", "2001:db8:1::/48",
			"2001:db8:2::/48", "2001:db8:1::1", "2001:db8:2::1"},
	} {
		n := newNetwork(t)
		n.add("server", natServerConfig(rtrKeys(), "10.1.0.0/16 2001:db8:1::/48",
			"10.2.0.0/16 2001:db8:2::/48"), natServer, natServer6)
		n.add("x2", xtrConfig(2, family.server, []string{family.other}, family.peer), family.other)
		x1 := n.add("x1", natNode(1, family.server, family.before, family.mine), family.before)
		n.run(time.Second)
		x1.miss(family.host, family.to)
		n.run(time.Second)
		x1.wantCached(family.peer, family.other)
		n.nat([]string{family.public}, x1)
		x1.addrs = []netip.Addr{netip.MustParseAddr(family.behind)}
		x1.configure(natNode(1, family.server, family.behind, family.mine))
		n.run(5 * time.Second)
		x1.wantByRTR(family.server)
		x1.wantNotCached(family.peer)
	}
}
