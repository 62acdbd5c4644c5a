// SPDX-License-Identifier: Apache-2.0

package main_test

// A site, and a host that knows nothing of LISP: packets to the site come by a PITR, those from it leave by a PETR. The provider of the
// site has one family, EIDs and the outside have both.

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lisp"
)

var (
	outside4 = netip.MustParseAddr("198.51.100.10")
	outside6 = netip.MustParseAddr("2001:db8:ffff::10")
)

// newProxyNetwork has a core of one family, a network outside LISP of both, and a PITR and a PETR between them.
//
//	host1 --- xtr1 --- core --- petr --- net --- outside
//	                   / | \--- pitr ---/ |
//	                 ms  \---------------/
func newProxyNetwork(t *testing.T, over coreFamily) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "host1", "petr", "pitr", "net", "outside")
	for _, router := range []string{"core", "xtr1", "petr", "pitr", "net"} {
		n.must(n.at[router].Forward())
	}
	for _, router := range []string{"ms", "xtr1", "petr", "pitr", "net"} {
		n.plugRouterOver(router, over)
	}
	outside, core, everything := "198.51.100.0/24", "172.16.1.1", "0.0.0.0/0"
	if over.name == "ipv6" {
		outside, core, everything = "2001:db8:ffff::/64", "2001:db8:1::1", "::/0"
	}
	n.must(n.at["core"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(outside), Via: netip.MustParseAddr(rlocOf("net", over.name == "ipv6"))}))
	n.must(n.at["xtr1"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(everything), Via: netip.MustParseAddr(core)}))
	n.plugHost(1)
	n.link("net", "to-petr", "petr", "net0", "203.0.113.1/30", "203.0.113.2/30", "fd01:1::1/64", "fd01:1::2/64")
	n.link("net", "to-pitr", "pitr", "net0", "203.0.113.5/30", "203.0.113.6/30", "fd01:2::1/64", "fd01:2::2/64")
	n.link("net", "to-outside", "outside", "eth0", "198.51.100.1/24", "198.51.100.10/24", "2001:db8:ffff::1/64", "2001:db8:ffff::10/64")
	n.defaults("outside", "198.51.100.1", "2001:db8:ffff::1")
	n.defaults("petr", "203.0.113.1", "fd01:1::1")
	n.defaults("pitr", "203.0.113.5", "fd01:2::1")
	for prefix, via := range map[string]string{"10.1.0.0/24": "203.0.113.6", "fd00:1::/64": "fd01:2::2"} { // only here it is known where EIDs are
		n.must(n.at["net"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(prefix), Via: netip.MustParseAddr(via)}))
	}
	return n
}

// plugRouterOver joins a router to a core of one family; the routers' addresses are reached by it.
func (n *lispNetwork) plugRouterOver(router string, over coreFamily) {
	n.t.Helper()
	core, own, all := "172.16."+subnets[router]+".1/30", rlocOf(router, false)+"/30", "172.16.0.0/16"
	if over.name == "ipv6" {
		core, own, all = "2001:db8:"+subnets[router]+"::1/64", rlocOf(router, true)+"/64", "2001:db8::/40"
	}
	n.linkIPv4("core", "to-"+router, router, "core0", core, own)
	n.must(n.at[router].AddRoute(testnet.Route{Destination: netip.MustParsePrefix(all), Via: netip.MustParsePrefix(core).Addr()}))
}

// siteWithPETR is the configuration of the site's router.
func (n *lispNetwork) siteWithPETR(over coreFamily) string {
	return fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\nitr: {map-resolvers: ['%s'], proxy-etrs: [{address: '%s'}]}\n"+
		"etr:\n  map-servers:\n    - ms-address: '%s'\n      authentication-keys: [{auth-key-value: %s}]\n  local-eids: [{eid: 10.1.0.0/24}, {eid: 'fd00:1::/64'}]\n",
		over.mapServer, rlocOf("petr", over.name == "ipv6"), over.mapServer, siteKey(1)) + n.common("xtr1")
}

// proxy is the configuration of a PITR, or of a PETR, for site 1.
func (n *lispNetwork) proxy(name string, over coreFamily) string {
	const serve = ": {serve: [{eid-prefixes: [10.1.0.0/24, 'fd00:1::/64']}]}\n"
	if name == "petr" {
		return "interfaces: {core: [core0]}\npetr" + serve + n.common(name)
	}
	return fmt.Sprintf("interfaces: {site: [net0], core: [core0]}\nitr: {map-resolvers: ['%s']}\npitr", over.mapServer) + serve + n.common(name)
}

// transfer sends a mebioctet by TCP.
func (n *lispNetwork) transfer(from, to string, source, destination netip.Addr) {
	n.t.Helper()
	_, err := testnet.TCP{Client: n.at[from], Source: source, Server: n.at[to], Destination: destination, Octets: 1 << 20, Verify: true}.Run(n.t.Context())
	n.must(err)
}

// bothOutside does something with the addresses of the site's host and of the host outside, of each family.
func bothOutside(do func(site, outside netip.Addr)) {
	do(testSite{1}.host4(), outside4)
	do(testSite{1}.host6(), outside6)
}

// TestProxies: hosts inside and outside LISP begin connections to each other, also in the family that the provider lacks.
// Shows RFC 6832 s.5 (2), RFC 6832 s.5.2 (1), (2), (4), (5), (6), RFC 6832 s.6 (1), (2), (3), RFC 6832 s.6.1 (1), (3), (5).
func TestProxies(t *testing.T) { overEach(t, proxies) }

func proxies(t *testing.T, over coreFamily) {
	n := newProxyNetwork(t, over)
	n.run("ms", n.mappingSystem())
	n.run("petr", n.proxy("petr", over))
	n.run("pitr", n.proxy("pitr", over))
	n.run("xtr1", n.siteWithPETR(over))
	n.awaitRegistrations(2)
	bothOutside(func(site, outside netip.Addr) {
		n.ping("outside", outside, site, 5)
		n.ping("host1", site, outside, 5)
		n.transfer("outside", "host1", outside, site)
		n.transfer("host1", "outside", site, outside)
	})
	for name, counter := range map[string]string{"petr": "native_packets_total", "pitr": "proxied_packets_total"} {
		if c := n.dataPlane(name); c.DataPlane[counter] < 50 {
			t.Errorf("%s: %v, drops %v", name, c.DataPlane, c.Drops)
		}
		var status api.Status
		n.show(name, &status, "status")
		if len(status.Roles) == 0 || len(status.Warnings)+len(status.Missing) > 0 {
			t.Errorf("%s: roles %q, warnings %q, missing %q", name, status.Roles, status.Warnings, status.Missing)
		}
	}
	n.expectWords("xtr1", "explain "+outside4.String(), ": proxy-etr")
	n.expectWords("pitr", "explain 10.1.0.10 --from "+outside4.String(), ": encapsulate", "pitr: packets of hosts outside LISP to it are encapsulated")
	n.expectWords("petr", "explain "+outside6.String()+" --from fd00:1::10", ": native", "petr: a packet from fd00:1::10 that comes from the core is forwarded natively")
	if got := n.trace("pitr", strings.Fields("in net0 src 198.51.100.10 dst 10.1.0.10")...)[0]; got.Verdict != "encapsulate" {
		t.Errorf("traced at the PITR: %+v", got)
	}
	packet := "in core0 rloc " + over.xtr1 + " local " + rlocOf("petr", over.name == "ipv6") + " src fd00:1::10 dst 2001:db8:ffff::10"
	if got := n.trace("petr", strings.Fields(packet)...)[0]; got.Verdict != "stack" || !strings.Contains(fmt.Sprint(got.Steps), "petr: named") {
		t.Errorf("traced at the PETR: %+v", got)
	}

	// Without a PETR answers leave natively, where the provider has their family.
	n.reconfigure("xtr1", strings.Replace(n.siteWithPETR(over), ", proxy-etrs: [{address: '"+rlocOf("petr", over.name == "ipv6")+"'}]", "", 1))
	site, outside := testSite{1}.host4(), outside4
	if over.name == "ipv6" {
		site, outside = testSite{1}.host6(), outside6
	}
	n.await("packets leave the site natively", func(ctx context.Context) bool {
		e, err := n.client("xtr1").Explain(ctx, api.ExplainQuery{EID: lisp.EIDFromAddr(outside)})
		return err == nil && e.Outcome == api.OutcomeNative
	})
	before := n.dataPlane("petr").DataPlane["native_packets_total"]
	n.ping("outside", outside, site, 5)
	if after := n.dataPlane("petr").DataPlane["native_packets_total"]; after != before {
		t.Errorf("%d packets by the PETR, though the configuration names none", after-before)
	}
}

// TestProxyTellsWhatItsHostLacks: a kernel that forwards nothing, and one that takes packets of EIDs for forged because it has no
// route to them. Where both are mended, packets pass.
func TestProxyTellsWhatItsHostLacks(t *testing.T) {
	t.Parallel() // it mostly waits
	over := coreFamilies[1]
	n := newProxyNetwork(t, over)
	forward := func(value string) {
		n.must(n.at["petr"].SetSysctl("net.ipv4.ip_forward", value))
		n.must(n.at["petr"].SetSysctl("net.ipv6.conf.all.forwarding", value))
	}
	defaults := []testnet.Route{{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("203.0.113.1")}, {Destination: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fd01:1::1")}}
	forward("0")
	for _, r := range defaults {
		n.must(n.at["petr"].Netlink().RouteDel(&netlink.Route{Gw: r.Via.AsSlice()}))
	}
	n.must(n.at["petr"].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("203.0.113.1")}))
	n.run("ms", n.mappingSystem())
	n.run("pitr", n.proxy("pitr", over))
	n.run("xtr1", n.siteWithPETR(over))
	n.run("petr", n.proxy("petr", over))
	n.awaitRegistrations(2)
	for _, words := range []string{"net/ipv4/ip_forward is 0: packets are not forwarded natively", "net/ipv6/conf/all/forwarding is 0", "no route to 10.1.0.0/24: "} {
		n.await("petr warns: "+words, func(context.Context) bool { return n.warns("petr", words) })
	}
	if received := n.tryPing("host1", testSite{1}.host4(), outside4, 3); received != 0 {
		t.Errorf("%d answers, though the kernel drops what the PETR forwards", received)
	}
	forward("1")
	for _, r := range defaults {
		n.must(n.at["petr"].AddRoute(r))
	}
	n.await("no warning is left", func(context.Context) bool { return !n.warns("petr", "") })
	bothOutside(func(site, outside netip.Addr) { n.ping("host1", site, outside, 3) })
}
