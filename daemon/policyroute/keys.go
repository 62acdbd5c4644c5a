// SPDX-License-Identifier: Apache-2.0

package policyroute

// Rules and routes as Loci compares them: what makes one of ours the same as another, and how
// netlink takes and tells them.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/daemon/hostnet"
)

// ipFamilies are those that have rules and routes.
var ipFamilies = [...]int{unix.AF_INET, unix.AF_INET6}

// ruleKey is what makes a rule of ours the same as another.
type ruleKey struct {
	family, priority, table int
	specific                bool   // default routes of the table do not count
	incoming                string // for packets of this interface alone; of lo are those that this host generates
	source, destination     netip.Prefix
	ports                   portRange // UDP's, of the destination
	unreachable             bool      // packets are refused; there is no table
}

// portRange is the first and the last of some ports, zero for all.
type portRange struct{ first, last uint16 }

// match is a rule's, as `ip rule` writes it.
func (p portRange) match() string {
	switch {
	case p == portRange{}:
		return ""
	case p.first == p.last:
		return fmt.Sprintf(" ipproto udp dport %d", p.first)
	}
	return fmt.Sprintf(" ipproto udp dport %d-%d", p.first, p.last)
}

// attributes are a rule's (Linux 4.17).
func (p portRange) attributes() []*nl.RtAttr {
	if p == (portRange{}) {
		return nil
	}
	octets := binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, p.first), p.last)
	return []*nl.RtAttr{
		nl.NewRtAttr(nl.FRA_IP_PROTO, nl.Uint8Attr(unix.IPPROTO_UDP)), nl.NewRtAttr(nl.FRA_DPORT_RANGE, octets),
	}
}

// String is the rule as `ip rule` shows it.
func (k ruleKey) String() string {
	text := fmt.Sprintf("%d:", k.priority)
	if k.source.IsValid() {
		text += fmt.Sprintf(" from %s", k.source)
	}
	if k.destination.IsValid() {
		text += fmt.Sprintf(" to %s", k.destination)
	}
	if k.incoming != "" {
		text += " iif " + k.incoming
	}
	text += k.ports.match()
	return text + k.action()
}

// command is what `ip` does it by: add or del.
func (k ruleKey) command(verb string, protocol int) string {
	text := fmt.Sprintf("ip -%s rule %s priority %d", versionOf(k.family), verb, k.priority)
	if k.source.IsValid() {
		text += fmt.Sprintf(" from %s", k.source)
	}
	if k.destination.IsValid() {
		text += fmt.Sprintf(" to %s", k.destination)
	}
	if k.incoming != "" {
		text += " iif " + k.incoming
	}
	text += k.ports.match()
	text += k.action()
	if k.specific {
		text += " suppress_prefixlength 0"
	}
	return text + fmt.Sprintf(" protocol %d", protocol)
}

// action is a rule's, as `ip rule` writes it.
func (k ruleKey) action() string {
	if k.unreachable {
		return " unreachable"
	}
	return fmt.Sprintf(" lookup %d", k.table)
}

// versionOf is the version of IP.
func versionOf(family int) string {
	if family == unix.AF_INET6 {
		return "6"
	}
	return "4"
}

// change adds or deletes a rule. The library's own way leaves out suppress_prefixlength
// for tables above 255.
func (k ruleKey) change(command, flags, protocol int) error {
	request := nl.NewNetlinkRequest(command, flags|unix.NLM_F_ACK)
	header := &nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(k.family), Type: unix.RTN_UNICAST}}
	if k.unreachable {
		header.Type = unix.RTN_UNREACHABLE
	}
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
	if k.incoming != "" {
		attributes = append(attributes, nl.NewRtAttr(nl.FRA_IIFNAME, nl.ZeroTerminated(k.incoming)))
	}
	if k.specific {
		attributes = append(attributes, nl.NewRtAttr(nl.FRA_SUPPRESS_PREFIXLEN, nl.Uint32Attr(0)))
	}
	attributes = append(attributes, k.ports.attributes()...)
	request.AddData(header)
	for _, a := range attributes {
		request.AddData(a)
	}
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// routeKey is what makes a route of ours the same as another.
type routeKey struct {
	family, table, link int
	destination         netip.Prefix
	gateway, source     netip.Addr // zero for none
	metric              int
	scope               netlink.Scope // IPv4 alone has one
	onlink              bool
	kind                int // unix.RTN_UNREACHABLE, RTN_THROW or RTN_BLACKHOLE, 0 for a way
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

// command is what `ip` does it by: add, del or replace.
func (k routeKey) command(verb string, protocol int) string {
	text := fmt.Sprintf("ip -%s route %s ", versionOf(k.family), verb)
	text += map[int]string{unix.RTN_UNREACHABLE: "unreachable ", unix.RTN_THROW: "throw ", unix.RTN_BLACKHOLE: "blackhole "}[k.kind] + k.destination.String()
	if k.gateway.IsValid() {
		text += fmt.Sprintf(" via %s", k.gateway)
	}
	if k.link != 0 {
		text += " dev " + linkName(k.link)
	}
	if k.source.IsValid() {
		text += fmt.Sprintf(" src %s", k.source)
	}
	if k.metric != 0 && (k.family == unix.AF_INET || k.metric != ipv6Metric) {
		text += fmt.Sprintf(" metric %d", k.metric)
	}
	if k.onlink {
		text += " onlink"
	}
	if k.scope == netlink.SCOPE_LINK {
		text += " scope link"
	}
	return text + fmt.Sprintf(" table %d proto %d", k.table, protocol)
}

func ruleKeyOf(family int, rule netlink.Rule) ruleKey {
	var ports portRange
	if rule.IPProto == unix.IPPROTO_UDP && rule.Dport != nil {
		ports = portRange{rule.Dport.Start, rule.Dport.End}
	}
	return ruleKey{ // the library reads no action: a rule of ours without a table refuses
		family: family, priority: rule.Priority, table: rule.Table, unreachable: rule.Table == unix.RT_TABLE_UNSPEC,
		incoming: rule.IifName, specific: rule.SuppressPrefixlen == 0,
		source: prefixOf(rule.Src), destination: prefixOf(rule.Dst), ports: ports,
	}
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
	switch route.Type {
	case unix.RTN_UNREACHABLE, unix.RTN_THROW, unix.RTN_BLACKHOLE:
		return route.Type
	}
	return 0
}

// placeOf is what a route is replaced by.
func placeOf(k routeKey) routeKey {
	return routeKey{family: k.family, table: k.table, destination: k.destination}
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

// ipv6Metric is what the kernel makes of no metric for IPv6.
const ipv6Metric = 1024
