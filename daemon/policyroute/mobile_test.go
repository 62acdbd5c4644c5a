// SPDX-License-Identifier: Apache-2.0

package policyroute

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

// mobileHost is a host with a LISP interface and a link with a default route.
func mobileHost(t *testing.T) (*testnet.Namespace, Policy) {
	t.Helper()
	ns, r := routedHost(t)
	eids := []netip.Addr{netip.MustParseAddr("10.7.0.7"), netip.MustParseAddr("fd00:7::7")}
	r.mobile = mobileNode{addresses: eids, defaultRoute: true}
	r.prefixes = nil
	for _, a := range eids {
		r.prefixes = append(r.prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return ns, r
}

// standing are the addresses of the LISP interface, and whether each is ours.
func standing(t *testing.T, ns *testnet.Namespace, r Policy) (at map[netip.Addr]bool) {
	t.Helper()
	apply(t, ns, func() error {
		link, err := netlink.LinkByName(r.link)
		if err != nil {
			return err
		}
		at, err = addressesAt(link.Attrs().Index, markOf(r.protocol))
		return err
	})
	maps.DeleteFunc(at, func(a netip.Addr, _ bool) bool { return a.IsLinkLocalUnicast() })
	return at
}

// TestMobileNodeInTheHost: addresses and rules are made once, follow the configuration, and go; others' stay.
func TestMobileNodeInTheHost(t *testing.T) {
	ns, r := mobileHost(t)
	foreign := netip.MustParseAddr("10.7.0.99")
	if err := ns.AddAddress("loci0", netip.PrefixFrom(foreign, 32)); err != nil {
		t.Fatal(err)
	}
	apply(t, ns, r.put)
	rules, _ := ownState(t, ns, r)
	apply(t, ns, r.put) // as a second start does
	if again, _ := ownState(t, ns, r); len(again) != len(rules) {
		t.Errorf("%d rules, then %d", len(rules), len(again))
	}
	var text []string
	for _, rule := range rules {
		text = append(text, rule.String())
	}
	for _, want := range []string{
		"4344: iif lo lookup 4341", "4342: iif lo lookup 254", "4342: iif lo ipproto udp dport 67 lookup 254",
		"4342: iif lo ipproto udp dport 547 lookup 254", "4342: iif lo ipproto udp dport 4341-4342 lookup 254",
		"4343: iif lo ipproto udp dport 4341-4342 unreachable", "4343: iif lo ipproto udp dport 67 unreachable",
	} {
		if !strings.Contains(strings.Join(text, "\n")+"\n", want+"\n") {
			t.Errorf("no rule %q among %q", want, text)
		}
	}
	if at := standing(t, ns, r); !at[r.mobile.addresses[0]] || !at[r.mobile.addresses[1]] || at[foreign] {
		t.Errorf("addresses %v", at)
	}
	r.mobile.addresses, r.mobile.defaultRoute = r.mobile.addresses[:1], false
	r.mobile.prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	apply(t, ns, r.put)
	if at := standing(t, ns, r); len(at) != 2 {
		t.Errorf("after an EID left: %v", at)
	}
	r.mobile = mobileNode{}
	apply(t, ns, r.put) // as a start without mobile-node after a crash
	if at := standing(t, ns, r); len(at) != 1 {
		t.Errorf("without a mobile node: %v", at)
	}
	apply(t, ns, r.Remove)
	if rules, routes := ownState(t, ns, r); len(rules)+len(routes) > 0 {
		t.Errorf("left behind: %v, %v", rules, routes)
	}
	if _, stays := standing(t, ns, r)[foreign]; !stays {
		t.Error("the address of others is gone")
	}
}

// TestAddressesWithoutProtocol: where addresses have no protocol number, as before Linux 5.18, ours go, and others' stay.
func TestAddressesWithoutProtocol(t *testing.T) {
	ns, r := mobileHost(t)
	r.listAddresses = func(link int, m mark) (map[netip.Addr]bool, error) { return addressesAt(link, mark{metric: m.metric}) }
	foreign := netip.MustParseAddr("10.7.0.99")
	if err := ns.AddAddress("loci0", netip.PrefixFrom(foreign, 32)); err != nil {
		t.Fatal(err)
	}
	apply(t, ns, r.put)
	r.mobile.addresses = r.mobile.addresses[:1]
	apply(t, ns, r.put)
	if at := standing(t, ns, r); len(at) != 2 {
		t.Errorf("after an EID left: %v", at)
	}
	apply(t, ns, r.Remove)
	if at := standing(t, ns, r); len(at) != 1 {
		t.Errorf("after the end: %v", at)
	}
}

// TestKernelWithoutPortRules: such a kernel gets no rule that it would take for one of all packets, and that is told.
func TestKernelWithoutPortRules(t *testing.T) {
	ns, r := mobileHost(t)
	for release, want := range map[string]bool{
		"4.16.18": false, "3.10.0-1160.el7": false, "4.17.0": true, "4.19.1-rt": true, "6.1": true, "": true, "unknown": true,
	} {
		if m := r.mobile.onKernel(release); m.defaultRoute != want || m.withoutPorts == want {
			t.Errorf("%s: %+v", release, m)
		}
	}
	r.mobile = r.mobile.onKernel("4.14.0")
	var warnings []string
	apply(t, ns, func() (err error) { warnings, err = r.apply(); return err })
	if rules, _ := ownState(t, ns, r); slices.ContainsFunc(rules, func(k ruleKey) bool { return k.unreachable || k.ports != portRange{} }) {
		t.Errorf("rules %v", rules)
	}
	if !strings.Contains(strings.Join(warnings, "\n"), "Linux 4.17") || len(standing(t, ns, r)) != 2 {
		t.Errorf("warnings %q", warnings)
	}
}
