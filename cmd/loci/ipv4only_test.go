// SPDX-License-Identifier: Apache-2.0

package main_test

// Hosts without IPv6: it is switched off for all interfaces before there is any, so that loci0 has none either.

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/daemon/api"
	"loci/internal/testnet"
)

// newIPv4Network is the network of the other tests without a single IPv6 address.
func newIPv4Network(t *testing.T) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "xtr2", "host1", "host2")
	for _, ns := range n.at {
		for _, which := range []string{"all", "default"} {
			n.must(ns.SetSysctl("net.ipv6.conf."+which+".disable_ipv6", "1"))
		}
	}
	n.linkIPv4("core", "to-ms", "ms", "core0", "172.16.9.1/30", "172.16.9.2/30")
	n.must(n.at["core"].SetSysctl("net.ipv4.ip_forward", "1"))
	for i := 1; i <= 2; i++ {
		xtr, host := fmt.Sprintf("xtr%d", i), fmt.Sprintf("host%d", i)
		n.linkIPv4("core", "to-"+xtr, xtr, "core0", fmt.Sprintf("172.16.%d.1/30", i), fmt.Sprintf("172.16.%d.2/30", i))
		n.linkIPv4(xtr, "site0", host, "eth0", fmt.Sprintf("10.%d.0.1/24", i), fmt.Sprintf("10.%d.0.10/24", i))
		n.must(n.at[xtr].SetSysctl("net.ipv4.ip_forward", "1"))
		n.defaultIPv4(xtr, fmt.Sprintf("172.16.%d.1", i))
		n.defaultIPv4(host, fmt.Sprintf("10.%d.0.1", i))
	}
	n.defaultIPv4("ms", "172.16.9.1")
	return n
}

func (n *lispNetwork) linkIPv4(a, linkA, b, linkB, addressA, addressB string) {
	n.t.Helper()
	n.must(testnet.Connect(
		testnet.End{Namespace: n.at[a], Name: linkA, Addresses: []netip.Prefix{netip.MustParsePrefix(addressA)}},
		testnet.End{Namespace: n.at[b], Name: linkB, Addresses: []netip.Prefix{netip.MustParsePrefix(addressB)}}))
}

func (n *lispNetwork) defaultIPv4(role, via string) {
	n.t.Helper()
	n.must(n.at[role].AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(via)}))
}

// TestHostWithoutIPv6 starts routers without IPv6, which forward, survive a crash, and stop and leave nothing behind.
func TestHostWithoutIPv6(t *testing.T) {
	n := newIPv4Network(t)
	withoutIPv6 := func(text string, number int) string {
		return strings.ReplaceAll(text, fmt.Sprintf(", {eid: '%s'}", testSite{number}.eid6()), "")
	}
	one, two := testSite{1}, testSite{2}
	n.run("ms", withoutIPv6(withoutIPv6(n.mappingSystem(), 1), 2))
	n.run("xtr1", withoutIPv6(n.xtr(1), 1))
	n.run("xtr2", withoutIPv6(n.xtr(2), 2))
	n.awaitRegistrations(2)
	n.ping("host1", one.host4(), two.host4(), 5)
	n.ping("xtr1", one.router4(), two.host4(), 3)
	n.ping("host2", two.host4(), one.router4(), 3)

	n.kill("xtr1")
	n.ping("host1", one.host4(), two.host4(), 3)
	n.start("xtr1")
	n.ping("host1", one.host4(), two.host4(), 3)

	var status api.Status
	n.show("xtr1", &status, "status")
	if len(status.Warnings)+len(status.Missing) != 0 {
		t.Errorf("status: warnings %q, missing %q, want none: the configuration is of IPv4 alone", status.Warnings, status.Missing)
	}
	n.stop("xtr1", n.daemons["xtr1"])
	for name, log := range n.logs {
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
				t.Errorf("%s logs: %s", name, line)
			}
		}
	}
	n.must(n.at["xtr1"].Do(func() error {
		rules, err := netlink.RuleList(netlink.FAMILY_ALL)
		for _, rule := range rules {
			if rule.Table != 255 && rule.Table != 254 && rule.Table != 253 {
				t.Errorf("left behind: rule %s", rule)
			}
		}
		return err
	}))
	if links, err := n.at["xtr1"].Netlink().LinkList(); err != nil || len(links) != 3 {
		t.Errorf("links after the stop: %v, %v, want lo, core0 and site0", links, err)
	}
}
