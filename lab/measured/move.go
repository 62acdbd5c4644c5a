// SPDX-License-Identifier: Apache-2.0

package measured

// One move of a mobile node: what DHCP would do to its links, and what pings saw of it.

import (
	"net"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

// connect sets a link up if it was lost, with its address, and adds a default route.
func (to access) connect(ns *testnet.Namespace, metric int, lost bool) error {
	if lost {
		if err := ns.SetUp(to.name, true); err != nil {
			return err
		}
		if err := ns.AddAddress(to.name, to.address); err != nil {
			return err
		}
	}
	return ns.Netlink().RouteAdd(&netlink.Route{Dst: everywhere(), Gw: net.IP(to.gateway.AsSlice()), Priority: metric})
}

func everywhere() *net.IPNet { return &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)} }

// forgetRoutes removes the default routes by a link.
func (to access) forgetRoutes(ns *testnet.Namespace) error {
	routes, err := ns.Netlink().RouteListFiltered(netlink.FAMILY_V4,
		&netlink.Route{Gw: net.IP(to.gateway.AsSlice())}, netlink.RT_FILTER_GW)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if err := ns.Netlink().RouteDel(&r); err != nil {
			return err
		}
	}
	return nil
}

// forgetFirstRoute removes the default route of the file, which has the best metric of all.
func (to access) forgetFirstRoute(ns *testnet.Namespace) error {
	return ns.Netlink().RouteDel(&netlink.Route{Dst: everywhere(), Gw: net.IP(to.gateway.AsSlice()), Priority: 0})
}

// disconnect loses a link and its address; the kernel removes its routes.
func (to access) disconnect(ns *testnet.Namespace) error {
	if err := ns.SetUp(to.name, false); err != nil {
		return err
	}
	found, err := ns.Netlink().LinkByName(to.name)
	if err != nil {
		return err
	}
	host := net.IPNet{IP: net.IP(to.address.Addr().AsSlice()), Mask: net.CIDRMask(to.address.Bits(), 32)}
	return ns.Netlink().AddrDel(found, &netlink.Addr{IPNet: &host})
}

// fileMove files the break that the pings of one node saw in one move, or how many were lost.
func (m *measuring) fileMove(node mobile, move int, results map[[2]string]testnet.PingResult, from, to time.Time) {
	with := breakOf(results[[2]string{node.node, lispArm}], from, to)
	alike := node.node
	if node.foreign {
		alike = "plain"
	}
	without := breakOf(results[[2]string{alike, plainArm}], from, to)
	if node.overlaps {
		m.add(node.title, m.engine, metricLost, "", float64(with.lost))
		m.add(node.title, m.engine+", "+plainArm, metricLost, "", float64(without.lost))
		m.screen.Line("%s  move %2d  %-17s %d pings lost, %d without LISP", m.engine, move+1, node.title,
			with.lost, without.lost)
		return
	}
	m.add(node.title, m.engine, metricBreak, "s", with.length.Seconds())
	m.add(node.title, m.engine+", "+plainArm, metricBreak, "s", without.length.Seconds())
	m.add(node.title, m.engine, metricBeyond, "ms", milliseconds(with.length-without.length))
	m.screen.Line("%s  move %2d  %-17s %.2f s, %.2f s without LISP", m.engine, move+1, node.title,
		with.length.Seconds(), without.length.Seconds())
}

// seenBreak is the longest time between requests that were answered, and how many were not.
type seenBreak struct {
	length time.Duration
	lost   int
}

// breakOf looks at the requests that were sent between two times.
func breakOf(r testnet.PingResult, from, to time.Time) (b seenBreak) {
	first := max(0, int(from.Sub(r.Start)/handoverInterval)-handoverBefore)
	last := min(len(r.RoundTrips), int(to.Sub(r.Start)/handoverInterval)-handoverBefore)
	answered := first - 1
	for i := first; i <= last; i++ {
		if i < last && r.RoundTrips[i] < 0 {
			b.lost++
			continue
		}
		b.length = max(b.length, time.Duration(i-answered)*handoverInterval)
		answered = i
	}
	return b
}

// handoverBefore is how many requests before a move may be lost by it, being on their way.
const handoverBefore = 20
