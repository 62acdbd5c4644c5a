// SPDX-License-Identifier: Apache-2.0

// Real hosts behind two xTRs with an RTR between them: TCP with its GSO packets, in all families before and behind the RTR.

package bpf_test

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"loci/internal/testnet"
)

// beyond is the network behind the RTR, where it has the address 3 and router B the address 2.
func beyond4(site int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(site + 1)})
}

func beyond6(site int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0xfe, 15: byte(site + 1)})
}

func beyondEnd(ns *testnet.Namespace, name string, i int) testnet.End {
	return testnet.End{Namespace: ns, Name: name,
		Addresses: []netip.Prefix{netip.PrefixFrom(beyond4(i), 24), netip.PrefixFrom(beyond6(i), 64)}}
}

// newRelayedNetwork is host A - xTR A - RTR - xTR B - host B; the families of the RLOCs are those of near and far.
func newRelayedNetwork(t *testing.T, decapFlags bool, near, far func(int) netip.Addr) (n *network, rtr *router) {
	t.Helper()
	net := testnet.ForTest(t)
	n = &network{}
	for i, role := range []string{"a", "b"} {
		host, err := net.Namespace("host" + role)
		must(t, err)
		xtr, err := net.Namespace("xtr" + role)
		must(t, err)
		n.hosts[i], n.routers[i] = host, &router{plane: loadPlane(t, decapFlags), ns: xtr}
		connectSite(t, host, xtr, i)
	}
	middle, err := net.Namespace("rtr")
	must(t, err)
	rtr = &router{plane: loadPlane(t, decapFlags), ns: middle}
	must(t, testnet.Connect(coreEnd(n.routers[0].ns, 0), coreEnd(middle, 2)))
	must(t, testnet.Connect(beyondEnd(middle, "core1", 2), beyondEnd(n.routers[1].ns, "core0", 1)))
	for i, r := range n.routers {
		must(t, r.ns.Forward())
		r.setUp(t, i)
	}
	a, b := n.routers[0], n.routers[1]
	b.localRLOC(beyond4(1), 0)
	b.localRLOC(beyond6(1), 0)
	must(t, middle.Forward())
	for _, name := range []string{"core0", "core1"} {
		rtr.attach(t, name, "core_ingress", ebpf.AttachTCXIngress)
		rtr.declare(t, name, "LISP_INTERFACE_CORE")
	}
	for _, own := range []netip.Addr{rloc4(2), rloc6(2), beyond4(2), beyond6(2)} {
		rtr.localRLOC(own, 0)
	}
	rtr.policy("LISP_LIST_RTR", 0, "10.1.0.0/24", "2001:db8:1::/64") // to B's site packets go because of their sources
	rtr.settings(fields{"list_generation": goldenGeneration})
	for i, inner := range [][]string{{"10.1.0.0/24", "2001:db8:1::/64"}, {"10.2.0.0/24", "2001:db8:2::/64"}} {
		for _, prefix := range inner {
			if i == 0 {
				b.mapCache(0, prefix, far(2).String(), far(1).String())
				rtr.mapCache(0, prefix, near(0).String(), near(2).String())
			} else {
				a.mapCache(0, prefix, near(2).String(), near(0).String())
				rtr.mapCache(0, prefix, far(1).String(), far(2).String())
			}
		}
	}
	n.lowerHostMTU(t)
	return n, rtr
}

func TestHostsThroughRelay(t *testing.T) {
	families := map[string][2]func(int) netip.Addr{
		"IPv4 to IPv4": {rloc4, beyond4}, "IPv4 to IPv6": {rloc4, beyond6}, "IPv6 to IPv4": {rloc6, beyond4}, "IPv6 to IPv6": {rloc6, beyond6},
	}
	for name, outer := range families {
		t.Run(name, func(t *testing.T) {
			n, rtr := newRelayedNetwork(t, kernelHasDecapFlags(t), outer[0], outer[1])
			for _, inner := range []func(int, int) netip.Addr{siteAddress4, siteAddress6} {
				hostsThroughRelay(t, n, rtr, inner)
			}
		})
	}
}

// hostsThroughRelay demands that GSO packets stay whole: far fewer packets are relayed than segments fit the link.
func hostsThroughRelay(t *testing.T, n *network, rtr *router, inner func(int, int) netip.Addr) {
	t.Helper()
	source, destination := inner(0, 10), inner(1, 10)
	told := func() string {
		return "A: " + n.routers[0].allDrops() + " RTR: " + rtr.allDrops() + " B: " + n.routers[1].allDrops()
	}
	ping, err := testnet.Ping{Namespace: n.hosts[0], Source: source, Destination: destination, Count: 5}.Run(t.Context())
	if err != nil || ping.Received != ping.Sent {
		t.Fatalf("ping to %s: %d of %d, %v; %s", destination, ping.Received, ping.Sent, err, told())
	}
	relayed := func() uint64 {
		return rtr.counter("LISP_COUNTER_RELAYED_IPV4") + rtr.counter("LISP_COUNTER_RELAYED_IPV6")
	}
	before := relayed()
	const octets = 64 << 20
	tcp := testnet.TCP{Client: n.hosts[0], Server: n.hosts[1], Source: source, Destination: destination, Octets: octets, Verify: true}
	result, err := tcp.Run(t.Context())
	if err != nil {
		t.Fatalf("tcp to %s: %v; %s", destination, err, told())
	}
	packets := relayed() - before
	t.Logf("to %s: %.1f Gbit/s, %d packets; RTR: %s", destination, result.BitsPerSecond/1e9, packets, rtr.allDrops())
	if packets == 0 || packets > octets/4/1400 {
		t.Errorf("%d packets relayed for %d octets: GSO packets did not stay whole; %s", packets, octets, told())
	}
}
