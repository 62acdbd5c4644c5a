// SPDX-License-Identifier: Apache-2.0

package main_test

// What `loci status` says of NATs, as the network makes it true and untrue. Real daemons, real packets.

import (
	"context"
	"slices"
	"strings"
	"testing"

	"loci/daemon/api"
)

// natVerdicts is a site behind a NAT, with the shortest keepalive.
func natVerdicts(n *lispNetwork) string {
	return strings.Replace(n.natXTR(1), "keepalive: 2s", "keepalive: 1s", 1)
}

// leaseAnother gives a router behind a NAT another address there, as a DHCP server does.
func (n *lispNetwork) leaseAnother(router, from, to, via string) {
	n.t.Helper()
	n.ip(router, "addr del %s/24 dev core0", from)
	n.ip(router, "addr add %s/24 dev core0", to)
	n.ip(router, "route replace default via %s", via)
}

// awaitProblemsGone waits until `loci status` has no problem of that kind.
func (n *lispNetwork) awaitProblemsGone(kind string, names ...string) {
	n.t.Helper()
	for _, name := range names {
		n.await(name+" does not report "+kind, func(context.Context) bool {
			h, _ := n.status(name)
			return !slices.ContainsFunc(h.Problems, func(p api.HealthProblem) bool { return p.Kind == kind })
		})
	}
}

// TestNATVerdicts: a NAT and no RTR that is offered, an RTR that is silent, and a NAT that changes its binding often
// are each reported, and no longer once the network is mended.
func TestNATVerdicts(t *testing.T) {
	t.Parallel() // it mostly waits
	n, boxes := natNetwork(t, "user", 1)
	server := n.natServer()
	_, rest, _ := strings.Cut(server, "  rtrs: ")
	rtrs, _, _ := strings.Cut(rest, "\n")
	n.run("ms", strings.Replace(server, "  rtrs: "+rtrs+"\n", "", 1))
	n.run("xtr1", natVerdicts(n))

	n.awaitProblem("xtr1", "nat-without-rtr", "192.168.7.2")
	n.reconfigure("ms", server)
	n.ip("xtr1", "link set core0 down") // a link that comes back makes the router ask again
	n.ip("xtr1", "link set core0 up")
	n.ip("xtr1", "route replace default via 192.168.7.1")
	n.awaitProblemsGone("nat-without-rtr", "xtr1")
	n.awaitHealthy("xtr1")

	for _, rule := range []string{`iifname "inside" udp sport 4341 drop`, `iifname "outside" udp dport 4341 drop`} {
		n.nft("nat1", forwarded(rule))
		n.awaitProblem("xtr1", "rtr-silent", "172.16.9.2")
		n.nft("nat1", "")
		n.awaitHealthy("xtr1")
	}

	for forgotten := 0; forgotten < 10 && n.natBindingsLost("xtr1") < 5; forgotten++ {
		before := n.natMoves("ms")
		n.must(boxes[1].Forget()) // what finds that out is a keepalive, or a Map-Register that is due
		n.await("the RTR knows the router again", func(context.Context) bool { return n.natMoves("ms") > before })
	}
	n.awaitProblem("xtr1", "nat-binding-changes", "172.16.9.2")
	n.awaitProblem("ms", "nat-binding-changes", testSite{1}.eid4())
	n.leaseAnother("xtr1", "192.168.7.2", "192.168.7.3", "192.168.7.1")
	n.awaitProblemsGone("nat-binding-changes", "xtr1", "ms")
	n.awaitHealthy("xtr1", "ms")
}

// natBindingsLost is how often keepalives found that the RTR had another address and port for a router, or none.
func (n *lispNetwork) natBindingsLost(router string) uint64 {
	n.t.Helper()
	var shown api.NAT
	n.show(router, &shown, "nat")
	if len(shown.RTRs) == 0 {
		return 0
	}
	return shown.RTRs[0].BindingsLost
}

// natMoves is how often the bindings of an RTR have got another address or port.
func (n *lispNetwork) natMoves(rtr string) (moves uint64) {
	n.t.Helper()
	var shown api.NAT
	n.show(rtr, &shown, "nat")
	for _, b := range shown.Bindings {
		moves += b.Moves
	}
	return moves
}
