// SPDX-License-Identifier: Apache-2.0

package hostnet

// What this host is like: its interfaces, their addresses and gateways, as far as a
// configuration refers to them. Reads netlink, changes nothing.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"loci/daemon/trouble"
	"loci/lisp"
)

// Link is one interface.
type Link struct {
	Name      string
	Index     int
	Up        bool           // set up, and with a carrier
	Loopback  bool           // the interface lo
	Addresses []netip.Addr   // usable ones, IPv4 first, each family ascending
	Networks  []netip.Prefix // of all addresses, each with its host part
	Gateways  []netip.Addr   // of default routes by this interface
	Silent    []netip.Addr   // gateways that answered no neighbour solicitation
	Answering []netip.Addr   // gateways that did; of the others it is not known
	Stale     []netip.Addr   // gateways that no network of the interface has
	Defaults  DefaultRoutes
	Losses    uint32 // how often it lost its carrier; always 0 before Linux 4.16
}

// DefaultRoutes are the lowest metrics of the default routes by an interface, of IPv4 and IPv6; 0 for none, else one
// more.
type DefaultRoutes struct{ IPv4, IPv6 uint64 }

// Of is the metric of a family's, one more than it is, and 0 for none.
func (d DefaultRoutes) Of(is4 bool) uint64 {
	if is4 {
		return d.IPv4
	}
	return d.IPv6
}

func (d *DefaultRoutes) add(family, metric int) {
	of := &d.IPv4
	if family == unix.AF_INET6 {
		of = &d.IPv6
	}
	if found := uint64(metric) + 1; *of == 0 || found < *of {
		*of = found
	}
}

// View is a snapshot of the interfaces.
type View struct{ Links []Link }

// Look takes a snapshot of the interfaces.
func Look() (View, error) { return Dump(lookOnce) }

func lookOnce() (View, error) {
	var view View
	links, err := lookAtLinks()
	if err != nil {
		return view, fmt.Errorf("interfaces of this host: %w", err)
	}
	byIndex := map[int]int{}
	for i, link := range links {
		byIndex[link.Index] = i
	}
	view.Links = links
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return view, fmt.Errorf("addresses of this host: %w", err)
	}
	for _, a := range addresses {
		if i, ok := byIndex[a.LinkIndex]; ok {
			view.Links[i].add(a)
		}
	}
	for i := range view.Links {
		slices.SortStableFunc(view.Links[i].Addresses, netip.Addr.Compare)
	}
	return view, view.addGateways(byIndex)
}

// lookAtLinks lists the interfaces, without what else belongs to them.
func lookAtLinks() (list []Link, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		link, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, err
		}
		a := link.Attrs()
		list = append(list, Link{
			Name: a.Name, Index: a.Index, Loopback: a.RawFlags&unix.IFF_LOOPBACK != 0,
			Up:     a.RawFlags&unix.IFF_UP != 0 && a.RawFlags&unix.IFF_RUNNING != 0,
			Losses: lossesOf(m),
		})
	}
	return list, nil
}

// lossesOf reads what the library does not.
func lossesOf(message []byte) uint32 {
	attributes, err := nl.ParseRouteAttr(message[unix.SizeofIfInfomsg:])
	if err != nil {
		return 0
	}
	for _, a := range attributes {
		if a.Attr.Type == unix.IFLA_CARRIER_DOWN_COUNT && len(a.Value) >= 4 {
			return binary.NativeEndian.Uint32(a.Value)
		}
	}
	return 0
}

// add takes an address. Usable is one that may be RLOC or EID: neither link-local nor
// deprecated nor still being verified. Routers often have their RLOC on lo; the
// loopback addresses themselves are none.
func (l *Link) add(a netlink.Addr) {
	ip, _ := netip.AddrFromSlice(a.IP)
	ip = ip.Unmap()
	ones, _ := a.Mask.Size()
	l.Networks = append(l.Networks, netip.PrefixFrom(ip, ones))
	unusable := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) != 0
	if !unusable && lisp.RLOCFromAddr(ip).Valid() == nil && !slices.Contains(l.Addresses, ip) {
		l.Addresses = append(l.Addresses, ip)
	}
}

// addDefault notes a default route at the interfaces that it leaves by.
func (v *View) addDefault(family int, route netlink.Route, byIndex map[int]int) {
	for _, hop := range HopsOf(route) {
		if i, known := byIndex[hop.LinkIndex]; known && route.Type == unix.RTN_UNICAST {
			v.Links[i].Defaults.add(family, route.Priority)
		}
	}
}

// addGateways notes which routers lead on from an interface, and which of them do not
// answer.
func (v *View) addGateways(byIndex map[int]int) error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		filter := &netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: NetOf(Everything(family))}
		routes, err := netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		if err != nil {
			return fmt.Errorf("routes of this host: %w", err)
		}
		var hops []netlink.NexthopInfo
		for _, route := range routes {
			hops = append(hops, HopsOf(route)...)
			v.addDefault(family, route, byIndex)
		}
		for _, hop := range hops {
			gateway, ok := netip.AddrFromSlice(hop.Gw)
			if i, known := byIndex[hop.LinkIndex]; ok && known {
				v.Links[i].addGateway(gateway.Unmap(), hop.Flags&unix.RTNH_F_ONLINK != 0)
			}
		}
	}
	for i := range v.Links {
		if err := v.Links[i].findSilent(); err != nil {
			return err
		}
	}
	return nil
}

// addGateway takes a gateway. Linux keeps a route by one whose network went with an address
// that was replaced, though it refuses to make another such route.
func (l *Link) addGateway(gateway netip.Addr, onlink bool) {
	l.Gateways = append(l.Gateways, gateway)
	inNetwork := func(n netip.Prefix) bool { return n.Contains(gateway) }
	if onlink || !l.Up || gateway.IsLinkLocalUnicast() || slices.ContainsFunc(l.Networks, inNetwork) || slices.Contains(l.Stale, gateway) {
		return
	}
	// A route without a gateway may lead to it all the same.
	routes, err := netlink.RouteGetWithOptions(gateway.AsSlice(), &netlink.RouteGetOptions{OifIndex: l.Index})
	if err != nil || len(routes) == 0 || len(routes[0].Gw) > 0 {
		l.Stale = append(l.Stale, gateway)
	}
}

// StaleGateways tells of default routes at these interfaces whose gateway cannot be reached.
func (v View) StaleGateways(interfaces []string) (list []trouble.Trouble) {
	for _, l := range v.Links {
		for _, gateway := range l.Stale {
			if slices.Contains(interfaces, l.Name) {
				list = append(list, trouble.Trouble{
					Kind: trouble.StaleDefaultRoute, Subject: l.Name, What: fmt.Sprintf("the default route via %s at %s is stale", gateway, l.Name),
					Effect: fmt.Sprintf("no network of %s has that gateway, so packets by it may be lost", l.Name),
					Remedy: fmt.Sprintf("remove the route (ip route del default via %s dev %s), or give %s an address of the gateway's network", gateway, l.Name, l.Name),
				})
			}
		}
	}
	return list
}

// findSilent asks the neighbour table about the gateways.
func (l *Link) findSilent() error {
	if len(l.Gateways) == 0 {
		return nil
	}
	neighbours, err := netlink.NeighList(l.Index, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("neighbours at %s: %w", l.Name, err)
	}
	for _, n := range neighbours {
		ip, _ := netip.AddrFromSlice(n.IP)
		ip = ip.Unmap()
		switch {
		case !slices.Contains(l.Gateways, ip):
		case n.State == netlink.NUD_FAILED:
			l.Silent = append(l.Silent, ip)
		case n.State&(netlink.NUD_INCOMPLETE|netlink.NUD_NONE) == 0:
			l.Answering = append(l.Answering, ip)
		}
	}
	return nil
}

// Link is the interface of that name, if there is one.
func (v View) Link(name string) (Link, bool) {
	i := slices.IndexFunc(v.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return Link{}, false
	}
	return v.Links[i], true
}

// Has reports whether there is an interface of that name.
func (v View) Has(name string) bool { _, ok := v.Link(name); return ok }

// Holds reports whether an address is this host's.
func (v View) Holds(a netip.Addr) bool { return v.InterfaceOf(a) != "" }

// InterfaceOf is the interface with that address, empty for none. Of several it is one that is up, with the best
// default route: networks behind NATs may give two links the same address.
func (v View) InterfaceOf(a netip.Addr) string {
	found := v.holders(a)
	if len(found) == 0 {
		return ""
	}
	return found[0].Name
}

// holders are the interfaces with an address, the best first.
func (v View) holders(a netip.Addr) (found []*Link) {
	for i := range v.Links {
		if slices.Contains(v.Links[i].Addresses, a) {
			found = append(found, &v.Links[i])
		}
	}
	metric := func(l *Link) uint64 { return l.Defaults.Of(a.Is4()) - 1 } // none is beyond all others
	slices.SortStableFunc(found, func(l, o *Link) int {
		switch {
		case l.Up && !o.Up:
			return -1
		case o.Up && !l.Up:
			return 1
		}
		return cmp.Compare(metric(l), metric(o))
	})
	return found
}

// eachOnce leaves an address that several of these interfaces have to the best of them.
func (v View) eachOnce(names []string) View {
	isElsewhere := func(name string, a netip.Addr) bool {
		holders := slices.DeleteFunc(v.holders(a), func(l *Link) bool { return !slices.Contains(names, l.Name) })
		return len(holders) > 1 && holders[0].Name != name
	}
	once := View{Links: slices.Clone(v.Links)}
	for i := range once.Links {
		if l := &once.Links[i]; slices.Contains(names, l.Name) {
			l.Addresses = slices.DeleteFunc(slices.Clone(l.Addresses), func(a netip.Addr) bool { return isElsewhere(l.Name, a) })
		}
	}
	return once
}

// Neighbour is the interface in whose network an address lies, with this host's own
// address there.
func (v View) Neighbour(a netip.Addr) (link Link, own netip.Addr, ok bool) {
	for _, l := range v.Links {
		for _, network := range l.Networks {
			if network.Contains(a) && network.Addr() != a && slices.Contains(l.Addresses, network.Addr()) {
				return l, network.Addr(), true
			}
		}
	}
	return Link{}, netip.Addr{}, false
}

// ForwardingOff names the families in which the kernel does not forward between
// interfaces: the data plane respects that setting of the operator's.
func ForwardingOff(families []string) (off []string) {
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
