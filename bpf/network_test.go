// SPDX-License-Identifier: Apache-2.0

// Real packets of real hosts through the programs: two sites with a host each, two xTRs, a core between them; TCP with
// its GSO packets in all four family pairs, and packets that wait at a TAP and are written back.

package bpf_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

// router is one xTR: interfaces site0 and core0 in a namespace, and a plane attached to them.
type router struct {
	*plane
	ns *testnet.Namespace
}

// network is host A - xTR A - xTR B - host B. Site x is 10.x.0.0/24 and 2001:db8:x::/64, host .10, xTR .1.
type network struct {
	hosts   [2]*testnet.Namespace
	routers [2]*router
}

func siteAddress4(site, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(site + 1), 0, byte(host)})
}

func siteAddress6(site, host int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0, byte(site + 1), 15: byte(host)})
}

func rloc4(site int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(site + 1)}) }

func rloc6(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xff, 15: byte(site + 1)})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newNetwork makes the namespaces; the programs pass everything until the tables are filled.
func newNetwork(t *testing.T, decapFlags bool) *network {
	t.Helper()
	net := testnet.ForTest(t)
	n := &network{}
	for i, role := range []string{"a", "b"} {
		host, err := net.Namespace("host" + role)
		must(t, err)
		xtr, err := net.Namespace("xtr" + role)
		must(t, err)
		n.hosts[i], n.routers[i] = host, &router{plane: loadPlane(t, decapFlags), ns: xtr}
		connectSite(t, host, xtr, i)
	}
	must(t, testnet.Connect(coreEnd(n.routers[0].ns, 0), coreEnd(n.routers[1].ns, 1)))
	for i, r := range n.routers {
		must(t, r.ns.Forward())
		must(t, r.ns.SetReversePathFilter(1))
		r.setUp(t, i)
	}
	return n
}

func connectSite(t testing.TB, host, xtr *testnet.Namespace, i int) {
	t.Helper()
	prefixes := func(last int) []netip.Prefix {
		return []netip.Prefix{netip.PrefixFrom(siteAddress4(i, last), 24), netip.PrefixFrom(siteAddress6(i, last), 64)}
	}
	must(t, testnet.Connect(testnet.End{Namespace: host, Name: "eth0", Addresses: prefixes(10)},
		testnet.End{Namespace: xtr, Name: "site0", Addresses: prefixes(1)}))
	must(t, host.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: siteAddress4(i, 1)}))
	must(t, host.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: siteAddress6(i, 1)}))
}

func coreEnd(ns *testnet.Namespace, i int) testnet.End {
	return testnet.End{Namespace: ns, Name: "core0",
		Addresses: []netip.Prefix{netip.PrefixFrom(rloc4(i), 24), netip.PrefixFrom(rloc6(i), 64)}}
}

// setUp attaches the programs and declares site i.
func (r *router) setUp(t *testing.T, i int) {
	t.Helper()
	r.attach(t, "site0", "site_ingress", ebpf.AttachTCXIngress)
	r.attach(t, "core0", "core_ingress", ebpf.AttachTCXIngress)
	r.attach(t, "core0", "core_egress", ebpf.AttachTCXEgress)
	r.declare(t, "site0", "LISP_INTERFACE_SITE")
	r.declare(t, "core0", "LISP_INTERFACE_CORE")
	r.settings(fields{"miss_interval_ns": uint64(time.Second)})
	r.localRLOC(rloc4(i), 0)
	r.localRLOC(rloc6(i), 0)
	r.database(0, netip.PrefixFrom(siteAddress4(i, 0), 24).String())
	r.database(0, netip.PrefixFrom(siteAddress6(i, 0), 64).String())
}

func (r *router) link(t testing.TB, name string) netlink.Link {
	t.Helper()
	found, err := r.ns.Netlink().LinkByName(name)
	must(t, err)
	return found
}

// attach uses tcx, or clsact where the kernel is older than 6.6.
func (r *router) attach(t *testing.T, name, program string, hook ebpf.AttachType) {
	t.Helper()
	index, loaded := r.link(t, name).Attrs().Index, r.program(program)
	must(t, r.ns.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: loaded, Attach: hook})
		if errors.Is(err, ebpf.ErrNotSupported) {
			return r.attachClsact(index, program, hook)
		}
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
}

func (r *router) attachClsact(index int, program string, hook ebpf.AttachType) error {
	qdisc := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := r.ns.Netlink().QdiscReplace(qdisc); err != nil {
		return fmt.Errorf("clsact: %w", err)
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if hook == ebpf.AttachTCXEgress {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	return r.ns.Netlink().FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:          r.program(program).FD(), Name: program, DirectAction: true,
	})
}

func (r *router) declare(t testing.TB, name, flag string) {
	t.Helper()
	attributes := r.link(t, name).Attrs()
	r.update("interfaces", uint32(attributes.Index), r.encode("lisp_interface", fields{
		"flags": r.constant(flag), "l2_length": 14, "roots": r.rootsOf(0), "mac": []byte(attributes.HardwareAddr),
	}))
}

// mapOther tells router i how the other site is reached.
func (r *router) mapOther(i int, rloc func(int) netip.Addr) (v4, v6 uint32) {
	other := 1 - i
	v4 = r.mapCache(0, netip.PrefixFrom(siteAddress4(other, 0), 24).String(), rloc(other).String(), rloc(i).String())
	v6 = r.mapCache(0, netip.PrefixFrom(siteAddress6(other, 0), 64).String(), rloc(other).String(), rloc(i).String())
	return v4, v6
}

type pair struct {
	name  string
	inner func(site, host int) netip.Addr
	outer func(site int) netip.Addr
}

var pairs = []pair{
	{"IPv4 in IPv4", siteAddress4, rloc4},
	{"IPv6 in IPv4", siteAddress6, rloc4},
	{"IPv4 in IPv6", siteAddress4, rloc6},
	{"IPv6 in IPv6", siteAddress6, rloc6},
}

// TestHostsThroughTunnel sends pings and TCP with GSO packets through both directions; core and site have MTU 1500.
func TestHostsThroughTunnel(t *testing.T) {
	for _, decapFlags := range []bool{true, false} {
		for _, pair := range pairs {
			name := pair.name
			if !decapFlags {
				name += " without DECAP_L3 flags"
			}
			t.Run(name, func(t *testing.T) {
				if decapFlags && !kernelHasDecapFlags(t) {
					t.Skip("this kernel has no BPF_F_ADJ_ROOM_DECAP_L3 flags")
				}
				hostsThroughTunnel(t, pair, decapFlags)
			})
		}
	}
}

// lowerHostMTU lets hosts send what fits a core of 1500 octets in any family pair.
func (n *network) lowerHostMTU(t *testing.T) {
	t.Helper()
	for _, host := range n.hosts {
		must(t, host.SetMTU("eth0", 1500-40-16))
	}
}

func hostsThroughTunnel(t *testing.T, pair pair, decapFlags bool) {
	n := newNetwork(t, decapFlags)
	for i, r := range n.routers {
		r.mapOther(i, pair.outer)
	}
	source, destination := pair.inner(0, 10), pair.inner(1, 10)
	n.lowerHostMTU(t)
	ctx := context.Background()
	ping, err := testnet.Ping{Namespace: n.hosts[0], Source: source, Destination: destination, Count: 5}.Run(ctx)
	if err != nil || ping.Received != ping.Sent {
		t.Fatalf("ping: %d of %d, %v; A: %s B: %s", ping.Received, ping.Sent, err, n.routers[0].allDrops(), n.routers[1].allDrops())
	}
	tcp := testnet.TCP{Client: n.hosts[0], Server: n.hosts[1], Source: source, Destination: destination, Octets: 64 << 20, Verify: true}
	result, err := tcp.Run(ctx)
	if err != nil {
		t.Fatalf("tcp: %v; A: %s B: %s", err, n.routers[0].allDrops(), n.routers[1].allDrops())
	}
	t.Logf("%.1f Gbit/s; A: %s", result.BitsPerSecond/1e9, n.routers[0].allDrops())
}
