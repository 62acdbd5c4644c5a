// SPDX-License-Identifier: Apache-2.0

// This file reads the routes of this host one by one, as far as judge.go looks at
// them, and tells what news of routes are about. A router may have a million of them:
// none is kept. It changes nothing.

package nexthop

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtaNextHopID is RTA_NH_ID, which refers to a next hop that may become several.
const rtaNextHopID = 30

// eachRoute calls f for every route of a family, in all tables. The calling thread is
// in the namespace.
func eachRoute(family int, f func(route)) error {
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(family)}})
	err := request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, func(message []byte) bool {
		if route, ok := parseRoute(message); ok {
			f(route)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	return nil
}

// parseRoute reads a message about a route; false when it is about none that leads
// packets by itself, such as what the kernel notes about single destinations.
func parseRoute(message []byte) (r route, ok bool) {
	if len(message) < unix.SizeofRtMsg {
		return r, false
	}
	header := nl.DeserializeRtMsg(message)
	attributes, err := nl.ParseRouteAttr(message[unix.SizeofRtMsg:])
	if err != nil || header.Flags&unix.RTM_F_CLONED != 0 {
		return r, false
	}
	r = route{table: uint32(header.Table), kind: header.Type, unused: header.Flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0}
	address, several := netip.IPv4Unspecified(), header.Tos != 0 || header.Src_len != 0
	if header.Family == unix.AF_INET6 {
		address = netip.IPv6Unspecified()
	}
	for _, a := range attributes {
		switch a.Attr.Type {
		case unix.RTA_DST:
			address, _ = netip.AddrFromSlice(a.Value)
		case unix.RTA_TABLE:
			if len(a.Value) == 4 {
				r.table = nl.NativeEndian().Uint32(a.Value)
			}
		case unix.RTA_GATEWAY, unix.RTA_VIA:
			r.gateway = true
		case unix.RTA_MULTIPATH, unix.RTA_ENCAP, rtaNextHopID:
			several = true
		}
	}
	r.gateway = r.gateway && !several
	r.prefix = netip.PrefixFrom(address, int(header.Dst_len))
	return r, r.prefix.IsValid()
}

// knowsRules reports whether nothing in the rules of a family is new to us, such as
// selectors of later kernels, which netlink.Rule does not tell of. The calling thread is
// in the namespace.
func knowsRules(family int) (known bool, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
	request.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(family)}})
	known = true
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWRULE, func(message []byte) bool {
		known = known && isKnownRule(message)
		return true
	})
	if err != nil {
		return false, fmt.Errorf("rules: %w", err)
	}
	return known, nil
}

func isKnownRule(message []byte) bool {
	if len(message) < unix.SizeofRtMsg {
		return false
	}
	attributes, err := nl.ParseRouteAttr(message[unix.SizeofRtMsg:])
	return err == nil && !slices.ContainsFunc(attributes, func(a syscall.NetlinkRouteAttr) bool {
		return a.Attr.Type > nl.FRA_DPORT_RANGE
	})
}

// routeNews is what a message of netlink means to the ways of EID-Prefixes: nothing,
// something to those that a prefix touches, or to all.
type routeNews struct {
	prefix netip.Prefix
	all    bool
}

// newsOf reads a message. Links matter when their flags change: routes by one that
// goes down may end without a word.
func newsOf(m syscall.NetlinkMessage) (news routeNews, ok bool) {
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		route, ok := parseRoute(m.Data)
		return routeNews{prefix: route.prefix}, ok
	case unix.RTM_NEWRULE, unix.RTM_DELRULE, unix.RTM_DELLINK:
		return routeNews{all: true}, true
	case unix.RTM_NEWLINK:
		if len(m.Data) < unix.SizeofIfInfomsg {
			return routeNews{}, false
		}
		return routeNews{all: true}, nl.DeserializeIfInfomsg(m.Data).Change != 0
	}
	return routeNews{}, false
}
