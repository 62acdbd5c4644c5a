// SPDX-License-Identifier: Apache-2.0

// What programs keep of routes and neighbours follows the kernel: two cores between two routers, whose routes, rules,
// neighbours and links change under traffic. The tests need root.

package kernel

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/internal/testnet"
)

// followTime is how long a change may take to be followed.
const followTime = 100 * time.Millisecond

// newTwoCores is newNetwork with a second core, core1, beside core0. RLOCs are those of core0; everything is reachable by
// either core.
func newTwoCores(t *testing.T) *network {
	t.Helper()
	n := newNetwork(t)
	end := func(i int) testnet.End {
		return testnet.End{Namespace: n.routers[i].ns, Name: "core1", Addresses: []netip.Prefix{
			netip.PrefixFrom(second4(i), 24), netip.PrefixFrom(second6(i), 64),
		}}
	}
	must(t, testnet.Connect(end(0), end(1)))
	for _, r := range n.routers {
		must(t, r.ns.Forward())
		must(t, r.ns.SetReversePathFilter(0))
		settings := r.Settings()
		settings.Interfaces = append(settings.Interfaces, dataplane.Interface{Name: "core1", Side: dataplane.SideCore})
		r.apply(t, dataplane.SetSettings{Settings: settings})
	}
	return n
}

func second4(site int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(site + 1)}) }

func second6(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xfe, 15: byte(site + 1)})
}

func hostRoute(to netip.Addr) *net.IPNet {
	return &net.IPNet{IP: net.IP(to.AsSlice()), Mask: net.CIDRMask(to.BitLen(), to.BitLen())}
}

// arrived counts the packets that xTR B got by an interface.
func (n *network) arrived(t *testing.T, link string) uint64 {
	t.Helper()
	l, err := n.routers[1].ns.Netlink().LinkByName(link)
	must(t, err)
	return l.Attrs().Statistics.RxPackets
}

// expectBy pings until the time to follow is over, then says that all packets take one core.
func (n *network) expectBy(t *testing.T, p pair, link string) {
	t.Helper()
	ping := testnet.Ping{Namespace: n.hosts[0], Source: p.inner(0, 10), Destination: p.inner(1, 10), Count: 40, Interval: 5 * time.Millisecond}
	_, err := ping.Run(t.Context()) // keeps what is kept in use
	must(t, err)
	time.Sleep(max(0, followTime-40*5*time.Millisecond))
	before := n.arrived(t, link)
	ping.Count = 20
	result, err := ping.Run(t.Context())
	must(t, err)
	if got := n.arrived(t, link) - before; result.Received != 20 || got < 20 {
		t.Errorf("%s: %d of 20 pings answered, %d packets by %s;%s", p.name, result.Received, got, link, n.report())
	}
}

func TestKeptHopsFollowRoutesAndRules(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newTwoCores(t)
			n.mapBoth(t, p.outer)
			a := n.routers[0].ns.Netlink()
			core1, err := a.LinkByName("core1")
			must(t, err)
			via, family := second4(1), netlink.FAMILY_V4
			if p.outer(0).Is6() {
				via, family = second6(1), netlink.FAMILY_V6
			}
			n.expectBy(t, p, "core0")
			route := &netlink.Route{LinkIndex: core1.Attrs().Index, Dst: hostRoute(p.outer(1)), Gw: net.IP(via.AsSlice())}
			must(t, a.RouteAdd(route))
			n.expectBy(t, p, "core1")
			must(t, a.RouteDel(route))
			n.expectBy(t, p, "core0")

			route.Table = 77
			must(t, a.RouteAdd(route))
			rule := netlink.NewRule()
			rule.Family, rule.Priority, rule.Table, rule.Src = family, 500, 77, hostRoute(p.outer(0))
			must(t, a.RuleAdd(rule))
			n.expectBy(t, p, "core1")
			must(t, a.RuleDel(rule))
			n.expectBy(t, p, "core0")
		})
	}
}

func TestKeptHopsFollowNeighbours(t *testing.T) {
	t.Parallel()
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.mapBoth(t, p.outer)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			handle := n.routers[0].ns.Netlink()
			core, err := handle.LinkByName("core0")
			must(t, err)
			other := net.HardwareAddr{2, 0, 0, 0, 0, 9}
			b := n.routers[1].ns.Netlink()
			far, err := b.LinkByName("core0")
			must(t, err)
			// Another machine has the address now; the neighbour says so.
			must(t, b.LinkSetHardwareAddr(far, other))
			must(t, handle.NeighSet(&netlink.Neigh{
				LinkIndex: core.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(p.outer(1).AsSlice()), HardwareAddr: other,
			}))
			time.Sleep(followTime)
			n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
			n.expectMAC(t, p, other)
		})
	}
}

// expectMAC captures what arrives at xTR B's core and expects packets of LISP to carry a destination address.
func (n *network) expectMAC(t *testing.T, p pair, wanted net.HardwareAddr) {
	t.Helper()
	frames, wrong := 0, 0
	running, err := testnet.Capture{Namespace: n.routers[1].ns, Links: []string{"core0"}, IncomingOnly: true}.Start(func(c testnet.Captured) error {
		if isLISP(c.Data) {
			frames++
			if [6]byte(c.Data[:6]) != [6]byte(wanted) {
				wrong++
			}
		}
		return nil
	})
	must(t, err)
	n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(1, 10))
	must(t, running.Stop())
	if frames == 0 || wrong > 0 {
		t.Errorf("%s: %d of %d frames to the address before", p.name, wrong, frames)
	}
}

// isLISP reports whether an Ethernet frame is UDP to port 4341.
func isLISP(frame []byte) bool {
	at := 14 + 20
	if len(frame) > 14 && frame[14]>>4 == 6 {
		at = 14 + 40
	}
	return len(frame) > at+4 && frame[at+2] == 4341>>8 && frame[at+3] == 4341&0xFF
}

// egress is a program that lets everything pass.
func egressProgram(t *testing.T) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	must(t, err)
	t.Cleanup(func() { program.Close() })
	return program
}

// TestShortcut puts things at an interface that must see what leaves, and expects the shortcut to be given up for them.
func TestShortcut(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.mapBoth(t, pairs[0].outer)
	r := n.routers[0]
	handle := r.ns.Netlink()
	core, err := handle.LinkByName("core0")
	must(t, err)
	shortens := func(want bool, why string) {
		t.Helper()
		r.resync()
		if record, _ := r.recordOf(t, "core0"); record.Flags&abi.InterfacePeer != 0 != want {
			t.Errorf("%s: shortcut %v", why, !want)
		}
		n.expectPings(t, n.hosts[0], pairs[0].inner(0, 10), pairs[0].inner(1, 10))
	}
	shortens(true, "a veth into another namespace")

	queue := &netlink.Tbf{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: core.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate: 1 << 30, Limit: 1 << 20, Buffer: 1 << 20}
	must(t, handle.QdiscAdd(queue))
	shortens(false, "a shaper")
	must(t, handle.QdiscDel(queue))
	shortens(true, "no shaper")

	must(t, r.ns.SetOffload("core0", testnet.TSO, false))
	shortens(false, "no TSO")
	must(t, r.ns.SetOffload("core0", testnet.TSO, true))
	shortens(true, "TSO")

	var attached link.Link
	must(t, r.ns.Do(func() (err error) {
		attached, err = link.AttachTCX(link.TCXOptions{Interface: core.Attrs().Index, Program: egressProgram(t), Attach: ebpf.AttachTCXEgress})
		return err
	}))
	shortens(false, "another program at the way out")
	must(t, attached.Close())
	shortens(true, "no other program")

	must(t, r.Close())
	n.open(t, 0, Options{NoShortcut: true})
	shortens(false, "as configured")
}

// TestRoutesByFlow expects rules and policies that look at ports to be seen.
func TestRoutesByFlow(t *testing.T) {
	t.Parallel()
	r := newLinks(t).open(t, 0, Options{})
	looks := func(want bool, why string) {
		t.Helper()
		r.programs.lookAtRoutes()
		if got := r.programs.byFlow.Load(); got != want {
			t.Errorf("%s: by flow %v", why, got)
		}
	}
	looks(false, "nothing special")
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.Table, rule.Sport = netlink.FAMILY_V6, 500, 254, netlink.NewRulePortRange(80, 90)
	must(t, r.ns.Netlink().RuleAdd(rule))
	looks(true, "a rule by port")
	must(t, r.ns.Netlink().RuleDel(rule))
	looks(false, "no such rule")
	must(t, r.ns.SetSysctl("net.ipv4.fib_multipath_hash_policy", "1"))
	looks(true, "a multipath hash over ports")
}
