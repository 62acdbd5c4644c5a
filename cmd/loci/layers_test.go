// SPDX-License-Identifier: Apache-2.0

package main_test

// Two layers between real sites: the RLOC of site 2 is an EID of the site "gw", in which it is. The ITR of site 1 adds both layers, by
// a path that carries 1400 octets; each of the two routers takes off its own.

import (
	"context"
	order "encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/forward"
	"loci/internal/testnet"
	"loci/wire"
)

const (
	layersPathMTU = 1400
	// The RLOCs of site 2, which the core knows nothing of. Each is reached by a locator of the other family.
	eidRLOC4, eidRLOC6 = "172.20.2.2", "fd20:2::2"
	gwRLOC4, gwRLOC6   = "172.16.37.2", "2001:db8:37::2"
	// layersLargest is the largest packet between hosts: one layer over IPv4, one over IPv6.
	layersLargest = layersPathMTU - 36 - 56
)

// newLayersNetwork is host1 - xtr1 - core - gw - xtr2 - host2, with all daemons.
func newLayersNetwork(t *testing.T) *lispNetwork {
	t.Helper()
	n := newEmptyNetwork(t, "core", "ms", "xtr1", "gw", "xtr2", "host1", "host2")
	for _, router := range []string{"core", "gw", "xtr2"} {
		n.must(n.at[router].Forward())
	}
	n.plugRouter("ms")
	n.buildSite(1)
	n.link("core", "to-gw", "gw", "core0", "172.16.37.1/30", gwRLOC4+"/30", "2001:db8:37::1/64", gwRLOC6+"/64")
	n.defaults("gw", "172.16.37.1", "2001:db8:37::1")
	n.link("gw", "site0", "xtr2", "core0", "172.20.2.1/24", eidRLOC4+"/24", "fd20:2::1/64", eidRLOC6+"/64")
	n.defaults("xtr2", "172.20.2.1", "fd20:2::1")
	two := testSite{2}
	n.link("xtr2", "site0", "host2", "eth0", two.router4().String()+"/24", two.host4().String()+"/24", two.router6().String()+"/64", two.host6().String()+"/64")
	n.defaults("host2", two.router4().String(), two.router6().String())
	n.must(n.at["core"].SetMTU("to-gw", layersPathMTU))
	n.must(n.at["gw"].SetMTU("core0", layersPathMTU))

	n.run("ms", n.layersMappingSystem())
	n.run("gw", fmt.Sprintf("interfaces: {site: [{interface: site0}], core: [core0]}\nitr: {map-resolvers: [172.16.9.2]}\n"+
		"etr:\n  map-servers:\n    - ms-address: 172.16.9.2\n      authentication-keys: [{auth-key-value: %s}]\n"+
		"  local-eids: [{eid: 172.20.2.0/24, rlocs: [{address: '%s'}]}, {eid: 'fd20:2::/64', rlocs: [{address: %s}]}]\n", siteKey(2), gwRLOC6, gwRLOC4)+n.common("gw"))
	n.awaitRegistrations(2)
	n.run("xtr1", n.layersXTR(1, eidRLOC4, eidRLOC6, 2))
	n.run("xtr2", n.layersXTR(2, rlocOf("xtr1", false), rlocOf("xtr1", true), 1))
	return n
}

// layersMappingSystem knows the RLOCs that are EIDs, and no other.
func (n *lispNetwork) layersMappingSystem() string {
	return fmt.Sprintf("map-resolver: {}\nmap-server:\n  sites:\n    - name: gw\n      authentication-keys: [{auth-key-value: %s}]\n"+
		"      eid-prefixes: [{eid: 172.20.2.0/24}, {eid: 'fd20:2::/64'}]\n", siteKey(2)) + n.common("ms")
}

// layersXTR is a site that reaches the other one by static mappings to these RLOCs.
func (n *lispNetwork) layersXTR(number int, rloc4, rloc6 string, depth int) string {
	own, other := testSite{number}, testSite{3 - number}
	return fmt.Sprintf("interfaces: {site: [{interface: site0}], core: [core0]}\n"+
		"itr: {map-resolvers: [172.16.9.2], map-cache: {mappings: [{eid: %s, rlocs: [{address: %s}]}, {eid: '%s', rlocs: [{address: '%s'}]}]}}\n"+
		"etr: {local-eids: [{eid: %s}, {eid: '%s'}]}\n", other.eid4(), rloc4, other.eid6(), rloc6, own.eid4(), own.eid6()) +
		strings.Replace(n.common(own.name()), "datapath:\n", fmt.Sprintf("datapath:\n  recursion-depth: %d\n", depth), 1)
}

// offloads sets whether a host's TCP is GSO packets with CHECKSUM_PARTIAL, or packets as a wire carries them.
func (n *lispNetwork) offloads(on bool) {
	n.t.Helper()
	for at, link := range map[string]string{"host1": "eth0", "host2": "eth0", "xtr1": "site0", "xtr2": "site0"} {
		for _, feature := range []testnet.Feature{testnet.TSO, testnet.GSO, testnet.TxChecksum, testnet.GRO} {
			n.must(n.at[at].SetOffload(link, feature, on))
		}
	}
}

// routeMTU is what a host knows of the path to an address.
func (n *lispNetwork) routeMTU(host string, to netip.Addr) int {
	n.t.Helper()
	routes, err := n.at[host].Netlink().RouteGet(to.AsSlice())
	n.must(err)
	if len(routes) == 0 {
		return 0
	}
	return routes[0].MTU
}

// layersCheck judges what arrives at gw from the core.
type layersCheck struct {
	mu       sync.Mutex
	packets  int
	complete bool // checksums have to be right
	next     map[uint32]uint32
	gaps     int // segments that came before another one
	wrong    []string
}

// gapsAllowed is how often segments may overtake others: the kernel gives a veth's packets to the processor of their sender, which may
// change. Where GSO packets are overtaken by what came after them, there is a gap for most of them.
const gapsAllowed = 8

func (c *layersCheck) fault(format string, args ...any) {
	if len(c.wrong) < 5 {
		c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	}
}

// inside takes a layer off.
func inside(packet []byte) ([]byte, error) {
	e, reason := forward.ParseEncapsulated(packet)
	if reason != forward.DropNone {
		return nil, errors.New(reason.String())
	}
	if port := e.Outer.Ports & 0xFFFF; port != forward.DataPort || e.LISP != (wire.DataHeader{NoncePresent: true, Nonce: e.LISP.Nonce}) {
		return nil, fmt.Errorf("port %d, LISP header %+v", port, e.LISP)
	}
	return e.Inner, nil
}

// take judges a frame: LISP in LISP, within the path MTU, TCP in the order of its sequence numbers.
func (c *layersCheck) take(p testnet.Captured) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	outer, err := forward.ParseHeader(p.Data[14:])
	if err != nil || outer.Ports&0xFFFF != forward.DataPort {
		return nil // the control plane's
	}
	first, err := inside(p.Data[14:])
	if err != nil {
		c.fault("outer layer: %v", err)
		return nil
	}
	if h, err := forward.ParseHeader(first); err == nil && (h.Protocol == unix.IPPROTO_ICMP || h.Protocol == unix.IPPROTO_ICMPV6) {
		return nil // xtr1's check of the data path to an RLOC that is an EID
	}
	inner, err := inside(first)
	if err != nil {
		c.fault("inner layer: %v", err)
		return nil
	}
	h, err := forward.ParseHeader(inner)
	if err != nil {
		c.fault("inner packet: %v", err)
		return nil
	}
	c.packets++
	if p.Length-14 > layersPathMTU {
		c.fault("%d octets", p.Length-14)
	}
	if h.Protocol == unix.IPPROTO_TCP {
		c.takeTCP(inner, &h)
	}
	return nil
}

func (c *layersCheck) takeTCP(inner []byte, h *forward.Header) {
	tcp := inner[h.PayloadOffset:h.Length]
	if c.complete && tcpSum(h, tcp) != 0xFFFF {
		c.fault("TCP checksum: sum %#x", tcpSum(h, tcp))
	}
	sequence, octets := order.BigEndian.Uint32(tcp[4:]), uint32(len(tcp))-uint32(tcp[12]>>4)*4
	next, known := c.next[h.Ports]
	if known && octets > 0 && int32(sequence-next) > 0 {
		if c.gaps++; c.gaps > gapsAllowed {
			c.fault("a segment of %d octets is %d octets ahead, after %d others", octets, sequence-next, c.gaps-1)
		}
	}
	if !known || int32(sequence+octets-next) > 0 {
		c.next[h.Ports] = sequence + octets + uint32(tcp[13]>>1&1) // SYN
	}
}

// tcpSum is the folded sum of a segment with its pseudo header: 0xFFFF where the checksum is right.
func tcpSum(h *forward.Header, tcp []byte) uint16 {
	pseudo := slices.Concat(h.Source.AsSlice(), h.Destination.AsSlice(), []byte{0, unix.IPPROTO_TCP}, order.BigEndian.AppendUint16(nil, uint16(len(tcp))), tcp)
	return ^forward.Checksum(pseudo)
}

// transfer sends octets from host 1 to host 2 and judges what arrives at gw.
func (n *lispNetwork) transferByTwoLayers(source, destination netip.Addr, complete bool) (segmented uint64) {
	n.t.Helper()
	check := &layersCheck{complete: complete, next: map[uint32]uint32{}}
	running, err := testnet.Capture{Namespace: n.at["gw"], Links: []string{"core0"}, IncomingOnly: true}.Start(check.take)
	n.must(err)
	before := n.dataPlane("xtr1").DataPlane
	tcp := testnet.TCP{Client: n.at["host1"], Server: n.at["host2"], Source: source, Destination: destination, Octets: 8 << 20, Verify: true}
	result, err := tcp.Run(n.t.Context())
	if err != nil {
		n.tellDrops()
		n.t.Fatalf("TCP from %s: %v", source, err)
	}
	n.must(running.Stop())
	after := n.dataPlane("xtr1").DataPlane
	_, missed := running.Packets()
	twice := after["encapsulated_twice"] - before["encapsulated_twice"]
	segmented = after["segmented"] - before["segmented"]
	n.t.Logf("%s, offloads %t: %.2f Gbit/s, %d packets with two layers, %d GSO packets cut, %d missed by the capture", source, !complete, result.BitsPerSecond/1e9, twice, segmented, missed)
	if len(check.wrong) > 0 {
		n.t.Errorf("%s, offloads %t: on the wire: %s", source, !complete, strings.Join(check.wrong, "; "))
	}
	if least := 8 << 20 / layersLargest; check.packets < least || int(twice) < least {
		n.t.Errorf("%s: %d packets captured, %d counted, want %d at least", source, check.packets, twice, least)
	}
	return segmented
}

// TestTwoLayers: sites reach each other through two layers; hosts learn how much the path carries; TCP arrives whole, packet by packet
// and with offloads.
func TestTwoLayers(t *testing.T) {
	n := newLayersNetwork(t)
	one, two := testSite{1}, testSite{2}
	for _, pair := range [][2]netip.Addr{{one.host4(), two.host4()}, {one.host6(), two.host6()}} {
		n.ping("host1", pair[0], pair[1], 10) // the first waits for the RLOC's mapping
		n.ping("host2", pair[1], pair[0], 10)
	}
	if c := n.dataPlane("xtr1").DataPlane; c["encapsulated_twice"] < 40 || c["encapsulated_packets_total"] < 40 || c["misses_total"] > c["encapsulated_twice"] {
		t.Errorf("counters of xtr1: %v", c)
	}
	n.awaitWithin(20*time.Second, "hosts know what the path carries", func(ctx context.Context) bool {
		known := true
		for _, pair := range [][2]netip.Addr{{one.host4(), two.host4()}, {one.host6(), two.host6()}} {
			_, err := testnet.Ping{Namespace: n.at["host1"], Source: pair[0], Destination: pair[1], Octets: 1340, Timeout: time.Millisecond}.Run(ctx)
			n.must(err)
			known = known && n.routeMTU("host1", pair[1]) == layersLargest
		}
		return known
	})
	for _, offloads := range []bool{false, true} {
		n.offloads(offloads)
		for _, pair := range [][2]netip.Addr{{one.host4(), two.host4()}, {one.host6(), two.host6()}} {
			if segmented := n.transferByTwoLayers(pair[0], pair[1], !offloads); (segmented > 0) != offloads {
				t.Errorf("%s, offloads %t: %d GSO packets were cut into segments", pair[0], offloads, segmented)
			}
		}
	}
	if t.Failed() {
		n.tellDrops()
	}
}
