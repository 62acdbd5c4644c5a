// SPDX-License-Identifier: Apache-2.0

// Packets that are tunnelled already, and packets that were: a VXLAN of the hosts through LISP, and LISP after LISP on the
// same skb. The tests need root.

package kernel

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/internal/testnet"
)

// overlay4 is the address of a host within the hosts' own tunnel.
func overlay4(host int) netip.Addr { return netip.AddrFrom4([4]byte{172, 20, 0, byte(host + 1)}) }

// addOverlay joins the hosts by a VXLAN between their EIDs.
func (n *network) addOverlay(t *testing.T, p pair) {
	t.Helper()
	const mtu = 1300 // fits through both tunnels over IPv6
	for i, host := range n.hosts {
		device := &netlink.Vxlan{
			LinkAttrs: netlink.LinkAttrs{Name: "vxlan0", MTU: mtu}, VxlanId: 42, Port: 4789,
			SrcAddr: net.IP(p.inner(i, 10).AsSlice()), Group: net.IP(p.inner(1-i, 10).AsSlice()),
			UDP6ZeroCSumTx: true, UDP6ZeroCSumRx: true,
		}
		must(t, host.Netlink().LinkAdd(device))
		must(t, host.AddAddress("vxlan0", netip.PrefixFrom(overlay4(i), 24)))
		must(t, host.SetUp("vxlan0", true))
	}
}

func TestTunnelOfHostsThroughLISP(t *testing.T) {
	t.Parallel()
	for _, p := range pairs[1:3] {
		t.Run(p.name, func(t *testing.T) {
			n := newNetwork(t)
			n.mapBoth(t, p.outer)
			n.addOverlay(t, p)
			n.expectPings(t, n.hosts[0], overlay4(0), overlay4(1))
			cut := n.routers[0].Counters().Other["segmented"]
			const octets = 2 << 20
			result, err := testnet.TCP{
				Client: n.hosts[0], Server: n.hosts[1], Source: overlay4(0), Destination: overlay4(1),
				Octets: octets, Verify: true, Timeout: 30 * time.Second,
			}.Run(t.Context())
			if err != nil {
				t.Fatalf("TCP: %v;%s", err, n.report())
			}
			// The pings left an entry in the flow cache, but the kernel encapsulates no GSO packet that has a tunnel in it.
			if cut = n.routers[0].Counters().Other["segmented"] - cut; cut < octets/65536 {
				t.Errorf("%d GSO packets were cut", cut)
			}
			t.Logf("%.2f Gbit/s;%s", result.BitsPerSecond/1e9, n.report())
		})
	}
}

// farSite is behind two tunnels: host - xTR D - xTR C - xTR B - xTR A - host A. C encapsulates what B decapsulated, on the same
// skb, and the other way round.
const farSite = 2

// addSecondTunnel adds xTR C behind xTR B, xTR D, and a host behind it.
func addSecondTunnel(t *testing.T, n *network, first, second func(int) netip.Addr) *testnet.Namespace {
	t.Helper()
	more := testnet.ForTest(t)
	var spaces [3]*testnet.Namespace
	for i, role := range []string{"xtrc", "xtrd", "hostd"} {
		ns, err := more.Namespace(role)
		must(t, err)
		spaces[i] = ns
	}
	between := func(last int) []netip.Prefix {
		return []netip.Prefix{netip.PrefixFrom(siteAddress4(8, last), 24), netip.PrefixFrom(siteAddress6(8, last), 64)}
	}
	b := n.routers[1]
	must(t, testnet.Connect(testnet.End{Namespace: b.ns, Name: "next0", Addresses: between(1)},
		testnet.End{Namespace: spaces[0], Name: "site0", Addresses: between(2)}))
	connectSite(t, spaces[2], spaces[1], farSite)
	// Wide enough for both tunnels: a Packet Too Big from C would have to get back to host A without an EID as its source.
	ends := [2]testnet.End{coreEnd(spaces[0], 0), coreEnd(spaces[1], 1)}
	ends[0].MTU, ends[1].MTU = 1600, 1600
	must(t, testnet.Connect(ends[0], ends[1]))
	for i, own := range []int{0, farSite} {
		r := &router{ns: spaces[i], instance: strings.ReplaceAll(spaces[i].Name(), ".", "_")}
		must(t, r.ns.Forward())
		must(t, r.ns.SetReversePathFilter(0))
		r.open(t, Options{})
		r.apply(t, siteOperations(i)[0])
		r.apply(t, databaseOf(own, second(i))...)
		r.apply(t, mappingTo(farSite-own, second(1-i))...)
	}
	for _, p := range []pair{pairs[0], pairs[3]} {
		bits := map[bool]int{true: 24, false: 64}[p.inner(0, 0).Is4()]
		must(t, b.ns.AddRoute(testnet.Route{Destination: netip.PrefixFrom(p.inner(farSite, 0), bits), Via: p.inner(8, 2)}))
		must(t, spaces[0].AddRoute(testnet.Route{Destination: netip.PrefixFrom(p.inner(0, 0), bits), Via: p.inner(8, 1)}))
	}
	must(t, b.ns.Forward())
	settings := b.Settings()
	settings.Interfaces = append(settings.Interfaces, dataplane.Interface{Name: "next0", Side: dataplane.SideSite})
	b.apply(t, dataplane.SetSettings{Settings: settings})
	b.apply(t, databaseOf(farSite, first(1))...)
	n.routers[0].apply(t, mappingTo(farSite, first(1))...)
	return spaces[2]
}

func databaseOf(site int, rloc netip.Addr) (operations []dataplane.Operation) {
	for _, prefix := range sitePrefixes(site) {
		operations = append(operations, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: prefix, Locators: locators(rloc)}})
	}
	return operations
}

func mappingTo(site int, rloc netip.Addr) []dataplane.Operation {
	return mappingOf(site, func(int) netip.Addr { return rloc })
}

// Shows RFC 9300 s.5.3 (18).
func TestEncapsulatedAnew(t *testing.T) {
	t.Parallel()
	families := []struct {
		name          string
		first, second func(int) netip.Addr
	}{
		{"IPv4, IPv4", rloc4, rloc4}, {"IPv4, IPv6", rloc4, rloc6}, {"IPv6, IPv4", rloc6, rloc4},
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			n := newNetwork(t)
			n.mapBoth(t, f.first)
			far := addSecondTunnel(t, n, f.first, f.second)
			for _, p := range []pair{pairs[0], pairs[3]} {
				n.expectPings(t, n.hosts[0], p.inner(0, 10), p.inner(farSite, 10))
				for _, segmented := range []bool{false, true} {
					must(t, n.routers[1].ns.SetOffload("next0", testnet.TSO, !segmented))
					result, err := testnet.TCP{
						Client: n.hosts[0], Server: far, Source: p.inner(0, 10), Destination: p.inner(farSite, 10),
						Octets: 8 << 20, Verify: true, Timeout: 30 * time.Second,
					}.Run(t.Context())
					if err != nil {
						t.Fatalf("TCP, %v: %v;%s", p.inner(0, 10), err, n.report())
					}
					t.Logf("%.2f Gbit/s;%s", result.BitsPerSecond/1e9, n.report())
				}
			}
		})
	}
}
