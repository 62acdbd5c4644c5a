// SPDX-License-Identifier: Apache-2.0

package daemon

// What this host is like: its interfaces, their addresses and gateways, as far as a
// configuration refers to them. Reads netlink, changes nothing.

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/lisp"
)

// hostLink is one interface.
type hostLink struct {
	name      string
	index     int
	up        bool           // set up, and with a carrier
	loopback  bool           // the interface lo
	addresses []netip.Addr   // usable ones, IPv4 first, each family ascending
	networks  []netip.Prefix // of all addresses, each with its host part
	gateways  []netip.Addr   // of default routes by this interface
	silent    []netip.Addr   // gateways that answered no neighbour solicitation
	answering []netip.Addr   // gateways that did; of the others nobody knows
	stale     []netip.Addr   // gateways that no network of the interface has
}

// hostView is a snapshot of the interfaces.
type hostView struct{ links []hostLink }

// lookTries bounds how often a look is begun anew because something changed meanwhile.
const lookTries = 5

func lookAtHost() (hostView, error) { return listed(lookOnce) }

// listed is what a look at the kernel's tables returns, made anew while one of them changed meanwhile.
func listed[T any](look func() (T, error)) (found T, err error) {
	for range lookTries {
		if found, err = look(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return found, err
		}
	}
	return found, err
}

func lookOnce() (hostView, error) {
	var view hostView
	links, err := netlink.LinkList()
	if err != nil {
		return view, fmt.Errorf("interfaces of this host: %w", err)
	}
	byIndex := map[int]int{}
	for _, link := range links {
		a := link.Attrs()
		byIndex[a.Index] = len(view.links)
		view.links = append(view.links, hostLink{
			name: a.Name, index: a.Index, loopback: a.RawFlags&unix.IFF_LOOPBACK != 0,
			up: a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_RUNNING != 0,
		})
	}
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return view, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range addresses {
		if i, ok := byIndex[a.LinkIndex]; ok {
			view.links[i].add(a)
		}
	}
	for i := range view.links {
		slices.SortFunc(view.links[i].addresses, netip.Addr.Compare)
	}
	return view, view.addGateways(byIndex)
}

// add takes an address. Usable is one that may be RLOC or EID: neither link-local nor
// deprecated nor still being verified. Routers often have their RLOC on lo; the
// loopback addresses themselves are none.
func (l *hostLink) add(a netlink.Addr) {
	ip, _ := netip.AddrFromSlice(a.IP)
	ip = ip.Unmap()
	ones, _ := a.Mask.Size()
	l.networks = append(l.networks, netip.PrefixFrom(ip, ones))
	unusable := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) != 0
	if !unusable && lisp.RLOCFromAddr(ip).Valid() == nil && !slices.Contains(l.addresses, ip) {
		l.addresses = append(l.addresses, ip)
	}
}

// addGateways notes which routers lead on from an interface, and which of them do not
// answer.
func (v *hostView) addGateways(byIndex map[int]int) error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		filter := &netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: netOf(everything(family))}
		routes, err := netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		if err != nil {
			return fmt.Errorf("routes of this host: %w", err)
		}
		var hops []netlink.NexthopInfo
		for _, route := range routes {
			hops = append(hops, hopsOf(route)...)
		}
		for _, hop := range hops {
			gateway, ok := netip.AddrFromSlice(hop.Gw)
			if i, known := byIndex[hop.LinkIndex]; ok && known {
				v.links[i].addGateway(gateway.Unmap(), hop.Flags&unix.RTNH_F_ONLINK != 0)
			}
		}
	}
	for i := range v.links {
		if err := v.links[i].findSilent(); err != nil {
			return err
		}
	}
	return nil
}

// addGateway takes a gateway. Linux keeps a route by one whose network went with an address
// that was replaced, though it lets nobody make another such route.
func (l *hostLink) addGateway(gateway netip.Addr, onlink bool) {
	l.gateways = append(l.gateways, gateway)
	inNetwork := func(n netip.Prefix) bool { return n.Contains(gateway) }
	if onlink || !l.up || gateway.IsLinkLocalUnicast() || slices.ContainsFunc(l.networks, inNetwork) || slices.Contains(l.stale, gateway) {
		return
	}
	// A route without a gateway may lead to it all the same.
	routes, err := netlink.RouteGetWithOptions(gateway.AsSlice(), &netlink.RouteGetOptions{OifIndex: l.index})
	if err != nil || len(routes) == 0 || len(routes[0].Gw) > 0 {
		l.stale = append(l.stale, gateway)
	}
}

// staleGateways tells of default routes at these interfaces that lead to nobody.
func (v hostView) staleGateways(interfaces []string) (warnings []string) {
	for _, l := range v.links {
		for _, gateway := range l.stale {
			if slices.Contains(interfaces, l.name) {
				warnings = append(warnings, fmt.Sprintf("the default route via %s at %s is stale: no network of %s has that gateway, so packets by it may be lost. "+
					"Remove the route, or give %s an address of the gateway's network", gateway, l.name, l.name, l.name))
			}
		}
	}
	return warnings
}

// hopsOf are the next hops of a route, whether it has one or several. A route of several stays when the link of one is set down; the
// kernel uses that one no more, nor does it take it in a route of ours.
func hopsOf(r netlink.Route) []netlink.NexthopInfo {
	if len(r.MultiPath) == 0 {
		return []netlink.NexthopInfo{{LinkIndex: r.LinkIndex, Gw: r.Gw, Flags: r.Flags}}
	}
	var hops []netlink.NexthopInfo
	for _, hop := range r.MultiPath {
		if hop.Flags&unix.RTNH_F_DEAD == 0 {
			hops = append(hops, *hop)
		}
	}
	return hops
}

// findSilent asks the neighbour table about the gateways.
func (l *hostLink) findSilent() error {
	if len(l.gateways) == 0 {
		return nil
	}
	neighbours, err := netlink.NeighList(l.index, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("neighbours at %s: %w", l.name, err)
	}
	for _, n := range neighbours {
		ip, _ := netip.AddrFromSlice(n.IP)
		ip = ip.Unmap()
		switch {
		case !slices.Contains(l.gateways, ip):
		case n.State == netlink.NUD_FAILED:
			l.silent = append(l.silent, ip)
		case n.State&(netlink.NUD_INCOMPLETE|netlink.NUD_NONE) == 0:
			l.answering = append(l.answering, ip)
		}
	}
	return nil
}

func (v hostView) link(name string) (hostLink, bool) {
	i := slices.IndexFunc(v.links, func(l hostLink) bool { return l.name == name })
	if i < 0 {
		return hostLink{}, false
	}
	return v.links[i], true
}

func (v hostView) has(name string) bool { _, ok := v.link(name); return ok }

// holds reports whether an address is this host's.
func (v hostView) holds(a netip.Addr) bool { return v.interfaceOf(a) != "" }

// interfaceOf is the interface with that address, empty for none.
func (v hostView) interfaceOf(a netip.Addr) string {
	for _, l := range v.links {
		if slices.Contains(l.addresses, a) {
			return l.name
		}
	}
	return ""
}

// neighbour is the interface in whose network an address lies, with this host's own
// address there.
func (v hostView) neighbour(a netip.Addr) (link hostLink, own netip.Addr, ok bool) {
	for _, l := range v.links {
		for _, network := range l.networks {
			if network.Contains(a) && network.Addr() != a && slices.Contains(l.addresses, network.Addr()) {
				return l, network.Addr(), true
			}
		}
	}
	return hostLink{}, netip.Addr{}, false
}

// forwardingOff names the families in which the kernel does not forward between
// interfaces: the data plane respects that setting of the operator's.
func forwardingOff(families []string) (off []string) {
	for _, family := range families {
		path := "/proc/sys/net/ipv4/ip_forward"
		if family == "ipv6" {
			path = "/proc/sys/net/ipv6/conf/all/forwarding"
		}
		if value, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(value)) == "0" {
			off = append(off, path)
		}
	}
	return off
}
