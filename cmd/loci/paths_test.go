// SPDX-License-Identifier: Apache-2.0

package main_test

// Explicit locator paths between real sites: four RTRs in a row, each with a link to the core. IPv4 EIDs have paths of IPv4
// RLOCs, IPv6 EIDs paths of IPv6 RLOCs, so that what happens to a router happens to both families.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/daemon/api"
	"loci/lisp"
)

// testPath is an explicit locator path: each hop the name of a router, and the bits that the hop has.
type testPath []string

func (p testPath) to(site int, ipv6 bool, priority int) string {
	var hops []string
	for _, hop := range append(slices.Clone(p), testSite{site}.name()) {
		words := strings.Fields(hop)
		hops = append(hops, fmt.Sprintf("{address: '%s', lrs-bits: [%s]}", rlocOf(words[0], ipv6), strings.Join(words[1:], ", ")))
	}
	return fmt.Sprintf("{priority: %d, explicit-locator-path: [%s]}", priority, strings.Join(hops, ", "))
}

// xtrBehind is a site's configuration that registers paths alone, the first one as the best.
func (n *lispNetwork) xtrBehind(number int, paths ...testPath) string {
	s := testSite{number}
	sets := [2][]string{}
	for i, ipv6 := range []bool{false, true} {
		for priority, p := range paths {
			sets[i] = append(sets[i], p.to(number, ipv6, priority+1))
		}
	}
	sections := fmt.Sprintf("locator-sets: {ipv4: [%s], ipv6: [%s]}\nitr:\n  map-resolvers: [172.16.9.2]\n"+quickProbing, strings.Join(sets[0], ", "), strings.Join(sets[1], ", "))
	return strings.NewReplacer(
		"itr: {map-resolvers: [172.16.9.2]}\n", sections, "eid: "+s.eid4(), "eid: "+s.eid4()+", rlocs: ipv4", "eid: '"+s.eid6()+"'", "eid: '"+s.eid6()+"', rlocs: ipv6",
	).Replace(n.xtr(number))
}

// runPaths starts two sites with four RTRs between them; packets to site 2 take the paths, those to site 1 the way back.
func runPaths(t *testing.T, paths ...testPath) *lispNetwork {
	t.Helper()
	rtrs := []string{"rtr1", "rtr2", "rtr3", "rtr4"}
	n := newRelayNetwork(t, rtrs...)
	n.run("ms", n.mappingSystem())
	for _, name := range rtrs {
		n.must(n.at[name].Forward())
		n.run(name, n.rtr(name, "10.1.0.0/24", "10.2.0.0/24", "fd00:1::/64", "fd00:2::/64"))
	}
	n.run("xtr1", n.xtrBehind(1, testPath{"rtr4", "rtr3", "rtr2", "rtr1"}))
	n.run("xtr2", n.xtrBehind(2, paths...))
	n.awaitRegistrations(4)
	n.bothFamilies(func(one, two netip.Addr) { n.ping("host1", one, two, 10) })
	return n
}

// bothFamilies does something with the hosts' addresses of each family.
func (n *lispNetwork) bothFamilies(do func(one, two netip.Addr)) {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	do(one.host4(), two.host4())
	do(one.host6(), two.host6())
}

// relayed is how many packets an RTR relayed.
func (n *lispNetwork) relayed(router string) uint64 {
	n.t.Helper()
	return n.dataPlane(router).DataPlane["relayed_packets_total"]
}

// usedPath is the first of the locators that packets of a router to an EID may take; ok is false where there is none.
func (n *lispNetwork) usedPath(ctx context.Context, router string, eid netip.Addr) (l api.ExplainedLocator, ok bool) {
	e, err := n.client(router).Explain(ctx, api.ExplainQuery{EID: lisp.EIDFromAddr(eid)})
	if err != nil {
		return l, false
	}
	i := slices.IndexFunc(e.Locators, func(l api.ExplainedLocator) bool { return l.Used })
	if i < 0 {
		return l, false
	}
	return e.Locators[i], true
}

// awaitNext waits until packets of a router to a site's hosts go to another router, by a path of some hops.
func (n *lispNetwork) awaitNext(router string, to testSite, next string, hops int) {
	n.t.Helper()
	n.await(fmt.Sprintf("%s sends to %s what is for site %d", router, next, to.number), func(ctx context.Context) bool {
		for _, eid := range []netip.Addr{to.host4(), to.host6()} {
			l, ok := n.usedPath(ctx, router, eid)
			if !ok || l.NextHop == nil || l.NextHop.String() != rlocOf(next, eid.Is6()) || len(l.Path) != hops {
				return false
			}
		}
		return true
	})
}

// awaitNoPath waits until a router has no locator to send to for a site's hosts.
func (n *lispNetwork) awaitNoPath(router string, to testSite) {
	n.t.Helper()
	n.await(router+" has no path", func(ctx context.Context) bool {
		for _, eid := range []netip.Addr{to.host4(), to.host6()} {
			if e, err := n.client(router).Explain(ctx, api.ExplainQuery{EID: lisp.EIDFromAddr(eid)}); err != nil || e.Outcome != api.OutcomeNoLocator {
				return false
			}
		}
		return true
	})
}

// die takes a router off the net, as a power failure does.
func (n *lispNetwork) die(router string) {
	n.t.Helper()
	n.must(n.at["core"].SetUp("to-"+router, false))
	n.kill(router)
}

// cut makes the core drop what two routers send each other, and returns what ends that. All others reach both.
func (n *lispNetwork) cut(a, b string) (mend func()) {
	n.t.Helper()
	var rules []*netlink.Rule
	for _, ipv6 := range []bool{false, true} {
		for _, ends := range [][2]string{{a, b}, {b, a}} {
			rule := netlink.NewRule()
			rule.Type, rule.Priority, rule.Family = unix.RTN_BLACKHOLE, 100, netlink.FAMILY_V4
			if ipv6 {
				rule.Family = netlink.FAMILY_V6
			}
			rule.Src, rule.Dst = hostNet(rlocOf(ends[0], ipv6)), hostNet(rlocOf(ends[1], ipv6))
			n.must(n.at["core"].Netlink().RuleAdd(rule))
			rules = append(rules, rule)
		}
	}
	return func() {
		n.t.Helper()
		for _, rule := range rules {
			n.must(n.at["core"].Netlink().RuleDel(rule))
		}
	}
}

// TestPathOfFourRTRs: packets follow a registered path both ways. Its second RTR dies in mid-transfer: the routers before it
// skip it, and the transfers go on. Shows RFC 8060 s.4.6 (6), (8).
func TestPathOfFourRTRs(t *testing.T) {
	t.Parallel() // it mostly waits
	n := runPaths(t, testPath{"rtr1", "rtr2", "rtr3", "rtr4"})
	for _, rtr := range []string{"rtr1", "rtr2", "rtr3", "rtr4"} {
		if relayed := n.relayed(rtr); relayed != 40 {
			t.Errorf("%s relayed %d packets of 20 pings, want 40", rtr, relayed)
		}
	}
	n.awaitNext("xtr1", testSite{2}, "rtr1", 5)
	path := "172.16.31.2 -> 172.16.32.2 -> 172.16.33.2 -> 172.16.34.2 -> 172.16.2.2"
	n.expectWords("ms", "show registrations", path)
	n.expectWords("xtr1", "show map-cache", path)
	n.expectWords("xtr1", "show locators", path+", next 172.16.31.2", "up")
	n.expectWords("xtr1", "explain 10.2.0.10", "packets of the path "+path+" are sent to its hop 172.16.31.2")

	n.bothFamilies(n.expectTraceroute)
	packet := "in core0 rloc 2001:db8:1::2 local 2001:db8:31::2 src fd00:1::10 dst fd00:2::10"
	if got := n.trace("rtr1", strings.Fields(packet)...)[0]; got.Verdict != "encapsulate" || !strings.Contains(got.Result, rlocOf("rtr2", true)) {
		t.Errorf("traced at rtr1: %+v", got)
	}
	n.must(n.at["core"].SetMTU("to-rtr3", 1400)) // rtr2 tells the hosts behind rtr1
	n.bothFamilies(func(one, two netip.Addr) { n.transfer("host1", "host2", one, two) })

	traffic := n.startTraffic(5 * time.Second)
	time.Sleep(time.Second)
	n.die("rtr2")
	n.awaitNext("rtr1", testSite{2}, "rtr3", 5)
	n.awaitNext("rtr3", testSite{1}, "rtr1", 5)
	t.Logf("longest gap in 1,000 pings a second: %s; a probe interval is 1s", traffic.end())
	n.bothFamilies(func(one, two netip.Addr) { n.ping("host1", one, two, 5) })
	n.awaitNext("xtr1", testSite{2}, "rtr1", 5)
	n.expectWords("rtr1", "explain 10.2.0.10", "sent to its hop 172.16.33.2", "its hop 172.16.32.2 is skipped: probes-unanswered")
}

// hostNet is one address as netlink takes it.
func hostNet(address string) *net.IPNet {
	a := netip.MustParseAddr(address)
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// expectTraceroute looks who answers packets from host1 whose TTL ends. Every second router is the core, which sees RLOCs alone.
func (n *lispNetwork) expectTraceroute(one, two netip.Addr) {
	n.t.Helper()
	socket := n.openICMP("host1", one)
	for ttl, want := range map[int]string{3: "rtr1", 5: "rtr2", 7: "rtr3", 9: "rtr4"} {
		var from netip.Addr
		n.await(fmt.Sprintf("an answer to TTL %d towards %s", ttl, two), func(context.Context) bool {
			from, _ = socket.ask(n.t, two, ttl)
			return from.IsValid()
		})
		if from.String() != rlocOf(want, one.Is6()) {
			n.t.Errorf("TTL %d towards %s: %s answers, want %s", ttl, two, from, want)
		}
	}
}

// expectWords runs `loci` at a router and looks for what it must print.
func (n *lispNetwork) expectWords(router, command string, words ...string) {
	n.t.Helper()
	out, status := n.loci(router, append(strings.Fields(command), "--socket", n.socket(router))...)
	for _, w := range words {
		if status != 0 || !strings.Contains(out, w) {
			n.t.Errorf("loci %s at %s does not print %q:\n%s", command, router, w, out)
		}
	}
}

// TestCutBetweenTwoRTRs: the first RTR of a path finds that the second one does not answer. It skips that one, drops packets where
// it must not, and takes another path where there is one by it. The ITR cannot know. Shows RFC 8060 s.4.6 (5), RFC 8060 s.4.6 (6).
func TestCutBetweenTwoRTRs(t *testing.T) {
	t.Parallel() // it mostly waits
	n := runPaths(t, testPath{"rtr1", "rtr2", "rtr3", "rtr4"})
	two := testSite{2}
	n.awaitNext("rtr1", two, "rtr2", 5)
	traffic := n.startTraffic(5 * time.Second)
	time.Sleep(time.Second)
	mend := n.cut("rtr1", "rtr2")
	n.awaitNext("rtr1", two, "rtr3", 5)
	n.awaitNext("rtr2", testSite{1}, "xtr1", 5)
	t.Logf("longest gap in 1,000 pings a second: %s; a probe interval is 1s", traffic.end())
	n.awaitNext("xtr1", two, "rtr1", 5)

	n.reconfigure("xtr2", n.xtrBehind(2, testPath{"rtr1", "rtr2 strict", "rtr3", "rtr4"}))
	n.awaitNoPath("rtr1", two)
	n.awaitNext("xtr1", two, "rtr1", 5)
	n.bothFamilies(func(one, two netip.Addr) { n.refused("host1", one, two, "rtr1", "no-locator") })

	n.reconfigure("xtr2", n.xtrBehind(2, testPath{"rtr1", "rtr2 strict", "rtr3", "rtr4"}, testPath{"rtr1", "rtr4"}))
	n.awaitNext("rtr1", two, "rtr4", 3)
	n.awaitNext("xtr1", two, "rtr1", 5)
	n.bothFamilies(func(one, two netip.Addr) { n.ping("host1", one, two, 5) })
	mend()
	n.awaitNext("rtr1", two, "rtr2", 5)
	n.bothFamilies(func(one, two netip.Addr) { n.ping("host1", one, two, 5) })
}

// TestStrictHopDies: the bits P and S tell the ITR to look after a later hop, and to leave the path with it. Shows RFC 8060
// s.4.6 (3), (5).
func TestStrictHopDies(t *testing.T) {
	t.Parallel() // it mostly waits
	n := runPaths(t, testPath{"rtr1", "rtr2 strict rloc-probe", "rtr3", "rtr4"}, testPath{"rtr3", "rtr4"})
	two := testSite{2}
	n.awaitNext("xtr1", two, "rtr1", 5)
	traffic := n.startTraffic(5 * time.Second)
	time.Sleep(time.Second)
	n.die("rtr2")
	n.awaitNext("xtr1", two, "rtr3", 3)
	t.Logf("longest gap in 1,000 pings a second: %s; a probe interval is 1s", traffic.end())
	n.bothFamilies(func(one, two netip.Addr) { n.ping("host1", one, two, 5) })
	n.expectWords("xtr1", "explain 10.2.0.10", "no packet can take it: a strict hop is down", "sent to its hop 172.16.33.2")
}
