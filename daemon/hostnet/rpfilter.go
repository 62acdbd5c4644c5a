// SPDX-License-Identifier: Apache-2.0

package hostnet

// Reverse path filters (RFC 3704, net.ipv4.conf.IF.rp_filter): a strict one drops what
// comes in by another interface than the way back leads out by. Here it is found out
// where it would drop control messages or packets of EIDs, and whether the kernel drops
// anything for that reason. Reads, changes nothing; IPv6 has no such setting.

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/daemon/trouble"
)

// strictFilter is rp_filter's value for strict filtering.
const strictFilter = 1

// isStrict reports whether the filter in force at an interface is strict: the higher of
// its own value and that of all interfaces.
func isStrict(link string) bool {
	return max(filterOf("all"), filterOf(link)) == strictFilter
}

func filterOf(link string) int {
	text, err := os.ReadFile(SysctlRoot + "ipv4/conf/" + link + "/rp_filter")
	if err != nil {
		return 0
	}
	value, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return value
}

// FilterCheck is what a configuration needs that strict filters may drop.
type FilterCheck struct {
	View    View
	Own     OwnPaths
	Servers []netip.Addr   // Map-Servers and Map-Resolvers
	Link    string         // the LISP interface
	Leaving []netip.Prefix // EID-Prefixes whose packets a PETR forwards natively
}

// Trouble tells where strict filters would drop something.
func (c FilterCheck) Trouble() []trouble.Trouble {
	var list []trouble.Trouble
	strict := slices.DeleteFunc(slices.Clone(c.Own.Core), func(name string) bool { return !isStrict(name) })
	for _, name := range strict {
		link, _ := c.View.Link(name)
		list = append(list, c.coreTrouble(link)...)
	}
	if lo, ok := c.View.Link(LoopbackName); ok && len(strict) > 0 && len(c.Own.Core) > 1 {
		for _, rloc := range c.Own.RLOCs {
			if rloc.Is4() && slices.Contains(lo.Addresses, rloc) {
				list = append(list, strictTrouble(strict[0], fmt.Sprintf("control messages to %s, which has several ways in, are dropped when they come by another way than the answer takes", rloc), "set it to 2"))
			}
		}
	}
	if isStrict(c.Link) && c.View.hasGateway4() {
		list = append(list, strictTrouble(c.Link, "packets from remote EIDs to this router itself are dropped, because its default route leads elsewhere", "set it to 2"))
	}
	return append(list, c.leavingTrouble()...)
}

// strictTrouble is that of a strict filter.
func strictTrouble(link, effect, remedy string) trouble.Trouble {
	return trouble.Trouble{Kind: trouble.ReversePathFilter, Subject: link, What: fmt.Sprintf("net.ipv4.conf.%s.rp_filter is strict", link), Effect: effect, Remedy: remedy}
}

// leavingTrouble finds EIDs that have no way back. Even a loose filter drops their packets when they come in by the LISP interface.
func (c FilterCheck) leavingTrouble() []trouble.Trouble {
	if max(filterOf("all"), filterOf(c.Link)) == 0 {
		return nil
	}
	for _, p := range c.Leaving {
		if _, err := netlink.RouteGet(p.Addr().AsSlice()); p.Addr().Is4() && errors.Is(err, unix.ENETUNREACH) {
			return []trouble.Trouble{{
				Kind: trouble.ReversePathFilter, Subject: c.Link, What: fmt.Sprintf("no route to %s", p),
				Effect: fmt.Sprintf("the reverse path filter of %s drops what this PETR should forward from there", c.Link), Remedy: "add a route, such as to a PITR",
			}}
		}
	}
	return nil
}

// coreTrouble asks the kernel for the way back to each server from the RLOCs of a core
// interface.
func (c FilterCheck) coreTrouble(link Link) []trouble.Trouble {
	var list []trouble.Trouble
	for _, rloc := range c.Own.RLOCs {
		if !rloc.Is4() || !slices.Contains(link.Addresses, rloc) {
			continue
		}
		for _, server := range c.Servers {
			if !server.Is4() {
				continue
			}
			if by := wayOut(rloc, server); by != 0 && by != link.Index {
				list = append(list, strictTrouble(link.Name, fmt.Sprintf("answers of %s to %s are dropped, because the way back does not lead out by %s", server, rloc, link.Name), "set it to 2, or datapath.source-routes to true"))
				break
			}
		}
	}
	return list
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
func (v View) hasGateway4() bool {
	return slices.ContainsFunc(v.Links, func(l Link) bool {
		return slices.ContainsFunc(l.Gateways, func(a netip.Addr) bool { return a.Is4() })
	})
}

// FilteredPackets is how many packets the kernel dropped by reverse path filters in this
// network namespace, by its counter IPReversePathFilter.
func FilteredPackets() uint64 {
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
