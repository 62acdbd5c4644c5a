// SPDX-License-Identifier: Apache-2.0

package policyroute

// Bringing the kernel's rules and routes into line with what should be there. All of
// ours carry one protocol number, so that a start finds what an earlier run left,
// whatever numbers it had in its configuration, and a detach removes it all. What has
// another number is never touched.

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/daemon/hostnet"
)

// ipv6Metric is what the kernel makes of no metric for IPv6.
const ipv6Metric = 1024

// apply makes the kernel's state what r says and touches nothing else. A setting, route or
// rule that the kernel refuses is a warning: all others are in force.
func (r Policy) apply() (warnings []string, err error) {
	rules, routes, err := r.wanted()
	if err != nil {
		return nil, err
	}
	var refused refusals
	// Routes first: a rule to an empty table would send packets on to the next rule.
	stale, err := r.addRoutes(routes, &refused)
	err = errors.Join(err, r.applyRules(rules, &refused), r.deleteRoutes(stale, &refused))
	return append(setSysctls(r.link, r.notes), refused.warnings()...), err
}

// Remove deletes every rule and route of ours and puts settings back.
func (r Policy) Remove() error {
	var refused refusals
	stale, err := r.ownRoutes()
	err = errors.Join(err, r.applyRules(nil, &refused), r.deleteRoutes(stale, &refused))
	return errors.Join(err, refused.err(), restoreSysctls(r.notes))
}

// ownRoutes lists the routes of ours in all tables.
func (r Policy) ownRoutes() ([]routeKey, error) {
	var keys []routeKey
	for _, family := range ipFamilies {
		filter := &netlink.Route{Table: unix.RT_TABLE_UNSPEC, Protocol: netlink.RouteProtocol(r.protocol)}
		routes, err := hostnet.Dump(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
		})
		if err != nil {
			return nil, fmt.Errorf("routes of protocol %d: %w", r.protocol, err)
		}
		for _, route := range routes {
			keys = append(keys, routeKeyOf(family, route))
		}
	}
	return keys, nil
}

// addRoutes adds or replaces what is missing and returns what is not wanted. What a refused route of EIDs should have replaced
// stays: without any route their packets would leave unencapsulated.
func (r Policy) addRoutes(wanted []routeKey, refused *refusals) (stale []routeKey, err error) {
	present, err := r.ownRoutes()
	if err != nil {
		return nil, err
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink: %w", err)
	}
	defer handle.Close()
	keep := map[routeKey]bool{}
	for _, key := range without(wanted, present) {
		if err := handle.RouteReplace(key.route(r.protocol)); err != nil {
			refused.route(key, r.sources.view, err)
			keep[placeOf(key)] = key.table == r.table
		}
	}
	return slices.DeleteFunc(without(present, wanted), func(key routeKey) bool { return keep[placeOf(key)] }), nil
}

// placeOf is what a route is replaced by.
func placeOf(k routeKey) routeKey {
	return routeKey{family: k.family, table: k.table, destination: k.destination}
}

// deleteRoutes ignores those that a replacement or an interface took along.
func (r Policy) deleteRoutes(stale []routeKey, refused *refusals) error {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	defer handle.Close()
	for _, key := range stale {
		if err := handle.RouteDel(key.route(r.protocol)); err != nil && !errors.Is(err, syscall.ESRCH) {
			refused.add(fmt.Sprintf("the route to %s stays in table %d, where it should not be: %v", key.destination, key.table, err))
		}
	}
	return nil
}

// applyRules adds what is missing first, so that no packet of an EID slips out
// by another route in between, then deletes what is ours and not wanted.
func (r Policy) applyRules(wanted []ruleKey, refused *refusals) error {
	present, err := r.ownRules()
	if err != nil {
		return err
	}
	for _, key := range without(wanted, present) {
		if err := key.change(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r.protocol); err != nil && !errors.Is(err, syscall.EEXIST) {
			refused.add(fmt.Sprintf("the policy rule %s is not in force: %v", key, err))
		}
	}
	for _, key := range without(present, wanted) {
		if err := key.change(unix.RTM_DELRULE, 0, r.protocol); err != nil && !errors.Is(err, syscall.ENOENT) {
			refused.add(fmt.Sprintf("the policy rule %s stays, though it should not: %v", key, err))
		}
	}
	return nil
}

// without returns what the first list has and the second has not.
func without[T comparable](list, others []T) (rest []T) {
	known := make(map[T]struct{}, len(others))
	for _, key := range others {
		known[key] = struct{}{}
	}
	for _, key := range list {
		if _, ok := known[key]; !ok {
			rest = append(rest, key)
		}
	}
	return rest
}

func (r Policy) ownRules() ([]ruleKey, error) {
	var keys []ruleKey
	for _, family := range ipFamilies {
		rules, err := hostnet.Rules(family)
		if err != nil {
			return nil, fmt.Errorf("policy rules: %w", err)
		}
		for _, rule := range rules {
			if int(rule.Protocol) == r.protocol {
				keys = append(keys, ruleKeyOf(family, rule))
			}
		}
	}
	return keys, nil
}

func ruleKeyOf(family int, rule netlink.Rule) ruleKey {
	return ruleKey{
		family: family, priority: rule.Priority, table: cmp.Or(rule.Table, unix.RT_TABLE_MAIN),
		generated: rule.IifName == hostnet.LoopbackName, specific: rule.SuppressPrefixlen == 0,
		source: prefixOf(rule.Src), destination: prefixOf(rule.Dst),
	}
}

// change adds or deletes a rule. The library's own way leaves out suppress_prefixlength
// for tables above 255.
func (k ruleKey) change(command, flags, protocol int) error {
	request := nl.NewNetlinkRequest(command, flags|unix.NLM_F_ACK)
	header := &nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(k.family), Type: unix.RTN_UNICAST}}
	var attributes []*nl.RtAttr
	for _, side := range []struct {
		prefix    netip.Prefix
		length    *uint8
		attribute int
	}{{k.source, &header.Src_len, nl.FRA_SRC}, {k.destination, &header.Dst_len, nl.FRA_DST}} {
		if side.prefix.IsValid() {
			*side.length = uint8(side.prefix.Bits())
			attributes = append(attributes, nl.NewRtAttr(side.attribute, side.prefix.Addr().AsSlice()))
		}
	}
	attributes = append(attributes,
		nl.NewRtAttr(nl.FRA_PRIORITY, nl.Uint32Attr(uint32(k.priority))), nl.NewRtAttr(nl.FRA_TABLE, nl.Uint32Attr(uint32(k.table))),
		nl.NewRtAttr(nl.FRA_PROTOCOL, nl.Uint8Attr(uint8(protocol))))
	if k.generated {
		attributes = append(attributes, nl.NewRtAttr(nl.FRA_IIFNAME, nl.ZeroTerminated(hostnet.LoopbackName)))
	}
	if k.specific {
		attributes = append(attributes, nl.NewRtAttr(nl.FRA_SUPPRESS_PREFIXLEN, nl.Uint32Attr(0)))
	}
	request.AddData(header)
	for _, a := range attributes {
		request.AddData(a)
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// routeKeyOf describes a route that the kernel has.
func routeKeyOf(family int, route netlink.Route) routeKey {
	gateway, _ := netip.AddrFromSlice(route.Gw)
	source, _ := netip.AddrFromSlice(route.Src)
	return routeKey{
		family: family, table: route.Table, link: route.LinkIndex, destination: destinationOf(route, family),
		gateway: gateway.Unmap(), source: source.Unmap(), metric: route.Priority, scope: route.Scope,
		onlink: route.Flags&unix.RTNH_F_ONLINK != 0, kind: kindOf(route),
	}.normal()
}

// kindOf is 0 for all routes that lead somewhere.
func kindOf(route netlink.Route) int {
	if route.Type == unix.RTN_UNREACHABLE || route.Type == unix.RTN_THROW {
		return route.Type
	}
	return 0
}

// normal is the route as the kernel will show it.
func (k routeKey) normal() routeKey {
	if k.family == unix.AF_INET6 {
		k.metric, k.scope = cmp.Or(k.metric, ipv6Metric), 0
	}
	if k.kind != 0 { // IPv6 shows lo
		k.link, k.scope = 0, 0
	}
	return k
}

func (k routeKey) route(protocol int) *netlink.Route {
	route := &netlink.Route{
		Family: k.family, Table: k.table, LinkIndex: k.link, Dst: hostnet.NetOf(k.destination), Priority: k.metric,
		Scope: k.scope, Protocol: netlink.RouteProtocol(protocol),
	}
	if k.gateway.IsValid() {
		route.Gw = k.gateway.AsSlice()
	}
	if k.source.IsValid() {
		route.Src = k.source.AsSlice()
	}
	if k.onlink {
		route.Flags = unix.RTNH_F_ONLINK
	}
	if k.kind != 0 {
		route.Type = k.kind
	}
	return route
}

func destinationOf(route netlink.Route, family int) netip.Prefix {
	if route.Dst == nil {
		return hostnet.Everything(family)
	}
	return prefixOf(route.Dst)
}

func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}
