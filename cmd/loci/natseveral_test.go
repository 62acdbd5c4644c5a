// SPDX-License-Identifier: Apache-2.0

package main_test

// A router behind a NAT, its Map-Server, and two RTRs of which one dies.

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lisp"
)

const natRTRKey = "authentication-keys: [{auth-key-value: between-map-server-and-rtr}]"

// natRTR is the configuration of an RTR of its own.
func (n *lispNetwork) natRTR(name string) string {
	return "interfaces: {core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\n" +
		"rtr: {nat-traversal: {map-servers: [{ms-address: 172.16.9.2, " + natRTRKey + "}]}}\n" + n.common(name)
}

// TestOneOfTwoRTRsDies: pings both ways go on by the other one, which is told by all, and by both when it is back.
func TestOneOfTwoRTRsDies(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		t.Run(map[bool]string{false: "IPv4", true: "IPv6"}[ipv6], func(t *testing.T) {
			overEngines(t, func(t *testing.T, engine string) { oneOfTwoRTRsDies(t, engine, ipv6) })
		})
	}
}

// oneOfTwoRTRsDies is that for RLOCs of one family.
func oneOfTwoRTRsDies(t *testing.T, engine string, ipv6 bool) {
	family := func(text string) string { return text }
	if ipv6 {
		family = overIPv6
	}
	n, _ := natNetworkWith(t, engine, []string{"rtr1", "rtr2"}, 1)
	rtrs := []string{rlocOf("rtr1", ipv6), rlocOf("rtr2", ipv6)}
	n.run("ms", strings.Replace(n.mappingSystem(), "map-server:\n", fmt.Sprintf(
		"map-server:\n  rtrs: [{address: '%s', %s}, {address: '%s', %s}]\n", rtrs[0], natRTRKey, rtrs[1], natRTRKey), 1))
	n.run("rtr1", family(n.natRTR("rtr1")))
	n.run("rtr2", family(n.natRTR("rtr2")))
	n.run("xtr1", family(n.natXTR(1)))
	n.run("xtr2", strings.Replace(family(n.xtr(2)), "itr: {", "itr: {rloc-probing: {interval: 1s, retries: 2, retries-interval: 200ms}, ", 1))
	one, two := testSite{1}, testSite{2}
	n.awaitRTRs(rtrs...)
	n.awaitPing("host2", two.host4(), one.host4())
	n.awaitPing("host1", one.host6(), two.host6())
	drop := ""
	for _, family := range []string{"ip", "ip6"} {
		a := rlocOf("rtr1", family == "ip6")
		drop += family + " daddr " + a + " drop; " + family + " saddr " + a + " drop; "
	}
	n.kill("rtr1")
	n.nft("core", forwarded(drop))
	n.awaitRTRs(rtrs[1])
	n.awaitAllPings("host1", one, two)
	n.awaitAllPings("host2", two, one)
	var shown api.NAT
	if n.show("xtr1", &shown, "nat"); len(shown.RTRs) != 2 || !shown.RTRs[0].Silent || shown.RTRs[1].Silent {
		t.Errorf("shows %+v", shown)
	}
	if out, _ := n.loci("xtr1", "explain", two.host4().String(), "--socket", n.socket("xtr1")); !strings.Contains(out, rtrs[0]+" does not answer, and gets no packets") {
		t.Errorf("explains\n%s", out)
	}
	if kinds := n.problemKinds("xtr1"); len(kinds) != 1 || kinds[0] != "xtr1 rtr-silent" {
		t.Errorf("problems: %v", kinds)
	}
	n.nft("core", "")
	n.start("rtr1")
	n.awaitRTRs(rtrs...)
	n.awaitAllPings("host1", one, two)
	n.awaitAllPings("host2", two, one)
}

// awaitRTRs waits until packets of site 1 go to these RTRs.
func (n *lispNetwork) awaitRTRs(rtrs ...string) {
	n.t.Helper()
	two := testSite{2}
	n.await(fmt.Sprintf("packets go to %v", rtrs), func(ctx context.Context) bool {
		e, err := n.client("xtr1").Explain(ctx, api.ExplainQuery{EID: lisp.EIDFromAddr(two.host4())})
		var names []string
		for _, a := range e.RTRs {
			names = append(names, a.String())
		}
		return err == nil && strings.Join(names, " ") == strings.Join(rtrs, " ")
	})
}

// awaitAllPings waits until eight pings in a row are answered, each a flow of its own.
func (n *lispNetwork) awaitAllPings(host string, from, to testSite) {
	n.t.Helper()
	n.await("pings from "+host, func(ctx context.Context) bool {
		for range 8 {
			result, err := testnet.Ping{Namespace: n.at[host], Source: from.host4(), Destination: to.host4(), Timeout: 300 * time.Millisecond}.Run(ctx)
			if err != nil || result.Received != 1 {
				return false
			}
		}
		return true
	})
}
