// SPDX-License-Identifier: Apache-2.0

package main_test

// Two networks give a mobile node the same private address. Real daemons, real packets.

import (
	"context"
	"strings"
	"testing"

	"loci/daemon/api"
)

// TestMobileNodeHasOneAddressOnTwoLinks: the link that is up, and whose default route is better, has the RLOC. The node
// moves to the other one when it is lost, though it keeps its address, and back.
func TestMobileNodeHasOneAddressOnTwoLinks(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n, _ := mobileBehindNATs(t, engine, "wlan0", "wwan0")
		n.ip("nat5", "addr add 192.168.1.1/24 dev inside")
		n.run("ms", n.mobileServer())
		n.run("xtr2", n.xtr(2))
		n.run("mn", n.mobileBehindNAT("default-route: true"))
		two := testSite{2}
		n.awaitPing("host2", two.host4(), mobile4)
		n.ip("mn", "link set wwan0 up")
		n.ip("mn", "addr add 192.168.1.2/24 dev wwan0")
		n.ip("mn", "route add default via 192.168.1.1 dev wwan0 metric 500")
		n.expectSeenAs("172.16.1.2")
		n.ip("mn", "link set wlan0 down")
		n.expectSeenAs("172.16.5.2")
		n.ip("mn", "link set wlan0 up")
		n.ip("mn", "route add default via 192.168.1.1 dev wlan0 metric 100")
		n.expectSeenAs("172.16.1.2")
		n.ip("mn", "link set wlan0 down")
		n.ip("mn", "-4 addr flush dev wlan0")
		n.expectSeenAs("172.16.5.2")
		if text := n.logs["mn"].String(); strings.Contains(text, "stands twice") || strings.Contains(text, "not applied") {
			t.Error("a change of the host was refused")
		}
	})
}

// expectSeenAs waits until the mobile node is registered behind that NAT, and reached there.
func (n *lispNetwork) expectSeenAs(nat string) {
	n.t.Helper()
	n.await("the RTR forwards to "+nat, func(ctx context.Context) bool {
		answer, err := n.client("ms").NAT(ctx)
		behind := func(b api.NATBinding) bool { return len(b.RLOCs) == 1 && strings.HasPrefix(b.RLOCs[0].SeenAs, nat+":") }
		return err == nil && len(answer.Bindings) == 2 && behind(answer.Bindings[0]) && behind(answer.Bindings[1])
	})
	n.awaitPing("host2", testSite{2}.host4(), mobile4)
	n.expectTCP()
}
