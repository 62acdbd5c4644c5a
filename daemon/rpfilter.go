// SPDX-License-Identifier: Apache-2.0

package daemon

// Reverse path filters (RFC 3704, net.ipv4.conf.IF.rp_filter): a strict one drops what
// comes in by another interface than the way back leads out by. Here it is found out
// where it would drop control messages or packets of EIDs, and whether the kernel drops
// anything for that reason. Reads, changes nothing; IPv6 has no such setting.

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// strictFilter is rp_filter's value for strict filtering.
const strictFilter = 1

// isStrict reports whether the filter in force at an interface is strict: the higher of
// its own value and that of all interfaces.
func isStrict(link string) bool {
	return max(filterOf("all"), filterOf(link)) == strictFilter
}

func filterOf(link string) int {
	text, err := os.ReadFile(sysctlRoot + "ipv4/conf/" + link + "/rp_filter")
	if err != nil {
		return 0
	}
	value, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return value
}

// filterTrouble tells where strict filters would drop what this configuration needs.
func filterTrouble(p plan) []string {
	var trouble []string
	strict := slices.DeleteFunc(coreNames(p), func(name string) bool { return !isStrict(name) })
	for _, name := range strict {
		link, _ := p.host.link(name)
		trouble = append(trouble, coreTrouble(p, link)...)
	}
	if lo, ok := p.host.link(loopbackName); ok && len(strict) > 0 && len(coreNames(p)) > 1 {
		for _, rloc := range p.rlocs {
			if rloc.Is4() && slices.Contains(lo.addresses, rloc) {
				trouble = append(trouble, fmt.Sprintf("net.ipv4.conf.%s.rp_filter is strict: control messages to %s, which has several ways in, are dropped when they come by another way than the answer takes: set it to 2", strict[0], rloc))
			}
		}
	}
	if name := p.config.Datapath.Interface; isStrict(name) && p.host.hasGateway4() {
		trouble = append(trouble, fmt.Sprintf("net.ipv4.conf.%s.rp_filter is strict: packets from remote EIDs to this router itself are dropped, because its default route leads elsewhere: set it to 2", name))
	}
	return trouble
}

// coreTrouble asks the kernel for the way back to each server from the RLOCs of a core
// interface.
func coreTrouble(p plan, link hostLink) []string {
	var trouble []string
	for _, rloc := range p.rlocs {
		if !rloc.Is4() || !slices.Contains(link.addresses, rloc) {
			continue
		}
		for _, server := range servers4(p) {
			if by := wayOut(rloc, server); by != 0 && by != link.index {
				trouble = append(trouble, fmt.Sprintf("net.ipv4.conf.%s.rp_filter is strict: answers of %s to %s are dropped, because the way back does not lead out by %s: set it to 2, or datapath.source-routes to true", link.name, server, rloc, link.name))
				break
			}
		}
	}
	return trouble
}

// servers4 are the Map-Servers and Map-Resolvers with IPv4 addresses.
func servers4(p plan) []netip.Addr {
	var servers []netip.Addr
	add := func(a netip.Addr) {
		if a.Is4() && !slices.Contains(servers, a) {
			servers = append(servers, a)
		}
	}
	if p.control.ITR != nil {
		for _, r := range p.control.ITR.MapResolvers {
			add(r.Addr())
		}
	}
	if p.control.ETR != nil {
		for _, m := range p.control.ETR.MapServers {
			add(m.Address.Addr())
		}
	}
	return servers
}

// wayOut is the index of the interface by which packets leave, 0 when there is no way.
func wayOut(from, to netip.Addr) int {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil || len(routes) == 0 || routes[0].Type != unix.RTN_UNICAST {
		return 0
	}
	return routes[0].LinkIndex
}

// hasGateway4 reports whether there is an IPv4 default route by a gateway.
func (v hostView) hasGateway4() bool {
	return slices.ContainsFunc(v.links, func(l hostLink) bool {
		return slices.ContainsFunc(l.gateways, func(a netip.Addr) bool { return a.Is4() })
	})
}

// filteredPackets is how many packets the kernel dropped by reverse path filters in this
// network namespace, by its counter IPReversePathFilter.
func filteredPackets() uint64 {
	text, err := os.ReadFile("/proc/self/net/netstat")
	if err != nil {
		return 0
	}
	lines := strings.Split(string(text), "\n") // a line of names, a line of values, and so on
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if at := slices.Index(names, "IPReversePathFilter"); at >= 0 && at < len(values) {
			count, _ := strconv.ParseUint(values[at], 10, 64)
			return count
		}
	}
	return 0
}
