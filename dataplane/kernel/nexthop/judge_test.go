// SPDX-License-Identifier: Apache-2.0

package nexthop

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// rule makes one from its priority on.
func rule(table int, change func(*netlink.Rule)) netlink.Rule {
	r := netlink.NewRule()
	r.Table = table
	if change != nil {
		change(r)
	}
	return *r
}

func netOf(text string) *net.IPNet {
	_, n, err := net.ParseCIDR(text)
	if err != nil {
		panic(err)
	}
	return n
}

func TestOneWay(t *testing.T) {
	const main, local = unix.RT_TABLE_MAIN, unix.RT_TABLE_LOCAL
	by := func(prefix string) route {
		return route{table: main, kind: unix.RTN_UNICAST, prefix: netip.MustParsePrefix(prefix), gateway: true}
	}
	usual := []netlink.Rule{rule(local, nil), rule(main, nil), rule(unix.RT_TABLE_DEFAULT, nil)}
	with := func(changes ...func(*netlink.Rule)) []netlink.Rule {
		rules := []netlink.Rule{usual[0]}
		for _, change := range changes {
			rules = append(rules, rule(4342, change))
		}
		return append(rules, usual[1:]...)
	}
	changed := func(r route, change func(*route)) route {
		change(&r)
		return r
	}
	mask := uint32(0xF0)
	for _, c := range []struct {
		why    string
		rules  []netlink.Rule
		routes []route
		want   bool
	}{
		{"a route of its own", usual, []route{by("10.9.0.0/16")}, true},
		{"a default route", usual, []route{by("0.0.0.0/0")}, true},
		{"several that cover it", usual, []route{by("0.0.0.0/0"), by("10.0.0.0/8")}, true},
		{"and others elsewhere", usual, []route{by("0.0.0.0/0"), by("10.8.0.0/16"), by("10.10.0.0/24")}, true},
		{"no route", usual, []route{by("10.8.0.0/16")}, false},
		{"a route within", usual, []route{by("10.9.0.0/16"), by("10.9.3.0/24")}, false},
		{"a host's route at its end", usual, []route{by("10.9.0.0/16"), by("10.9.255.255/32")}, false},
		{"one that refuses within", usual, []route{by("10.9.0.0/16"), changed(by("10.9.1.0/24"), func(r *route) { r.kind = unix.RTN_BLACKHOLE })}, false},
		{"one that refuses around", usual, []route{by("10.9.0.0/16"), changed(by("10.0.0.0/8"), func(r *route) { r.kind = unix.RTN_UNREACHABLE })}, true},
		{"one that gives up around", usual, []route{by("10.9.0.0/16"), changed(by("10.0.0.0/8"), func(r *route) { r.kind = unix.RTN_THROW })}, false},
		{"on the link", usual, []route{changed(by("10.9.0.0/16"), func(r *route) { r.gateway = false })}, false},
		{"by a link that is down", usual, []route{changed(by("10.9.0.0/16"), func(r *route) { r.unused = true })}, false},
		{"an address of this host", usual, []route{by("10.9.0.0/16"), {table: local, kind: unix.RTN_LOCAL, prefix: netip.MustParsePrefix("10.9.0.1/32")}}, false},
		{"all of it this host's", usual, []route{by("0.0.0.0/0"), {table: local, kind: unix.RTN_LOCAL, prefix: netip.MustParsePrefix("10.0.0.0/8")}}, false},
		{"a route within in another table", usual, []route{by("10.9.0.0/16"), changed(by("10.9.3.0/24"), func(r *route) { r.table = 77 })}, true},
		{"a rule", with(nil), []route{by("10.9.0.0/16")}, false},
		{"for what this host sends", with(func(r *netlink.Rule) { r.IifName = "lo" }), []route{by("10.9.0.0/16")}, true},
		{"for what comes by the TAP", with(func(r *netlink.Rule) { r.IifName = "loci0" }), []route{by("10.9.0.0/16")}, false},
		{"for all but that", with(func(r *netlink.Rule) { r.IifName, r.Invert = "lo", true }), []route{by("10.9.0.0/16")}, false},
		{"bound to an interface", with(func(r *netlink.Rule) { r.OifName = "eth9" }), []route{by("10.9.0.0/16")}, true},
		{"by a mark", with(func(r *netlink.Rule) { r.Mark = 7 }), []route{by("10.9.0.0/16")}, true},
		{"by marks that packets without have", with(func(r *netlink.Rule) { r.Mark, r.Mask = 7, &mask }), []route{by("10.9.0.0/16")}, false},
		{"by source", with(func(r *netlink.Rule) { r.Src = netOf("10.1.0.0/16") }), []route{by("10.9.0.0/16")}, false},
		{"by the source that is our RLOC", with(func(r *netlink.Rule) { r.Src = netOf("192.0.2.1/32") }), []route{by("10.9.0.0/16")}, true},
		{"by a network with our RLOC", with(func(r *netlink.Rule) { r.Src = netOf("192.0.2.0/24") }), []route{by("10.9.0.0/16")}, false},
		{"by TOS", with(func(r *netlink.Rule) { r.Tos = 8 }), []route{by("10.9.0.0/16")}, false},
		{"to others", with(func(r *netlink.Rule) { r.Dst = netOf("10.8.0.0/16") }), []route{by("10.9.0.0/16")}, true},
		{"to some of it", with(func(r *netlink.Rule) { r.Dst = netOf("10.9.8.0/24") }), []route{by("10.9.0.0/16")}, false},
		{"to more than it", with(func(r *netlink.Rule) { r.Dst = netOf("10.0.0.0/8") }), []route{by("10.9.0.0/16")}, false},
		{"to all but others", with(func(r *netlink.Rule) { r.Dst, r.Invert = netOf("10.8.0.0/16"), true }), []route{by("10.9.0.0/16")}, false},
		{"a main table without default routes", []netlink.Rule{rule(main, func(r *netlink.Rule) { r.SuppressPrefixlen = 0 })}, []route{by("10.9.0.0/16")}, false},
		{"no main table", usual[:1], []route{by("10.9.0.0/16")}, false},
	} {
		eid, other := netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("2001:db8:9::/48")
		j := newJudge([]netip.Prefix{other, eid, eid}, "loci0", []netip.Addr{netip.MustParseAddr("192.0.2.1")})
		j.takeRules(unix.AF_INET, c.rules)
		for _, r := range c.routes {
			j.takeRoute(r)
		}
		if got := j.single(eid); got != c.want {
			t.Errorf("%s: one way: %t", c.why, got)
		}
		if v := j.verdicts[other]; v.divided || v.led {
			t.Errorf("%s: means something to %v", c.why, other)
		}
	}
}

// TestWaysOfNestedPrefixes judges each of many EID-Prefixes by what touches it.
func TestWaysOfNestedPrefixes(t *testing.T) {
	parse := netip.MustParsePrefix
	prefixes := []netip.Prefix{parse("2001:db8:9::/48"), parse("2001:db8:9:1::/64"), parse("2001:db8:a::/48"), parse("10.9.0.0/16"), parse("::/0")}
	j := newJudge(prefixes, "loci0", nil)
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		j.takeRules(family, []netlink.Rule{rule(unix.RT_TABLE_MAIN, nil)})
	}
	for _, prefix := range []string{"::/0", "2001:db8:9:1:2::/80", "0.0.0.0/0"} {
		j.takeRoute(route{table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST, prefix: parse(prefix), gateway: true})
	}
	for _, prefix := range prefixes {
		want := prefix == parse("2001:db8:a::/48") || prefix == parse("10.9.0.0/16")
		if got := j.single(prefix); got != want {
			t.Errorf("%v: single next hop: %t", prefix, got)
		}
	}
	if j.single(parse("10.0.0.0/8")) {
		t.Error("a prefix that was not asked about has a single next hop")
	}
}
