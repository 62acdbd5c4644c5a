// SPDX-License-Identifier: Apache-2.0

//go:build interop

package main_test

// Relays of both implementations on one path: OpenOverlayRouter's RTR between our xTRs, our RTR between its xTRs, its xTR with our PETR.
// docs/interoperability.md tells which of them needs which setting.

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// rtrRLOC is the RLOC of the router between the sites.
func rtrRLOC(over coreFamily) string { return rlocOf("rtr1", over.name == "ipv6") }

// siteRLOC is the RLOC of a site's router.
func siteRLOC(over coreFamily, number int) string {
	return []string{over.xtr1, over.remote}[number-1]
}

// pathXTR is a site of ours whose EID-Prefixes have one explicit locator path, by the router between the sites.
func (n *lispNetwork) pathXTR(number int, over coreFamily) string {
	return n.xtrWithPath(number, over, rtrRLOC(over), siteRLOC(over, number))
}

// xtrWithPath is one whose path has these two hops.
func (n *lispNetwork) xtrWithPath(number int, over coreFamily, relay, last string) string {
	s := testSite{number}
	path := fmt.Sprintf("[{explicit-locator-path: ['%s', {address: '%s', lrs-bits: [rloc-probe]}]}]", relay, last)
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\n"+
		"itr: {map-resolvers: ['%s'], rloc-probing: {interval: 1s, retries-interval: 200ms, accept-non-authoritative: true}}\n"+
		"etr:\n  map-servers:\n    - {ms-address: '%s', authentication-keys: [{auth-key-value: %s}]}\n  local-eids: [{eid: %s, rlocs: %s}, {eid: '%s', rlocs: %s}]\n",
		over.mapServer, over.mapServer, siteKey(number), s.eid4(), path, s.eid6(), path) + n.common(s.name())
}

// oorRTR is OpenOverlayRouter's RTR with RLOCs of these families.
func oorRTR(mapResolver string, families ...string) string {
	text := "operating-mode = RTR\nmap-resolver = {\n " + mapResolver + "\n}\nrtr-ifaces {\n"
	for _, family := range families {
		text += " rtr-iface {\n  iface = core0\n  ip_version = " + strings.TrimPrefix(family, "ipv") + "\n  priority = 1\n  weight = 100\n }\n"
	}
	return text + "}\n"
}

func TestInteropPathByOpenOverlayRouter(t *testing.T) { overEachInTurn(t, pathByOpenOverlayRouter) }

func pathByOpenOverlayRouter(t *testing.T, over coreFamily) {
	n := newRelayNetwork(t, "rtr1")
	n.run("ms", n.mappingSystem())
	stop := n.runOOR("rtr1", oorRTR(over.mapServer, over.name))
	n.run("xtr1", n.pathXTR(1, over))
	n.run("xtr2", n.pathXTR(2, over))
	n.awaitRegistrations(4)
	n.softwareChecksums()
	n.reachByRelay(over)
	// Neither hop is strict: when the relay answers no probe, each site sends to the other one itself.
	stop()
	n.await("xtr1 skips the relay", func(ctx context.Context) bool {
		list, err := n.client("xtr1").MapCache(ctx)
		return err == nil && len(list) == 2 && nextHopIs(list[0], over.remote) && nextHopIs(list[1], over.remote)
	})
	n.reachAgain("the relay is gone")
}

// TestInteropPathOfTwoFamilies: packets reach OpenOverlayRouter's RTR in one family, and leave it in the other one.
func TestInteropPathOfTwoFamilies(t *testing.T) {
	testnet.RequireProgram(t, "oor")
	n := newRelayNetwork(t, "rtr1")
	four, six := coreFamilies[0], coreFamilies[1]
	n.run("ms", n.mappingSystem())
	n.runOOR("rtr1", oorRTR(four.mapServer, "ipv4", "ipv6"))
	n.run("xtr1", n.xtrWithPath(1, four, rtrRLOC(six), four.xtr1))
	n.run("xtr2", n.xtrWithPath(2, four, rtrRLOC(four), six.remote))
	n.awaitRegistrations(4)
	n.softwareChecksums()
	// OpenOverlayRouter tells no host that packets grow by the longer header: they are dropped.
	n.must(n.at["host1"].SetMTU("eth0", 1400))
	n.must(n.at["host2"].SetMTU("eth0", 1400))
	n.exchange("host1", "host2", testSite{1}.host4(), testSite{2}.host4())
	n.exchange("host2", "host1", testSite{2}.host6(), testSite{1}.host6())
}

// TestInteropOpenOverlayRouterRefusesLookup: OpenOverlayRouter does not know hops with the bit L, and discards the whole Map-Reply.
func TestInteropOpenOverlayRouterRefusesLookup(t *testing.T) {
	testnet.RequireProgram(t, "oor")
	n := newRelayNetwork(t, "rtr1")
	four := coreFamilies[0]
	n.run("ms", n.mappingSystem())
	n.runOOR("rtr1", oorRTR(four.mapServer, "ipv4"))
	n.run("xtr1", n.xtrBehindRTR(1, "[{address: "+rtrRLOC(four)+"}]"))
	n.run("xtr2", strings.ReplaceAll(n.pathXTR(2, four), "rloc-probe]", "lookup]"))
	n.awaitRegistrations(4)
	if received := n.tryPing("host1", testSite{1}.host4(), testSite{2}.host4(), 3); received != 0 {
		t.Errorf("%d requests were answered", received)
	}
	n.await("the RTR refuses the mapping", func(context.Context) bool { return strings.Contains(n.logs["rtr1"].String(), "ELP with the L bit set") })
}

// nextHopIs tells whether a mapping has one path, which this router enters at an RLOC.
func nextHopIs(e api.MapCacheEntry, rloc string) bool {
	return len(e.Locators) == 1 && e.Locators[0].NextHop != nil && e.Locators[0].NextHop.String() == rloc
}

// softwareChecksums makes the hosts finish their checksums: an implementation in user space cannot know that a veth does not.
func (n *lispNetwork) softwareChecksums() {
	n.t.Helper()
	n.must(n.at["host1"].SetOffload("eth0", testnet.TxChecksum, false))
	n.must(n.at["host2"].SetOffload("eth0", testnet.TxChecksum, false))
}

// reachByRelay pings and transfers in both directions and families. Every encapsulated packet of a site goes to the router between them.
func (n *lispNetwork) reachByRelay(over coreFamily) {
	n.t.Helper()
	first, second := n.watchCore("xtr1"), n.watchCore("xtr2")
	one, two := testSite{1}, testSite{2}
	for _, c := range []struct {
		from, to            string
		source, destination netip.Addr
	}{
		{"host1", "host2", one.host4(), two.host4()}, {"host2", "host1", two.host4(), one.host4()},
		{"host1", "host2", one.host6(), two.host6()}, {"host2", "host1", two.host6(), one.host6()},
	} {
		n.exchange(c.from, c.to, c.source, c.destination)
	}
	for _, w := range []*lispPackets{first, second} {
		if relayed, others := w.shareTo(rtrRLOC(over)); others > 0 || relayed < 40 {
			n.t.Errorf("%d of a site's packets went to the relay, %d to others", relayed, others)
		}
	}
}

// shareTo is how many packets went to an address, and how many to others, at one moment.
func (w *lispPackets) shareTo(a string) (count, others int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for to, seen := range w.seen {
		if to == netip.MustParseAddr(a) {
			count = seen
		} else {
			others += seen
		}
	}
	return count, others
}

// oorXTR is OpenOverlayRouter at a site. Each EID-Prefix has the locator that text names.
func oorXTR(number int, over coreFamily, rest, locator string) string {
	text := fmt.Sprintf("operating-mode = xTR\nmap-resolver = {\n %s\n}\nmap-server {\n address = %s\n key-type = 1\n key = %s\n proxy-reply = off\n}\n"+
		"rloc-probing {\n rloc-probe-interval = 3\n rloc-probe-retries = 2\n rloc-probe-retries-interval = 1\n}\n", over.mapServer, over.mapServer, siteKey(number)) + rest
	for _, prefix := range []string{testSite{number}.eid4(), testSite{number}.eid6()} {
		text += fmt.Sprintf("database-mapping {\n eid-prefix = %s\n iid = 0\n ttl = 10\n %s\n}\n", prefix, locator)
	}
	return text
}

// oorPathXTR is OpenOverlayRouter at a site whose EID-Prefixes have one explicit locator path, by the router between the sites.
func oorPathXTR(number int, over coreFamily) string {
	path := "explicit-locator-path {\n elp-name = by-the-relay\n"
	for _, hop := range []string{rtrRLOC(over), siteRLOC(over, number)} {
		path += " elp-node {\n  address = " + hop + "\n  strict = false\n  probe = false\n  lookup = false\n }\n"
	}
	return oorXTR(number, over, path+"}\n", "rloc-address {\n  address = by-the-relay\n  priority = 1\n  weight = 100\n }")
}

// oorSites is a mapping system of ours for sites with OpenOverlayRouter.
func (n *lispNetwork) oorSites(numbers ...int) string {
	text := n.mappingSystem()
	for _, number := range numbers {
		text = strings.Replace(text, "authentication-keys: [{auth-key-value: "+siteKey(number)+"}]",
			"accept-any-nonce: true\n      authentication-keys: [{auth-algorithm-id: hmac-sha-1-96, auth-key-value: "+siteKey(number)+"}]", 1)
	}
	return text
}

func TestInteropPathBetweenOpenOverlayRouters(t *testing.T) {
	overEachInTurn(t, pathBetweenOpenOverlayRouters)
}

func pathBetweenOpenOverlayRouters(t *testing.T, over coreFamily) {
	n := newRelayNetwork(t, "rtr1")
	n.run("ms", n.oorSites(1, 2))
	n.run("rtr1", strings.Replace(n.rtr("rtr1", testSite{1}.eid4(), testSite{1}.eid6()), "[172.16.9.2]", "['"+over.mapServer+"']", 1))
	n.runOOR("xtr1", oorPathXTR(1, over))
	n.runOOR("xtr2", oorPathXTR(2, over))
	n.awaitRegistrations(4)
	n.softwareChecksums()
	n.reachByRelay(over)
}

// TestInteropOpenOverlayRouterWithProxies: a host outside LISP stands behind our proxy ETR, which is its proxy ITR too. EIDs of both
// families reach it over RLOCs of either. Shows RFC 6832 s.5.2 (1), (2), (4), RFC 6832 s.6 (1), (3), RFC 6832 s.6.1 (3), (5).
func TestInteropOpenOverlayRouterWithProxies(t *testing.T) {
	overEachInTurn(t, openOverlayRouterWithProxies)
}

func openOverlayRouterWithProxies(t *testing.T, over coreFamily) {
	n := newRelayNetwork(t, "rtr1")
	outside4, outside6 := n.buildOutside()
	n.must(n.at["rtr1"].Forward())
	n.run("ms", n.oorSites(2))
	two := testSite{2}
	served := fmt.Sprintf("{serve: [{eid-prefixes: [%s, '%s']}]}", two.eid4(), two.eid6())
	n.run("rtr1", fmt.Sprintf("interfaces: {core: [core0, net0]}\nitr: {map-resolvers: ['%s']}\npitr: %s\npetr: %s\n", over.mapServer, served, served)+n.common("rtr1"))
	n.runOOR("xtr2", oorXTR(2, over, oorProxyETR(over),
		"rloc-iface {\n  interface = core0\n  ip_version = "+strings.TrimPrefix(over.name, "ipv")+"\n  priority = 1\n  weight = 100\n }"))
	n.awaitRegistrations(2)
	n.softwareChecksums()
	n.must(n.at["outside"].SetOffload("eth0", testnet.TxChecksum, false))
	core := n.watchCore("xtr2")
	n.exchange("host2", "outside", two.host4(), outside4)
	n.exchange("outside", "host2", outside6, two.host6())
	n.exchange("outside", "host2", outside4, two.host4())
	n.exchange("host2", "outside", two.host6(), outside6)
	if proxied, others := core.shareTo(rtrRLOC(over)); others > 0 || proxied < 40 {
		t.Errorf("%d of the site's packets went to the proxy ETR, %d to others", proxied, others)
	}
	counters := n.dataPlane("rtr1").DataPlane
	if counters["proxied_packets_total"] < 40 || counters["native_packets_total"] < 40 {
		t.Errorf("the proxy's counters: %v", counters)
	}
}

// oorProxyETR names the router between the sites as proxy ETR for EIDs of each family.
func oorProxyETR(over coreFamily) (text string) {
	for _, family := range []string{"ipv4", "ipv6"} {
		text += "proxy-etr-" + family + " {\n address = " + rtrRLOC(over) + "\n priority = 1\n weight = 100\n}\n"
	}
	return text
}

// buildOutside joins a host outside LISP to the router between the sites.
func (n *lispNetwork) buildOutside() (host4, host6 netip.Addr) {
	n.t.Helper()
	var err error
	n.at["outside"], err = n.net.Namespace("outside")
	n.must(err)
	n.link("rtr1", "net0", "outside", "eth0", "203.0.113.1/24", "203.0.113.10/24", "2001:db8:113::1/64", "2001:db8:113::10/64")
	n.defaults("outside", "203.0.113.1", "2001:db8:113::1")
	// The proxy's address there is an RLOC as well: OpenOverlayRouter answers Map-Requests to it.
	n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("203.0.113.0/24"), Via: netip.MustParseAddr(rlocOf("rtr1", false))}))
	n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("2001:db8:113::/64"), Via: netip.MustParseAddr(rlocOf("rtr1", true))}))
	return netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("2001:db8:113::10")
}
