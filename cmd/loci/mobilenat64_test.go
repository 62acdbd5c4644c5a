// SPDX-License-Identifier: Apache-2.0

package main_test

// A mobile node that moves between a link with IPv4, behind a NAT, and one with IPv6 alone, behind a NAT64. The server
// has IPv4 alone. Real daemons, real packets.

import (
	"context"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lisp"
)

// connectIPv6Only gives the link wwan0 what router advertisements give where there is no IPv4.
func (n *lispNetwork) connectIPv6Only() {
	n.t.Helper()
	n.ip("mn", "link set wwan0 up")
	n.ip("mn", "addr add fd99::2/64 dev wwan0 nodad")
	n.ip("mn", "-6 route add default via fd99::1 dev wwan0 metric 500")
}

// mobileBeforeNAT64 is a mobile node whose link wwan0 leads to a NAT64.
func mobileBeforeNAT64(t *testing.T, engine string) *lispNetwork {
	t.Helper()
	n, _ := mobileBehindNATs(t, engine, "wlan0", "wwan0")
	n.ip("ms", "-6 route del default")
	n.ip("ms", "-6 addr flush dev core0 scope global")
	n.ip("nat5", "-4 addr flush dev inside")
	n.ip("nat5", "addr add fd99::1/64 dev inside nodad")
	testnet.NAT64{Namespace: n.at["nat5"], Prefix: nat64Prefix,
		Pool: netip.MustParsePrefix("192.168.255.0/24")}.Start(t)
	return n
}

// mobileByNAT64 is the configuration of the node: its server by IPv4, and by the NAT64.
func (n *lispNetwork) mobileByNAT64() string {
	const server = "172.16.9.2"
	byNAT64 := lisp.NAT64Address(nat64Prefix, netip.MustParseAddr(server)).String()
	peer := "    - ms-address: " + server + "\n      authentication-keys: [{auth-key-value: " + siteKey(1) + "}]\n"
	return strings.NewReplacer("["+server+"]", "["+server+", '"+byNAT64+"']",
		peer, peer+strings.Replace(peer, server, "'"+byNAT64+"'",
			1)).Replace(n.mobileBehindNAT("default-route: true"))
}

// TestMobileNodeBetweenIPv4AndIPv6: a node that moves from a NAT to a link with IPv6 alone, and back, is reached by its
// EIDs again each time, keeps a TCP session, and is one registrant, by the RTR.
func TestMobileNodeBetweenIPv4AndIPv6(t *testing.T) {
	overEngines(t, func(t *testing.T, engine string) {
		n := mobileBeforeNAT64(t, engine)
		n.run("ms", n.mobileServer())
		n.run("xtr2", n.xtr(2))
		n.run("mn", n.mobileByNAT64())
		n.expectMobileByRTR()
		done := n.transferDuringMoves()
		n.disconnectMobile("wlan0")
		n.connectIPv6Only()
		n.expectMobileByRTR()
		n.expectHealthyWithoutIPv4()
		n.disconnectMobile("wwan0")
		n.connectBehindNAT("wlan0", 1)
		n.expectMobileByRTR()
		if err := <-done; err != nil {
			t.Errorf("TCP during the moves: %v", err)
			n.tellDrops()
		}
		if kinds := n.problemKinds("ms", "mn", "xtr2"); len(kinds) > 0 {
			t.Errorf("problems: %v", kinds)
		}
	})
}

// transferDuringMoves sends by TCP from the mobile node for some seconds.
func (n *lispNetwork) transferDuringMoves() (done chan error) {
	done = make(chan error, 1)
	go func() {
		_, err := testnet.TCP{
			Client: n.at["mn"], Server: n.at["host2"], Destination: testSite{2}.host4(),
			Duration: 8 * time.Second, Verify: true, Timeout: 30 * time.Second,
		}.Run(n.t.Context())
		done <- err
	}()
	established := regexp.MustCompile(`0A00020A:[0-9A-F]{4} 01`) // to 10.2.0.10, as the kernel writes it
	n.await("the transfer has begun", func(context.Context) bool {
		var connections []byte
		err := n.at["mn"].Do(func() (err error) {
			connections, err = os.ReadFile("/proc/thread-self/net/tcp")
			return err
		})
		return err == nil && established.Match(connections)
	})
	return done
}

// expectHealthyWithoutIPv4 fails the test unless a link that is lost is no problem, though its RTR is silent.
func (n *lispNetwork) expectHealthyWithoutIPv4() {
	n.t.Helper()
	n.await("the RTR of the link that is lost is silent", func(ctx context.Context) bool {
		nat, err := n.client("mn").NAT(ctx)
		return err == nil && slices.ContainsFunc(nat.RTRs,
			func(r api.NATRTR) bool { return r.RLOC.Is4() && r.Silent })
	})
	if kinds := n.problemKinds("ms", "mn", "xtr2"); len(kinds) > 0 {
		n.t.Errorf("problems without IPv4: %v", kinds)
	}
}

// expectMobileByRTR fails the test unless the mobile node is reached, and reaches others, by the RTR.
func (n *lispNetwork) expectMobileByRTR() {
	n.t.Helper()
	two := testSite{2}
	n.awaitPing("host2", two.host4(), mobile4)
	n.expectTCP()
	const rtr = "172.16.9.2"
	n.awaitOneRegistrant(rtr, rtr)
}
