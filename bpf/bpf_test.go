// SPDX-License-Identifier: Apache-2.0

// Package bpf_test runs the kernel half of the data plane: packet by packet with BPF_PROG_TEST_RUN (this file; how that
// works is said in lisp_tc.bpf.c), and with real hosts (network_test.go, tap_test.go).
package bpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/forward"
	"loci/internal/testnet"
)

// What tc does with a packet.
const (
	actUnspec   = 0xFFFFFFFF // pass, other filters still run
	actOK       = 0
	actShot     = 2
	actRedirect = 7
)

// Offsets in struct __sk_buff.
const (
	skbIngressIfindex = 36
	skbIfindex        = 40
	skbOctets         = 192
)

var (
	hostMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x10} // of site0's neighbour
	peerMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x20} // of core0's neighbour
	tapMAC  = net.HardwareAddr{2, 0, 0, 0, 0, 0x30} // of loci0
)

// bench is one router without life around it: all neighbours are permanent, nothing is ever sent.
type bench struct {
	*router
	site, core netlink.Link
}

// newBench makes router A of the network in network_test.go, with site B behind the other RLOC in Instance-ID `iid`.
func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchOf(t, loadPlane(t, kernelHasDecapFlags(t)))
}

// newBenchOf is newBench with programs that were loaded in another way.
func newBenchOf(t testing.TB, p *plane) *bench {
	t.Helper()
	n := testnet.ForTest(t)
	spaces := map[string]*testnet.Namespace{}
	for _, role := range []string{"xtr", "host", "peer"} {
		ns, err := n.Namespace(role)
		must(t, err)
		spaces[role] = ns
	}
	connectSite(t, spaces["host"], spaces["xtr"], 0)
	must(t, testnet.Connect(coreEnd(spaces["xtr"], 0), testnet.End{Namespace: spaces["peer"], Name: "core0"}))
	must(t, spaces["xtr"].Forward())
	b := &bench{router: &router{plane: p, ns: spaces["xtr"]}}
	b.site, b.core = b.link(t, "site0"), b.link(t, "core0")
	for _, a := range []netip.Addr{siteAddress4(0, 10), siteAddress6(0, 10)} {
		b.neighbour(t, b.site, a, hostMAC)
	}
	for _, a := range []netip.Addr{rloc4(1), rloc6(1)} {
		b.neighbour(t, b.core, a, peerMAC)
	}
	b.declare(t, "site0", "LISP_INTERFACE_SITE")
	b.declare(t, "core0", "LISP_INTERFACE_CORE")
	b.settings(fields{})
	b.localRLOC(rloc4(0), 0)
	b.localRLOC(rloc6(0), 0)
	b.database(0, "10.1.0.0/24")
	b.database(0, "2001:db8:1::/64")
	return b
}

func (b *bench) neighbour(t testing.TB, on netlink.Link, a netip.Addr, mac net.HardwareAddr) {
	t.Helper()
	must(t, b.ns.Netlink().NeighSet(&netlink.Neigh{
		LinkIndex: on.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(a.AsSlice()), HardwareAddr: mac,
	}))
}

// run passes a frame to a program as if it were at that interface; came says whether it came in there.
func (b *bench) run(t testing.TB, program string, at netlink.Link, came bool, frame []byte) (uint32, []byte) {
	t.Helper()
	context := make([]byte, skbOctets)
	index := uint32(at.Attrs().Index)
	binary.LittleEndian.PutUint32(context[skbIfindex:], index)
	if came {
		binary.LittleEndian.PutUint32(context[skbIngressIfindex:], index)
	}
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: context}
	var answer uint32
	loaded := b.program(program)
	must(t, b.ns.Do(func() error {
		return onProcessor(0, func() (err error) { // whose caches are looked into
			answer, err = loaded.Run(options)
			return err
		})
	}))
	return answer, options.DataOut
}

func (b *bench) toSite(t testing.TB, frame []byte) (uint32, []byte) {
	return b.run(t, "site_ingress", b.site, true, frame)
}

func (b *bench) toCore(t testing.TB, frame []byte) (uint32, []byte) {
	return b.run(t, "core_ingress", b.core, true, frame)
}

// ip describes an IP packet with UDP for serialize.
type ip struct {
	from, to netip.Addr
	tos, ttl uint8
	port     uint16 // destination
	checksum bool   // of UDP
	payload  []byte
}

// serialize makes the packet; v4 gets DF, no identification.
func (p ip) serialize() []byte {
	udp := &layers.UDP{SrcPort: 1000, DstPort: layers.UDPPort(p.port)}
	var network gopacket.SerializableLayer
	if p.from.Is4() {
		v4 := &layers.IPv4{Version: 4, IHL: 5, TOS: p.tos, TTL: p.ttl, Protocol: layers.IPProtocolUDP,
			Flags: layers.IPv4DontFragment, SrcIP: p.from.AsSlice(), DstIP: p.to.AsSlice()}
		_ = udp.SetNetworkLayerForChecksum(v4)
		network = v4
	} else {
		v6 := &layers.IPv6{Version: 6, TrafficClass: p.tos, HopLimit: p.ttl, NextHeader: layers.IPProtocolUDP,
			SrcIP: p.from.AsSlice(), DstIP: p.to.AsSlice()}
		_ = udp.SetNetworkLayerForChecksum(v6)
		network = v6
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, network, udp, gopacket.Payload(p.payload)); err != nil {
		panic(err)
	}
	out := buffer.Bytes()
	if !p.checksum {
		start := map[bool]int{true: 20, false: 40}[p.from.Is4()]
		copy(out[start+6:], []byte{0, 0})
	}
	return out
}

func ethernet(to, from net.HardwareAddr, packet []byte) []byte {
	out := append(append([]byte{}, to...), from...)
	kind := []byte{0x08, 0x00}
	if packet[0]>>4 == 6 {
		kind = []byte{0x86, 0xDD}
	}
	return append(append(out, kind...), packet...)
}

// lispPacket puts a packet behind an outer header to router A.
func lispPacket(outer func(int) netip.Addr, tos, ttl uint8, header [8]byte, inner []byte) []byte {
	return ip{from: outer(1), to: outer(0), tos: tos, ttl: ttl, port: 4341, payload: append(header[:], inner...)}.serialize()
}

func (p pair) toRemote(tos, ttl uint8) []byte {
	return ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: tos, ttl: ttl, port: 9, checksum: true, payload: []byte("to B")}.serialize()
}

func (p pair) toLocal(tos, ttl uint8) []byte {
	return ip{from: p.inner(1, 10), to: p.inner(0, 10), tos: tos, ttl: ttl, port: 9, checksum: true, payload: []byte("to A")}.serialize()
}

func TestEncapsulate(t *testing.T) {
	b := newBench(t)
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			b.leafs = map[rootKey][]leaf{}
			b.mapCacheIn(77, pair)
			packet := pair.toRemote(0xB9, 64)
			padded := append(ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet), "padding"...)
			answer, got := b.toSite(t, padded)
			if answer != actRedirect {
				t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
			}
			want := b.encapsulated(t, pair, 77, packet, got)
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%x\nwant\n%x", got, want)
			}
		})
	}
}

// TestChecksumsOfInnerHeaders gives inner headers checksums at which an update could go wrong, most of them wrong ones, which stay
// as wrong as they are (RFC 1624).
func TestChecksumsOfInnerHeaders(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	b.mapCacheIn(77, pairs[0])
	for _, sum := range []uint16{0, 1, 0xFF, 0x100, 0x101, 0xFEFE, 0xFEFF, 0xFF00, 0xFFFE, 0xFFFF} {
		packet := pairs[0].toRemote(0xB9, 64)
		binary.BigEndian.PutUint16(packet[10:], sum)
		frame := ethernet(b.site.Attrs().HardwareAddr, hostMAC, append(packet, make([]byte, 20)...)) // padded
		for name, send := range map[string]func() (uint32, []byte){
			"tc":        func() (uint32, []byte) { return b.toSite(t, frame) },
			"XDP":       func() (uint32, []byte) { return b.frameXDP(t, b.site, frame) },
			"XDP again": func() (uint32, []byte) { return b.frameXDP(t, b.site, frame) },
		} {
			if _, got := send(); !bytes.Equal(got, b.encapsulated(t, pairs[0], 77, packet, got)) {
				t.Errorf("%s, checksum %#04x: got %x", name, sum, got)
			}
		}
	}
}

// oneMapping leaves of the tables the own site, in both families, and site B as one of its mappings.
func (b *bench) oneMapping(p pair) {
	b.leafs = map[rootKey][]leaf{}
	for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
		b.database(0, own)
	}
	b.mapCacheIn(0, p)
}

// mapCacheIn maps site B to Instance-ID iid of the remote side.
func (b *bench) mapCacheIn(iid uint32, pair pair) {
	set := b.locatorSet(fields{}, pair.outer(1).String(), pair.outer(0).String())
	for _, prefix := range []string{"10.2.0.0/24", "2001:db8:2::/64"} {
		index := b.mapCacheTo(0, prefix, set)
		b.update("mappings", index, b.encode("lisp_mapping", fields{
			"flags": b.constant("LISP_MAPPING_VALID"), "locator_set": set, "iid": iid,
		}))
	}
}

// encapsulated is the frame that should have come out; the nonce is taken from what did.
func (b *bench) encapsulated(t *testing.T, pair pair, iid uint32, packet, got []byte) []byte {
	t.Helper()
	header, err := forward.ParseHeader(packet)
	must(t, err)
	hash := forward.FlowHash(&header)
	inner := bytes.Clone(packet)
	forward.DecrementTTL(inner, &header)
	v4 := pair.outer(0).Is4()
	lisp := make([]byte, 8)
	lisp[0] = 0x88
	copy(lisp[1:4], got[14+map[bool]int{true: 20, false: 40}[v4]+8+1:])
	binary.BigEndian.PutUint32(lisp[4:], iid<<8)
	out := ip{from: pair.outer(0), to: pair.outer(1), tos: 0xB9, ttl: 63, port: 4341, payload: append(lisp, inner...)}.serialize()
	if v4 {
		binary.BigEndian.PutUint16(out[20:], forward.SourcePort(hash))
	} else {
		binary.BigEndian.PutUint32(out, binary.BigEndian.Uint32(out)|forward.FlowLabel(hash))
		binary.BigEndian.PutUint16(out[40:], forward.SourcePort(hash))
	}
	return ethernet(peerMAC, b.core.Attrs().HardwareAddr, out)
}

func TestDecapsulate(t *testing.T) {
	b := newBench(t)
	for _, pair := range pairs {
		for inner := range uint8(4) {
			for outer := range uint8(4) {
				t.Run(fmt.Sprintf("%s inner ECN %d outer %d", pair.name, inner, outer), func(t *testing.T) {
					b.decapsulate(t, pair, inner, outer)
				})
			}
		}
	}
	alarms, curious := b.counter("LISP_COUNTER_ECN_ALARM"), b.counter("LISP_COUNTER_ECN_CURIOUS")
	if alarms != 4*4 || curious != 4 || b.dropped("LISP_DROP_ECN") != 4 {
		t.Errorf("%d alarms, %d curious, %d dropped", alarms, curious, b.dropped("LISP_DROP_ECN"))
	}
}

// rfc6040 is figure 4 of RFC 6040, row: inner, column: outer, both in the order Not-ECT, ECT(1), ECT(0), CE of their values; 9: drop.
var rfc6040 = [4][4]uint8{{0, 0, 0, 9}, {1, 1, 1, 3}, {2, 1, 2, 3}, {3, 3, 3, 3}}

func (b *bench) decapsulate(t *testing.T, pair pair, inner, outer uint8) {
	b.emptyCaches()
	packet := append(lispPacket(pair.outer, 0xB8|outer, 33, [8]byte{0x80, 1, 2, 3}, pair.toLocal(0x28|inner, 64)), "padding"...)
	answer, got := b.toCore(t, ethernet(b.core.Attrs().HardwareAddr, peerMAC, packet))
	ecn := rfc6040[inner][outer]
	if ecn == 9 {
		if answer != actShot {
			t.Fatalf("answer %d, want a drop", int32(answer))
		}
		return
	}
	if answer != actRedirect {
		t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
	}
	original := pair.toLocal(0x28|inner, 64)
	want := pair.toLocal(0xB8|ecn, 32)
	if !bytes.Equal(got, ethernet(hostMAC, b.site.Attrs().HardwareAddr, want)) {
		t.Errorf("got\n%x\nwant\n%x\nfrom\n%x", got, want, original)
	}
	if inner != outer {
		return // the markings are judged for each packet
	}
	b.markRecords(nil)
	hits := b.flowHits(t)
	b.markFlows(nil)
	_, got = b.toCore(t, ethernet(b.core.Attrs().HardwareAddr, peerMAC, packet))
	if !bytes.Equal(got, ethernet(recordedMAC, b.site.Attrs().HardwareAddr, want)) {
		t.Errorf("by the flow cache: got\n%x\nwant\n%x", got, want)
	}
	if b.flowHits(t) == hits {
		t.Error("it missed the flow cache")
	}
}

func TestDropsFromCore(t *testing.T) {
	b := newBench(t)
	pair := pairs[0]
	inner := pair.toLocal(0, 64)
	foreign := ip{from: siteAddress4(1, 10), to: siteAddress4(2, 10), ttl: 64, port: 9}.serialize()
	cases := []struct {
		reason string
		header [8]byte
		inner  []byte
	}{
		{"LISP_DROP_KEY_ID", [8]byte{0x81}, inner},
		{"LISP_DROP_KEY_ID", [8]byte{0x02}, inner},
		{"LISP_DROP_RESERVED_BIT", [8]byte{0x84}, inner},
		{"LISP_DROP_EID_NOT_IN_DATABASE", [8]byte{0x80}, foreign},
		{"LISP_DROP_EID_NOT_IN_DATABASE", [8]byte{0x08, 0, 0, 0, 0, 0, 7, 0}, inner},
		{"LISP_DROP_INNER_MALFORMED", [8]byte{0x80}, nil},
		{"LISP_DROP_INNER_MALFORMED", [8]byte{0x80}, inner[:19]},
		{"LISP_DROP_INNER_MALFORMED", [8]byte{0x80}, inner[:len(inner)-1]},
		{"LISP_DROP_INNER_MALFORMED", [8]byte{0x80}, append([]byte{0x44}, inner[1:]...)},
		{"LISP_DROP_INNER_MALFORMED", [8]byte{0x80}, append([]byte{0x55}, inner[1:]...)},
		{"LISP_DROP_INNER_MALFORMED", [8]byte{0x80}, []byte{0x60, 0, 0}},
	}
	for i, c := range cases {
		before := b.dropped(c.reason)
		answer, _ := b.toCore(t, ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(rloc4, 0, 64, c.header, c.inner)))
		if answer != actShot || b.dropped(c.reason) != before+1 {
			t.Errorf("case %d: answer %d, not counted as %s: %s", i, int32(answer), c.reason, b.allDrops())
		}
	}
	b.dropsByOuterLengths(t, inner)
}

func (b *bench) dropsByOuterLengths(t *testing.T, inner []byte) {
	t.Helper()
	good := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(rloc4, 0, 64, [8]byte{}, inner))
	for reason, udpLength := range map[string]uint16{
		"LISP_DROP_LISP_HEADER_TRUNCATED": 15, "LISP_DROP_OUTER_MALFORMED": uint16(len(good)),
	} {
		bad := bytes.Clone(good)
		binary.BigEndian.PutUint16(bad[14+20+4:], udpLength)
		if answer, _ := b.toCore(t, bad); answer != actShot || b.dropped(reason) != 1 {
			t.Errorf("UDP length %d: answer %d: %s", udpLength, int32(answer), b.allDrops())
		}
	}
	cut := good[:len(good)-1]
	if answer, _ := b.toCore(t, cut); answer != actShot || b.dropped("LISP_DROP_OUTER_MALFORMED") != 2 {
		t.Errorf("cut off: answer %d: %s", int32(answer), b.allDrops())
	}
}

func TestFlagsFromCore(t *testing.T) {
	b := newBench(t)
	b.database(7, "10.1.0.0/24")
	// L, E, N with V, checksum set: all taken.
	for _, header := range [][8]byte{{}, {0x40, 0, 0, 0, 0, 0, 0, 1}, {0xA0, 1, 2, 3}, {0x90, 1, 2, 3}, {0x10}, {0x88, 1, 2, 3, 0, 0, 7, 0xFF}} {
		outer := ip{from: rloc4(1), to: rloc4(0), ttl: 64, port: 4341, checksum: true, payload: append(header[:], pairs[0].toLocal(0, 64)...)}
		if answer, _ := b.toCore(t, ethernet(b.core.Attrs().HardwareAddr, peerMAC, outer.serialize())); answer != actRedirect {
			t.Errorf("header %x: answer %d; %s", header, int32(answer), b.allDrops())
		}
	}
	if got := b.counter("LISP_COUNTER_NONCE_AND_VERSION"); got != 1 {
		t.Errorf("N with V counted %d times", got)
	}
}

// Shows RFC 9300 s.15 (1).
func TestActions(t *testing.T) {
	b := newBench(t)
	actions := map[string]string{
		"10.20.0.0/16": "LISP_ACTION_NO_ACTION", "10.21.0.0/16": "LISP_ACTION_DROP", "10.22.0.0/16": "LISP_ACTION_DROP_POLICY_DENIED",
		"10.23.0.0/16": "LISP_ACTION_DROP_AUTHENTICATION_FAILURE", "10.24.0.0/16": "LISP_ACTION_NATIVELY_FORWARD",
		"10.25.0.0/16": "LISP_ACTION_SEND_MAP_REQUEST",
	}
	for prefix, action := range actions {
		b.negative(0, prefix, action)
	}
	for destination, reason := range map[string]string{
		"10.20.0.1": "LISP_DROP_NO_ACTION", "10.21.0.1": "LISP_DROP_ACTION_DROP", "10.22.0.1": "LISP_DROP_POLICY_DENIED",
		"10.23.0.1": "LISP_DROP_AUTHENTICATION_FAILURE", "10.25.0.1": "LISP_DROP_NO_TAP", "10.26.0.1": "LISP_DROP_NO_TAP", "10.24.0.1": "",
	} {
		before, want := uint64(0), uint32(actUnspec)
		if reason != "" {
			before, want = b.dropped(reason), actShot
		}
		packet := ip{from: siteAddress4(0, 10), to: netip.MustParseAddr(destination), ttl: 64, port: 9}.serialize()
		answer, _ := b.toSite(t, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet))
		if answer != want || (reason != "" && b.dropped(reason) != before+1) {
			t.Errorf("to %s: answer %d, want %s; %s", destination, int32(answer), reason, b.allDrops())
		}
	}
}

// TestPass holds what must go through untouched.
func TestPass(t *testing.T) {
	b := newBench(t)
	b.mapCache(0, "0.0.0.0/0", rloc4(1).String(), rloc4(0).String())
	b.mapCache(0, "::/0", rloc4(1).String(), rloc4(0).String())
	site, core := b.site.Attrs().HardwareAddr, b.core.Attrs().HardwareAddr
	from, other := siteAddress4(0, 10), netip.MustParseAddr("203.0.113.1")
	to := func(a string) []byte { return ip{from: from, to: netip.MustParseAddr(a), ttl: 64, port: 9}.serialize() }
	to6 := func(a string) []byte {
		return ip{from: siteAddress6(0, 10), to: netip.MustParseAddr(a), ttl: 64, port: 9}.serialize()
	}
	inner := pairs[0].toLocal(0, 64)
	fragment := lispPacket(rloc4, 0, 64, [8]byte{}, inner)
	fragment[6] = 0x20
	cases := map[string]struct {
		program string
		frame   []byte
	}{
		"to another MAC":           {"site_ingress", ethernet(peerMAC, hostMAC, to("10.9.0.1"))},
		"source is no EID":         {"site_ingress", ethernet(site, hostMAC, ip{from: other, to: from, ttl: 64, port: 9}.serialize())},
		"within the site":          {"site_ingress", ethernet(site, hostMAC, to("10.1.0.77"))},
		"TTL 1":                    {"site_ingress", ethernet(site, hostMAC, pairs[0].toRemote(0, 1))},
		"multicast":                {"site_ingress", ethernet(site, hostMAC, to("224.0.0.5"))},
		"broadcast":                {"site_ingress", ethernet(site, hostMAC, to("255.255.255.255"))},
		"link-local":               {"site_ingress", ethernet(site, hostMAC, to("169.254.1.1"))},
		"IPv6 multicast":           {"site_ingress", ethernet(site, hostMAC, to6("ff02::1"))},
		"IPv6 link-local":          {"site_ingress", ethernet(site, hostMAC, to6("fe80::1"))},
		"ARP":                      {"site_ingress", append(append(append([]byte{}, site...), hostMAC...), "\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01________________________"...)},
		"total length too large":   {"site_ingress", ethernet(site, hostMAC, to("10.9.0.1")[:24])},
		"not to an own RLOC":       {"core_ingress", ethernet(core, peerMAC, ip{from: other, to: other, ttl: 9, port: 4341, payload: make([]byte, 40)}.serialize())},
		"not the data port":        {"core_ingress", ethernet(core, peerMAC, ip{from: other, to: rloc4(0), ttl: 9, port: 4342, payload: make([]byte, 40)}.serialize())},
		"outer fragment":           {"core_ingress", ethernet(core, peerMAC, fragment)},
		"own LISP leaves":          {"core_egress", ethernet(peerMAC, core, ip{from: rloc4(0), to: rloc4(1), ttl: 9, port: 4341, payload: make([]byte, 40)}.serialize())},
		"source is no EID, leaves": {"core_egress", ethernet(peerMAC, core, ip{from: other, to: rloc4(1), ttl: 9, port: 9}.serialize())},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			at, came := b.core, c.program != "core_egress"
			if strings.HasPrefix(c.program, "site") {
				at = b.site
			}
			answer, got := b.run(t, c.program, at, came, c.frame)
			if answer != actUnspec || !bytes.Equal(got, c.frame) {
				t.Errorf("answer %d, changed %v; %s", int32(answer), !bytes.Equal(got, c.frame), b.allDrops())
			}
		})
	}
	if got := b.counter("LISP_COUNTER_OUTER_FRAGMENT"); got != 1 {
		t.Errorf("%d outer fragments counted", got)
	}
}

// TestFlowHash compares the programs' hash with the specification in Go, seen through the outer source port.
// Shows RFC 9300 s.12 (1).
func TestFlowHash(t *testing.T) {
	b := newBench(t)
	b.mapCacheIn(0, pairs[0])
	mutate := func(packet []byte, change func([]byte)) []byte {
		change(packet)
		return packet
	}
	// An IPv6 packet with these extension headers before UDP, each given by its number, all of 8 octets.
	extended := func(numbers ...byte) []byte {
		packet := pairs[1].toRemote(0, 64)
		head, rest := bytes.Clone(packet[:40]), packet[40:]
		next := append(numbers[1:], 17)
		head[6] = numbers[0]
		for i := range numbers {
			head = append(head, next[i], 0, 0, 0, 0, 0, 0, byte(i))
		}
		head = append(head, rest...)
		binary.BigEndian.PutUint16(head[4:], uint16(len(head)-40))
		return head
	}
	cases := map[string][]byte{
		"IPv4 UDP":               pairs[0].toRemote(0, 64),
		"IPv6 UDP":               pairs[1].toRemote(0, 64),
		"IPv4 ICMP":              mutate(pairs[0].toRemote(0, 64), func(p []byte) { p[9] = 1 }),
		"IPv4 TCP":               mutate(pairs[0].toRemote(0, 64), func(p []byte) { p[9] = 6 }),
		"IPv4 SCTP":              mutate(pairs[0].toRemote(0, 64), func(p []byte) { p[9] = 132 }),
		"IPv4 first fragment":    mutate(pairs[0].toRemote(0, 64), func(p []byte) { p[6] = 0x20 }),
		"IPv4 later fragment":    mutate(pairs[0].toRemote(0, 64), func(p []byte) { p[7] = 9 }),
		"IPv4 options":           mutate(pairs[0].toRemote(0, 64), func(p []byte) { p[0] = 0x46 }),
		"IPv6 hop-by-hop":        extended(0),
		"IPv6 routing, dest":     extended(0, 43, 60),
		"IPv6 fragment":          extended(0, 44),
		"IPv6 six headers":       extended(0, 60, 60, 60, 60, 60),
		"IPv6 seven headers":     extended(0, 60, 60, 60, 60, 60, 60),
		"IPv6 header beyond end": mutate(extended(0), func(p []byte) { p[41] = 255 }),
		"IPv6 no next header":    mutate(pairs[1].toRemote(0, 64), func(p []byte) { p[6] = 59 }),
	}
	for name, packet := range cases {
		t.Run(name, func(t *testing.T) {
			header, err := forward.ParseHeader(packet)
			must(t, err)
			answer, got := b.toSite(t, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet))
			if answer != actRedirect {
				t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
			}
			if port, want := binary.BigEndian.Uint16(got[34:]), forward.SourcePort(forward.FlowHash(&header)); port != want {
				t.Errorf("source port %d, want %d", port, want)
			}
		})
	}
}

// TestMappingCounters demands that each processor counts in its own part of the array.
func TestMappingCounters(t *testing.T) {
	b := newBench(t)
	index := b.mapCache(0, "10.2.0.0/24", rloc4(1).String(), rloc4(0).String())
	packet := pairs[0].toRemote(0, 64)
	frame := ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)
	for cpu := range uint32(ebpf.MustPossibleCPU()) {
		must(t, b.ns.Do(func() error {
			return onProcessor(int(cpu), func() error {
				return b.runTimes(cpu+1, "site_ingress", speedOptions(b.site, frame))
			})
		}))
	}
	for cpu := range uint32(ebpf.MustPossibleCPU()) {
		packets, octets := b.countedBy(t, cpu, index)
		if want := uint64(cpu + 1); packets != want || octets != want*uint64(len(packet)) {
			t.Errorf("processor %d: %d packets, %d octets", cpu, packets, octets)
		}
	}
	var record []byte
	must(t, b.coll.Maps["mappings"].Lookup(index, &record))
	if binary.LittleEndian.Uint32(record[lastUsedOffset:]) == 0 {
		t.Error("the mapping was never used")
	}
}

// countedBy is what a processor counted for a mapping.
func (b *bench) countedBy(t *testing.T, cpu, index uint32) (packets, octets uint64) {
	t.Helper()
	var counters []byte
	must(t, b.coll.Maps["mapping_counters"].Lookup(cpu*planeLimit+index, &counters))
	return binary.LittleEndian.Uint64(counters), binary.LittleEndian.Uint64(counters[8:])
}

// lastUsedOffset is where last_used stands in a lisp_mapping.
const lastUsedOffset = 60

// onProcessor runs f on one processor; the caller's goroutine is bound to its thread.
func onProcessor(cpu int, f func() error) error {
	var before, one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	return errors.Join(f(), unix.SchedSetaffinity(0, &before))
}

func (b *bench) runTimes(times uint32, program string, options *ebpf.RunOptions) error {
	for range times {
		if _, err := b.program(program).Run(options); err != nil {
			return err
		}
	}
	return nil
}
