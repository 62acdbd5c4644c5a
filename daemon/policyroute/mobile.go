// SPDX-License-Identifier: Apache-2.0

package policyroute

// A mobile node: this host's own addresses are EIDs. They stand on the LISP interface, and these rules lead the
// packets of its programs there, before table main is asked:
//
//	priority+1  iif lo ipproto udp dport 67          lookup main    DHCP, for which the host's links are meant
//	priority+1  iif lo ipproto udp dport 4341-4342   lookup main    LISP's own packets
//	priority+1  iif lo lookup main suppress_prefixlength 0          neighbours, and what the host has routes to
//	priority+2  iif lo ipproto udp dport 67, 4341-4342 unreachable  while main has no default route
//	priority+3  iif lo [to EID-PREFIX] lookup TABLE                 all else, or what goes to EIDs
//
// Packets from an RLOC leave by its source routes, which come before. An address is marked by the protocol number of
// Loci's rules and routes (Linux 5.18) and by a metric (Linux 4.18), so that a restart finds it; what others put on the
// interface stays.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/config"
	"loci/config/mobile"
	"loci/daemon/hostnet"
)

// mobileNode is what one needs; the zero value is none.
type mobileNode struct {
	addresses    []netip.Addr // EIDs of the host itself
	defaultRoute bool
	prefixes     []netip.Prefix // without default-route: destinations that go by LISP
	withoutPorts bool           // the kernel has no rules by port
}

func mobileOf(c *config.Config) mobileNode {
	if c.MobileNode == nil {
		return mobileNode{}
	}
	m := mobileNode{
		addresses:    mobile.Addresses(c.ETR.EIDPrefixes()),
		defaultRoute: c.MobileNode.DefaultRoute, prefixes: c.MobileNode.Prefixes(),
	}
	return m.onKernel(kernelRelease())
}

// onKernel is the node as that kernel allows it. One that ignores the ports of a rule would refuse all packets of the
// host by those that are meant for LISP's own.
func (m mobileNode) onKernel(release string) mobileNode {
	var major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n == 2 && (major < 4 || major == 4 && minor < 17) {
		m.defaultRoute, m.prefixes, m.withoutPorts = false, nil, true
	}
	return m
}

func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// SameMobileNode reports whether two configurations make the same mobile node of this host, or none.
func SameMobileNode(a, b *config.Config) bool { return reflect.DeepEqual(mobileOf(a), mobileOf(b)) }

// rules are those of a family that has EIDs, made of a pattern with the priority and table of the rules for EIDs.
func (m mobileNode) rules(family int, pattern ruleKey) (rules []ruleKey) {
	has := func(a netip.Addr) bool { return hostnet.FamilyOf(a) == family }
	if !slices.ContainsFunc(m.addresses, has) {
		return nil
	}
	pattern.incoming = hostnet.LoopbackName
	pattern.priority += 3
	if m.defaultRoute {
		rules = append(rules, pattern)
	}
	for _, p := range m.prefixes {
		if hostnet.FamilyOf(p.Addr()) == family {
			pattern.destination = p
			rules = append(rules, pattern)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	native := ruleKey{
		family: family, priority: pattern.priority - 2, table: unix.RT_TABLE_MAIN, incoming: hostnet.LoopbackName,
	}
	links, dhcp, lisp := native, native, native
	links.specific = true
	dhcp.ports = portRange{67, 67}
	if family == unix.AF_INET6 {
		dhcp.ports = portRange{547, 547}
	}
	lisp.ports = portRange{dataPort, controlPort}
	rules = append(rules, links)
	for _, k := range []ruleKey{dhcp, lisp} {
		refused := k
		refused.priority, refused.table, refused.unreachable = k.priority+1, 0, true
		rules = append(rules, k, refused)
	}
	return rules
}

const dataPort, controlPort = 4341, 4342

// throws are destinations on links of IPv4, which table main has no routes to: those of IPv6 are in table local.
func (m mobileNode) throws(family int) []netip.Prefix {
	if !m.defaultRoute || family != unix.AF_INET {
		return nil
	}
	return []netip.Prefix{
		netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"),
		netip.MustParsePrefix("169.254.0.0/16"),
	}
}

// putAddresses gives the LISP interface the EIDs of this host, and takes away those of ours that are not wanted.
func (r Policy) putAddresses(refused *refusals) error {
	link, err := netlink.LinkByName(r.link)
	if err != nil {
		return fmt.Errorf("LISP interface %s: %w", r.link, err)
	}
	list := addressesAt
	if r.listAddresses != nil {
		list = r.listAddresses
	}
	present, err := list(link.Attrs().Index, markOf(r.protocol))
	if err != nil {
		return err
	}
	if r.mobile.withoutPorts {
		refused.add("mobile-node: only packets that programs send from an EID go by LISP: the others need Linux 4.17")
	}
	for _, a := range r.mobile.addresses {
		if _, stands := present[a]; stands {
			continue
		}
		flags := unix.NLM_F_CREATE | unix.NLM_F_EXCL
		err := changeAddress(unix.RTM_NEWADDR, flags, a, link.Attrs().Index, markOf(r.protocol))
		command := fmt.Sprintf("ip address add %s dev %s", netip.PrefixFrom(a, a.BitLen()), r.link)
		if err != nil && !refused.forbids(err, command) {
			refused.add(fmt.Sprintf("the EID %s does not stand on %s: %v", a, r.link, err))
		}
	}
	for a, ours := range present {
		if !ours || r.additive || slices.Contains(r.mobile.addresses, a) {
			continue
		}
		err := changeAddress(unix.RTM_DELADDR, 0, a, link.Attrs().Index, markOf(r.protocol))
		command := fmt.Sprintf("ip address del %s dev %s", netip.PrefixFrom(a, a.BitLen()), r.link)
		if err != nil && err != unix.EADDRNOTAVAIL && !refused.forbids(err, command) {
			refused.add(fmt.Sprintf("the EID %s stays on %s, where it should not be: %v", a, r.link, err))
		}
	}
	return nil
}

// Attributes of linux/if_addr.h, which older kernels ignore.
const ifaMetric, ifaProto = 9, 11

// mark is what an address of ours carries. The metric is that of its route in table main, which is not asked for an
// address of this host.
type mark struct {
	protocol uint8
	metric   uint32
}

func markOf(protocol int) mark {
	return mark{protocol: uint8(protocol), metric: 1<<20 + uint32(protocol)}
}

// changeAddress adds or deletes a single address; one of IPv6 is not verified, for its interface has no neighbours.
func changeAddress(command, flags int, a netip.Addr, link int, m mark) error {
	request := nl.NewNetlinkRequest(command, flags|unix.NLM_F_ACK)
	message := nl.NewIfAddrmsg(hostnet.FamilyOf(a))
	message.Prefixlen, message.Index = uint8(a.BitLen()), uint32(link)
	if a.Is6() {
		message.IfAddrmsg.Flags = unix.IFA_F_NODAD
	}
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.IFA_LOCAL, a.AsSlice()))
	request.AddData(nl.NewRtAttr(unix.IFA_ADDRESS, a.AsSlice()))
	request.AddData(nl.NewRtAttr(ifaMetric, nl.Uint32Attr(m.metric)))
	request.AddData(nl.NewRtAttr(ifaProto, []byte{m.protocol}))
	_, err := request.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// addressesAt are the addresses of an interface, and whether each carries that mark.
func addressesAt(link int, m mark) (map[netip.Addr]bool, error) {
	messages, err := hostnet.Dump(func() ([][]byte, error) {
		request := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
		request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		return request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
	})
	if err != nil {
		return nil, fmt.Errorf("addresses of the LISP interface: %w", err)
	}
	present := map[netip.Addr]bool{}
	for _, message := range messages {
		header := nl.DeserializeIfAddrmsg(message)
		if int(header.Index) != link {
			continue
		}
		attributes, err := nl.ParseRouteAttr(message[header.Len():])
		if err != nil {
			return nil, fmt.Errorf("addresses of the LISP interface: %w", err)
		}
		address, ours := netip.Addr{}, false
		for _, a := range attributes {
			switch value, ok := netip.AddrFromSlice(a.Value); {
			case a.Attr.Type == ifaProto && len(a.Value) > 0:
				ours = ours || a.Value[0] == m.protocol
			case a.Attr.Type == ifaMetric && len(a.Value) == 4:
				ours = ours || binary.NativeEndian.Uint32(a.Value) == m.metric
			case a.Attr.Type == unix.IFA_LOCAL && ok, a.Attr.Type == unix.IFA_ADDRESS && ok && !address.IsValid():
				address = value
			}
		}
		if address.IsValid() {
			present[address] = ours
		}
	}
	return present, nil
}
