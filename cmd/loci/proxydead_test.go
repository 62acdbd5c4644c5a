// SPDX-License-Identifier: Apache-2.0

package main_test

// Proxy ETRs are watched as other locators are: packets leave a dead one.

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
)

// TestDeadProxyETRIsLeft: of three, by priority, the first never was there, the second dies and returns, and the third takes its packets
// meanwhile.
func TestDeadProxyETRIsLeft(t *testing.T) { overEach(t, deadProxyETRIsLeft) }

func deadProxyETRIsLeft(t *testing.T, over coreFamily) {
	n := newProxyNetwork(t, over)
	six := over.name == "ipv6"
	absent, second, third := map[bool]string{false: "172.16.99.2", true: "2001:db8:99::2"}[six], rlocOf("petr", six), rlocOf("pitr", six)
	n.swallow(absent)
	n.run("ms", n.mappingSystem())
	n.run("petr", n.proxy("petr", over))
	n.run("pitr", strings.Replace(n.proxy("pitr", over), "control:\n", "petr: {serve: [{eid-prefixes: [10.1.0.0/24, 'fd00:1::/64']}]}\ncontrol:\n", 1))
	three := fmt.Sprintf("proxy-etrs: [{address: '%s'}, {address: '%s', priority: 2}, {address: '%s', priority: 3}]", absent, second, third)
	n.run("xtr1", strings.Replace(n.siteWithPETR(over), "proxy-etrs: [{address: '"+second+"'}]", "rloc-probing: {interval: 1s, retries: 2, retries-interval: 200ms}, "+three, 1))
	n.awaitRegistrations(2)
	bothOutside(func(site, outside netip.Addr) { n.awaitPing("host1", site, outside) })
	n.awaitLocatorUp("xtr1", second)
	n.awaitLocatorUp("xtr1", third)
	core := n.watchCore("xtr1")
	bothOutside(func(site, outside netip.Addr) { n.ping("host1", site, outside, 3) })
	n.await("they go to the second one, though the first never answered", func(context.Context) bool { count, _, _ := core.to(second); return count == 6 })
	n.expectProxyETR(absent, "")
	n.expectProxyETR(second, "up")
	n.expectProxyETR(third, "up")
	n.awaitHealthy("xtr1")

	restore := n.swallow(second)
	died := time.Now()
	bothOutside(func(site, outside netip.Addr) { n.awaitPing("host1", site, outside) })
	if took := time.Since(died); took > 10*time.Second {
		t.Errorf("packets arrive again after %s", took)
	}
	bothOutside(func(site, outside netip.Addr) { n.ping("host1", site, outside, 3) })
	n.awaitProblem("xtr1", "locator-unconfirmed", second)
	n.expectProxyETR(second, "unconfirmed")
	n.await("they go to the third one", func(context.Context) bool { count, _, _ := core.to(third); return count >= 6 })
	h, text := n.status("xtr1")
	if slices.ContainsFunc(h.Problems, func(p api.HealthProblem) bool { return p.Subject == absent }) {
		t.Errorf("one that never answered is a problem: %s", text)
	}
	restore()
	n.awaitLocatorUp("xtr1", second)
	n.awaitHealthy("xtr1")
}

// swallow has the core drop everything to an address, until the function is called.
func (n *lispNetwork) swallow(address string) (restore func()) {
	n.t.Helper()
	to := netip.MustParseAddr(address)
	route := &netlink.Route{Type: unix.RTN_BLACKHOLE, Dst: &net.IPNet{IP: to.AsSlice(), Mask: net.CIDRMask(to.BitLen(), to.BitLen())}}
	n.must(n.at["core"].Netlink().RouteAdd(route))
	return func() { n.must(n.at["core"].Netlink().RouteDel(route)) }
}

// expectProxyETR compares what loci show locators says of one; an empty state is one that is not up.
func (n *lispNetwork) expectProxyETR(rloc, state string) {
	n.t.Helper()
	l := n.locator(n.t.Context(), "xtr1", rloc)
	if !l.ProxyETR || state != "" && l.State != state || state == "" && l.State == "up" {
		n.t.Errorf("%s is %+v, want a proxy ETR that is %q", rloc, l, state)
	}
	text, _ := n.loci("xtr1", "show", "locators", "--socket", n.socket("xtr1"))
	if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.HasPrefix(line, rloc+" ") && strings.Contains(line, " "+state) && strings.Contains(line, "proxy ETR")
	}) {
		n.t.Errorf("loci show locators:\n%s", text)
	}
}
