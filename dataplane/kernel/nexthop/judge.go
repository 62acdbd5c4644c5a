// SPDX-License-Identifier: Apache-2.0

// This file judges whether this host's rules and routes lead packets to all addresses
// of an EID-Prefix by one gateway, from every sender and with every TOS
// (bpf/abi.h, LISP_MAPPING_SINGLE_NEXT_HOP): when in doubt, they do not. It reads nothing and
// changes nothing. Which gateway that is, the kernel is asked, again and again.

package nexthop

import (
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// route is what counts of a route.
type route struct {
	table   uint32
	kind    uint8 // unix.RTN_UNICAST and so on
	prefix  netip.Prefix
	gateway bool // the same gateway for every packet that the route is for
	unused  bool // its link is down: the kernel passes it by
}

// verdict is what was found of an EID-Prefix.
type verdict struct {
	led     bool // a route leads all of it to a gateway
	divided bool // some addresses, sources or TOS may go another way
}

// judge collects what rules and routes mean to EID-Prefixes.
type judge struct {
	verdicts map[netip.Prefix]*verdict
	sorted   []netip.Prefix // in the order of their addresses, IPv4 first
	lengths  []int          // of prefixes, ascending
	incoming string         // interface by which packets count as come in
	own      []netip.Addr   // which no packet from elsewhere has as its source
}

func newJudge(prefixes []netip.Prefix, incoming string, own []netip.Addr) *judge {
	j := &judge{verdicts: make(map[netip.Prefix]*verdict, len(prefixes)), incoming: incoming, own: own}
	for _, p := range prefixes {
		if j.verdicts[p] == nil {
			j.verdicts[p] = &verdict{}
			j.sorted = append(j.sorted, p)
			j.lengths = append(j.lengths, p.Bits())
		}
	}
	slices.SortFunc(j.sorted, comparePlaces)
	slices.Sort(j.lengths)
	j.lengths = slices.Compact(j.lengths)
	return j
}

func comparePlaces(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// takeRules judges by the rules of a family in their order. Those after an
// unconditional one for the main table count only while the main table has no route,
// which takeRoute sees.
func (j *judge) takeRules(family int, rules []netlink.Rule) {
	all := everyAddress(family)
	for i := range rules {
		r := &rules[i]
		switch {
		case j.neverMatches(r):
		case r.Table == unix.RT_TABLE_MAIN && isUnconditional(r):
			return
		case r.Table == unix.RT_TABLE_LOCAL && isUnconditional(r): // takeRoute sees what is there
		case r.Dst != nil && !r.Invert:
			j.divide(prefixOfNet(r.Dst))
		default:
			j.divide(all)
		}
	}
	j.divide(all)
}

func everyAddress(family int) netip.Prefix {
	if family == unix.AF_INET {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// neverMatches reports whether a rule is for other packets than those of the site.
func (j *judge) neverMatches(r *netlink.Rule) bool {
	if r.Invert {
		return false
	}
	if source := prefixOfNet(r.Src); source.IsSingleIP() && slices.Contains(j.own, source.Addr()) {
		return true
	}
	mark := r.Mark
	if r.Mask != nil {
		mark &= *r.Mask
	}
	return r.IifName != "" && r.IifName != j.incoming || r.OifName != "" || mark != 0
}

// isUnconditional reports whether a rule holds for every packet, and every route of its table.
func isUnconditional(r *netlink.Rule) bool {
	return !r.Invert && r.Src == nil && r.Dst == nil && r.IifName == "" && r.Tos == 0 && r.Mark == 0 && r.Mask == nil && r.TunID == 0 &&
		r.SuppressPrefixlen < 0 && r.SuppressIfgroup < 0 && r.IPProto <= 0 && r.Sport == nil && r.Dport == nil && r.UIDRange == nil &&
		r.Goto < 0 && (r.Type == unix.RTN_UNSPEC || r.Type == unix.RTN_UNICAST)
}

func prefixOfNet(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	address, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits)
}

// takeRoute judges by a route.
func (j *judge) takeRoute(r route) {
	if r.table != unix.RT_TABLE_MAIN && r.table != unix.RT_TABLE_LOCAL {
		return
	}
	for _, v := range j.touched(r.prefix) {
		covers := r.prefix.Bits() <= v.prefix.Bits()
		switch {
		case r.table == unix.RT_TABLE_LOCAL || !covers || r.kind == unix.RTN_THROW || r.kind == unix.RTN_UNICAST && !r.gateway:
			v.verdict.divided = true
		case r.kind == unix.RTN_UNICAST && !r.unused:
			v.verdict.led = true
		}
	}
}

// divide says that packets to some addresses of a prefix may go another way.
func (j *judge) divide(prefix netip.Prefix) {
	for _, v := range j.touched(prefix) {
		v.verdict.divided = true
	}
}

type touchedPrefix struct {
	prefix  netip.Prefix
	verdict *verdict
}

// touched are the EID-Prefixes that have addresses in common with a prefix.
func (j *judge) touched(prefix netip.Prefix) (found []touchedPrefix) {
	for _, bits := range j.lengths {
		if bits >= prefix.Bits() {
			break
		}
		if around, err := prefix.Addr().Prefix(bits); err == nil && j.verdicts[around] != nil {
			found = append(found, touchedPrefix{around, j.verdicts[around]})
		}
	}
	from, _ := slices.BinarySearchFunc(j.sorted, prefix.Masked(), comparePlaces)
	for _, within := range j.sorted[from:] {
		if !prefix.Contains(within.Addr()) {
			break
		}
		found = append(found, touchedPrefix{within, j.verdicts[within]})
	}
	return found
}

// single reports the verdict on an EID-Prefix.
func (j *judge) single(prefix netip.Prefix) bool {
	v := j.verdicts[prefix]
	return v != nil && v.led && !v.divided
}
