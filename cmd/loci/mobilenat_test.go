// SPDX-License-Identifier: Apache-2.0

package main_test

// A mobile node that moves from one NAT to another. Real daemons, real packets.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lisp"
)

// mobileBehindNATs is a mobile node whose link wlan0 leads to the router "nat1", and wwan0 to "nat5", of which those of
// some links are NATs.
func mobileBehindNATs(t *testing.T, engine string, behind ...string) (n *lispNetwork, boxes map[string]testnet.NAT) {
	t.Helper()
	n = newEmptyNetwork(t, "core", "ms", "nat1", "nat5", "mn", "xtr2", "host2")
	n.engine = engine
	n.must(errors.Join(n.at["core"].Forward(), n.at["ms"].Forward()))
	n.plugRouter("ms")
	n.buildSite(2)
	boxes = map[string]testnet.NAT{}
	for link, number := range map[string]int{"wlan0": 1, "wwan0": 5} {
		box := fmt.Sprintf("nat%d", number)
		n.link("core", "to-"+box, box, "outside",
			fmt.Sprintf("172.16.%d.1/30", number), fmt.Sprintf("172.16.%d.2/30", number), fmt.Sprintf("2001:db8:%d::1/64", number), fmt.Sprintf("2001:db8:%d::2/64", number))
		n.defaults(box, fmt.Sprintf("172.16.%d.1", number), fmt.Sprintf("2001:db8:%d::1", number))
		n.must(n.at[box].Forward())
		inside := netip.MustParsePrefix(fmt.Sprintf("192.168.%d.1/24", number))
		n.must(testnet.Connect(
			testnet.End{Namespace: n.at[box], Name: "inside", Addresses: []netip.Prefix{inside}}, testnet.End{Namespace: n.at["mn"], Name: link}))
		n.ip("mn", "link set %s down", link)
		boxes[link] = testnet.NAT{Namespace: n.at[box], Outside: "outside"}
		if slices.Contains(behind, link) {
			n.must(boxes[link].Start())
		}
	}
	n.connectBehindNAT("wlan0", 1)
	return n, boxes
}

// connectBehindNAT gives a link an address and a default route, as DHCP does.
func (n *lispNetwork) connectBehindNAT(link string, number int) {
	n.t.Helper()
	n.ip("mn", "link set %s up", link)
	n.ip("mn", "addr add 192.168.%d.2/24 dev %s", number, link)
	n.ip("mn", "route add default via 192.168.%d.1 dev %s metric %d", number, link, 100*number)
}

// mobileServer is Map-Server and RTR.
func (n *lispNetwork) mobileServer() string {
	return strings.NewReplacer("{eid: 10.1.0.0/24}", "{eid: 10.1.0.0/24, more-specifics-accepted: true}",
		"{eid: 'fd00:1::/64'}", "{eid: 'fd00:1::/64', more-specifics-accepted: true}").Replace(n.natServer())
}

// mobileBehindNAT is the node's configuration, with a short keepalive.
func (n *lispNetwork) mobileBehindNAT(section string) string {
	return strings.Replace(n.mobileNode(section), "etr:\n", "etr:\n  nat-traversal: {keepalive: 2s}\n", 1)
}

// oftenRegistering is site 2, which registers each second: a Map-Server that lost all knows it soon.
func (n *lispNetwork) oftenRegistering() string {
	return strings.Replace(n.xtr(2), "ms-address: 172.16.9.2\n", "ms-address: 172.16.9.2\n      registration-interval: 1s\n", 1)
}

// expectTCP fails the test unless the mobile node and a host of site 2 reach each other's EIDs by TCP.
func (n *lispNetwork) expectTCP() {
	n.t.Helper()
	two := testSite{2}
	for _, tcp := range []testnet.TCP{
		{Client: n.at["mn"], Server: n.at["host2"], Destination: two.host4()},
		{Client: n.at["host2"], Server: n.at["mn"], Destination: mobile4},
		{Client: n.at["mn"], Server: n.at["host2"], Destination: two.host6()},
	} {
		tcp.Octets, tcp.Verify = 1<<18, true
		if _, err := tcp.Run(n.t.Context()); err != nil {
			n.t.Errorf("TCP to %s: %v", tcp.Destination, err)
			n.tellDrops()
		}
	}
}

// TestMobileNodeFrozen: the node is frozen, and wakes up behind another NAT when its NAT has forgotten its binding, and
// the server its registration and binding. It is reached by its EIDs again, and is one registrant.
func TestMobileNodeFrozen(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n, boxes := mobileBehindNATs(t, engine, "wlan0", "wwan0")
		n.run("ms", n.mobileServer())
		n.run("xtr2", n.oftenRegistering())
		n.run("mn", n.mobileBehindNAT("default-route: true"))
		two := testSite{2}
		n.awaitPing("host2", two.host4(), mobile4)
		n.expectTCP()

		n.must(n.daemons["mn"].Process.Signal(syscall.SIGSTOP))
		n.disconnectMobile("wlan0")
		n.must(boxes["wlan0"].Forget())
		n.kill("ms")
		n.start("ms")
		n.awaitRegistrations(2)
		n.connectBehindNAT("wwan0", 5)
		n.must(n.daemons["mn"].Process.Signal(syscall.SIGCONT))

		n.awaitRegistrations(4)
		n.awaitPing("host2", two.host4(), mobile4)
		n.expectTCP()
		for eid, list := range n.registrationsOf(t.Context()) {
			if len(list) != 1 || list[0].RTR == "" {
				t.Errorf("%s is registered as %+v", eid, list)
			}
		}
	})
}

// TestMobileNodeLeavesNAT moves a node from behind a NAT to a network without one, and back: each registration replaces
// the one before.
func TestMobileNodeLeavesNAT(t *testing.T) {
	t.Parallel() // it mostly waits
	n, _ := mobileBehindNATs(t, "user", "wlan0")
	n.ip("core", "route add 192.168.5.0/24 via 172.16.5.2")
	n.run("ms", n.mobileServer())
	n.run("xtr2", n.xtr(2))
	n.run("mn", n.mobileBehindNAT("default-route: true"))
	two := testSite{2}
	const rtr = "172.16.9.2"
	n.awaitOneRegistrant(rtr, rtr)
	n.awaitPing("host2", two.host4(), mobile4)
	n.disconnectMobile("wlan0")
	n.connectBehindNAT("wwan0", 5)
	n.awaitOneRegistrant("192.168.5.2", "") // the RTR keeps the old binding for up to three minutes (docs/nat.md)
	n.disconnectMobile("wwan0")
	n.connectBehindNAT("wlan0", 1)
	n.awaitOneRegistrant(rtr, rtr)
	n.awaitPing("host2", two.host4(), mobile4)
	n.expectTCP()
}

// TestUnprivilegedMobileNode moves a container without any capability from NAT to NAT: its TUN comes by a descriptor,
// and what takes rights was made beforehand.
func TestUnprivilegedMobileNode(t *testing.T) {
	t.Parallel() // it mostly waits
	n, _ := mobileBehindNATs(t, "user", "wlan0", "wwan0")
	n.letUserIn()
	n.run("ms", n.mobileServer())
	n.run("xtr2", n.xtr(2))
	tun := n.openTUN("mn", "tun0", unix.IFF_VNET_HDR|unix.IFF_MULTI_QUEUE)
	configuration := strings.Replace(n.mobileBehindNAT("eid-prefixes: [10.2.0.0/16, 'fd00:2::/64']"), "  engine: user\n", "  engine: user\n  interface: tun0\n  tun: fd:3\n", 1)
	n.prepare("mn", configuration, tun)
	n.expectNoRights("mn")
	two := testSite{2}
	n.awaitPing("host2", two.host4(), mobile4)
	n.expectTCP()
	for _, move := range []struct {
		from, to string
		number   int
	}{{"wlan0", "wwan0", 5}, {"wwan0", "wlan0", 1}} {
		n.disconnectMobile(move.from)
		n.connectBehindNAT(move.to, move.number)
		n.await("it is registered behind the other NAT", func(ctx context.Context) bool {
			nat, err := n.client("ms").NAT(ctx)
			there := netip.AddrFrom4([4]byte{192, 168, byte(move.number), 2})
			isUsed := func(r api.NATRLOC) bool {
				return r.Private == there &&
					r.Priority != lisp.PriorityUnused
			}
			return err == nil && len(nat.Bindings) == 2 &&
				slices.ContainsFunc(nat.Bindings[0].RLOCs, isUsed)
		})
		n.awaitPing("host2", two.host4(), mobile4)
		n.expectTCP()
	}
}
