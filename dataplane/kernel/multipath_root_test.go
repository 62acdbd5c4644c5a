// SPDX-License-Identifier: Apache-2.0

// Routes of several next hops: two cores between two routers, whose RLOCs are of neither. Flows are spread over both, and
// what programs keep of one next hop follows its neighbour and its link without a word about the other. The tests need root.

package kernel

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/internal/testnet"
	"loci/lisp"
)

func loopback4(site int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(site + 1)}) }

func loopback6(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xfd, 15: byte(site + 1)})
}

// A multipath is two ways from xTR A to the RLOC of xTR B, and flows that share them.
type multipath struct {
	*network
	p      pair
	links  [2]int
	server *net.UDPConn
	flows  []*udpFlow
}

// Flows, and packets of each at a time. That all flows take one of two ways by chance happens once in 2^31 runs.
const (
	flowCount = 32
	sentEach  = 10
)

// newMultipath has the RLOCs at `lo`, and a hook at xTR A; what comes to xTR B goes by tc, where it can be captured.
func newMultipath(t *testing.T, hook dataplane.Hook, p pair) *multipath {
	t.Helper()
	m := &multipath{network: newTwoCores(t), p: p}
	for i, r := range m.routers {
		m.moveToLoopback(t, r, i)
	}
	a := m.routers[0]
	for i, name := range []string{"core0", "core1"} {
		link, err := a.ns.Netlink().LinkByName(name)
		must(t, err)
		m.links[i] = link.Attrs().Index
		must(t, m.routers[1].ns.SetOffload(name, testnet.GRO, true))
		m.waitForFlag(t, 0, name, takesFrames)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		must(t, a.ns.SetSysctl("net."+family+".fib_multipath_hash_policy", "1"))
	}
	must(t, a.ns.Netlink().RouteReplace(m.route(0, 1)))
	must(t, m.routers[1].ns.Netlink().RouteReplace(&netlink.Route{Dst: hostRoute(p.outer(0)), Gw: net.IP(m.near(0).AsSlice())}))
	settings := a.Settings()
	for i := range settings.Interfaces {
		settings.Interfaces[i].Hook = hook
	}
	a.apply(t, dataplane.SetSettings{Settings: settings})
	m.mapBoth(t, p.outer)
	m.expectPings(t, m.hosts[0], p.inner(0, 10), p.inner(1, 10)) // the sites' neighbours are known from here on
	m.listen(t)
	eventually(t, "routes are looked up by flow", func() bool {
		var settings abi.Settings
		must(t, a.store.Map(abi.MapSettings).Lookup(uint32(0), &settings))
		return settings.Flags&abi.SettingRoutesByFlow != 0
	})
	return m
}

// moveToLoopback gives a router other RLOCs.
func (m *multipath) moveToLoopback(t *testing.T, r *router, i int) {
	t.Helper()
	lo, err := r.ns.Netlink().LinkByName("lo")
	must(t, err)
	must(t, r.ns.Netlink().LinkSetUp(lo))
	var own []lisp.RLOC
	for _, address := range []netip.Addr{loopback4(i), loopback6(i)} {
		must(t, r.ns.Netlink().AddrAdd(lo, &netlink.Addr{IPNet: hostRoute(address)}))
		own = append(own, lisp.RLOCFromAddr(address))
	}
	settings := r.Settings()
	settings.LocalRLOCs = own
	r.apply(t, dataplane.SetSettings{Settings: settings})
	for _, prefix := range sitePrefixes(i) {
		r.apply(t, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: prefix, Locators: locators(loopback4(i), loopback6(i))}})
	}
}

func (m *multipath) listen(t *testing.T) {
	t.Helper()
	server, err := m.hosts[1].ListenUDP(netip.AddrPortFrom(m.p.inner(1, 10), 5000))
	must(t, err)
	t.Cleanup(func() { server.Close() })
	m.server = server
	for i := range flowCount {
		source := netip.AddrPortFrom(m.p.inner(0, 10), uint16(6000+i))
		m.flows = append(m.flows, m.udpFlow(t, source, server.LocalAddr().(*net.UDPAddr).AddrPort()))
	}
}

// near and far are the ends of a way.
func (m *multipath) near(way int) netip.Addr { return m.end(way, 0) }
func (m *multipath) far(way int) netip.Addr  { return m.end(way, 1) }

func (m *multipath) end(way, site int) netip.Addr {
	if m.p.outer(site).Is4() {
		return [2]netip.Addr{rloc4(site), second4(site)}[way]
	}
	return [2]netip.Addr{rloc6(site), second6(site)}[way]
}

// route is that to the RLOC by some of the ways.
func (m *multipath) route(ways ...int) *netlink.Route {
	route := &netlink.Route{Dst: hostRoute(m.p.outer(1))}
	for _, way := range ways {
		route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{LinkIndex: m.links[way], Gw: net.IP(m.far(way).AsSlice())})
	}
	return route
}

// takeOver has another machine be the far end of a way.
func (m *multipath) takeOver(t *testing.T, way int, address net.HardwareAddr) {
	t.Helper()
	b := m.routers[1].ns.Netlink()
	far, err := b.LinkByName(fmt.Sprintf("core%d", way))
	must(t, err)
	must(t, b.LinkSetHardwareAddr(far, address))
	must(t, m.routers[0].ns.Netlink().NeighSet(&netlink.Neigh{
		LinkIndex: m.links[way], State: netlink.NUD_PERMANENT, IP: net.IP(m.far(way).AsSlice()), HardwareAddr: address,
	}))
}

// takeDown takes the link of a way away.
func (m *multipath) takeDown(t *testing.T, way int) {
	t.Helper()
	a := m.routers[0].ns.Netlink()
	link, err := a.LinkByIndex(m.links[way])
	must(t, err)
	must(t, a.LinkSetDown(link))
}

// A way is the core by which packets come to xTR B, and the address that they come to.
type way struct {
	link    string
	address [6]byte
}

func (m *multipath) way(t *testing.T, link string) way {
	t.Helper()
	l, err := m.routers[1].ns.Netlink().LinkByName(link)
	must(t, err)
	return way{link, [6]byte(l.Attrs().HardwareAddr)}
}

// ways sends by all flows, demands that all arrives, and tells which way each flow took, by its port.
func (m *multipath) ways(t *testing.T, what string) map[uint16]way {
	t.Helper()
	ways, frames := map[uint16]way{}, 0
	running, err := testnet.Capture{Namespace: m.routers[1].ns, Links: []string{"core0", "core1"}, IncomingOnly: true}.Start(func(c testnet.Captured) error {
		if !isLISP(c.Data) {
			return nil
		}
		frames++
		port, took := innerPort(c.Data), way{c.Link, [6]byte(c.Data[:6])}
		if before, known := ways[port]; known && before != took {
			t.Errorf("%s: the flow from port %d takes the ways %v and %v", what, port, before, took)
		}
		ways[port] = took
		return nil
	})
	must(t, err)
	m.sendByAll(t, what)
	must(t, running.Stop())
	if frames != sentEach*flowCount || len(ways) != flowCount {
		t.Fatalf("%s: %d packets of %d flows were seen, want %d of %d", what, frames, len(ways), sentEach*flowCount, flowCount)
	}
	return ways
}

func (m *multipath) sendByAll(t *testing.T, what string) {
	t.Helper()
	must(t, m.server.SetReadDeadline(time.Now().Add(patience)))
	for range sentEach {
		for _, flow := range m.flows {
			flow.send(t, 1)
		}
		for got := range m.flows { // at once: a socket's buffer takes some 200 of them
			if _, _, err := m.server.ReadFromUDPAddrPort(make([]byte, 2048)); err != nil {
				t.Fatalf("%s: %d of %d datagrams arrived: %v;%s", what, got, len(m.flows), err, m.report())
			}
		}
	}
}

// expectWays waits until changes must have been followed, and expects each flow to go by a core.
func (m *multipath) expectWays(t *testing.T, what string, links map[uint16]string) {
	t.Helper()
	time.Sleep(followTime)
	at := map[string]way{"core0": m.way(t, "core0"), "core1": m.way(t, "core1")}
	for port, took := range m.ways(t, what) {
		if took != at[links[port]] {
			t.Errorf("%s: the flow from port %d takes the way %v, want %v", what, port, took, at[links[port]])
		}
	}
}

// innerPort is the source port of a UDP packet without options in a LISP packet without options.
func innerPort(frame []byte) uint16 {
	at := 14
	for range 2 {
		if frame[at]>>4 == 4 {
			at += 20 + 16
		} else {
			at += 40 + 16
		}
	}
	return binary.BigEndian.Uint16(frame[at-16:])
}

// TestKeptHopsFollowMultipath changes one of two next hops in all ways: the flows by it follow, the others stay where they are.
func TestKeptHopsFollowMultipath(t *testing.T) {
	t.Parallel()
	for _, hook := range []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP} {
		for _, p := range []pair{{"IPv6 in IPv4", siteAddress6, loopback4}, {"IPv4 in IPv6", siteAddress4, loopback6}} {
			t.Run(fmt.Sprintf("%v, %s", hook, p.name), func(t *testing.T) {
				m := newMultipath(t, hook, p)
				both, first, shares := map[uint16]string{}, map[uint16]string{}, map[string]int{}
				for port, took := range m.ways(t, "two ways") {
					both[port], first[port] = took.link, "core0"
					shares[took.link]++
				}
				if len(shares) != 2 {
					t.Fatalf("flows by each way: %v", shares)
				}
				a := m.routers[0].ns.Netlink()
				m.takeOver(t, 1, net.HardwareAddr{2, 0, 0, 0, 0, 9})
				m.expectWays(t, "another machine", both)
				must(t, a.RouteReplace(m.route(0)))
				m.expectWays(t, "one way", first)
				must(t, a.RouteReplace(m.route(0, 1)))
				m.expectWays(t, "two ways again", both)
				m.takeDown(t, 1)
				m.expectWays(t, "a link that is down", first)
			})
		}
	}
}
