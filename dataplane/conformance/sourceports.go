// SPDX-License-Identifier: Apache-2.0

package conformance

// Locators with a source port: what goes through a NAT leaves from one port, with an outer UDP checksum, and all else
// from the port of its flow.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"loci/dataplane"
	"loci/lisp"
)

// WithoutSourcePorts is a Harness whose engine refuses source ports.
type WithoutSourcePorts interface{ WithoutSourcePorts() }

// nodePort is the source port of a node behind a NAT, rtrPort that of an RTR towards it.
const nodePort, rtrPort = 4341, 4342

// from is a locator whose packets leave from that port.
func from(port uint16, l lisp.Locator) lisp.Locator {
	l.SourcePort = port
	return l
}

// fixesPorts demands of an engine that refuses source ports that it says so.
func (b *bench) fixesPorts() bool {
	b.Helper()
	if _, refuses := b.Harness.(WithoutSourcePorts); !refuses {
		return true
	}
	m := b.mapping("10.2.0.0/24", from(nodePort, locator(PeerRLOCs[0].String(), 1, 100)))
	for _, err := range b.plane.Apply(m) {
		if !errors.Is(err, dataplane.ErrUnsupported) {
			b.Errorf("%v, want %v", err, dataplane.ErrUnsupported)
		}
	}
	if _, ok := b.plane.Mapping(m.Entry.Mapping.Prefix); ok {
		b.Error("the mapping was refused and is there")
	}
	return false
}

func sourcePortsReadBack(b *bench) {
	if !b.fixesPorts() {
		return
	}
	want := b.mapping("10.2.0.0/24", from(nodePort, locator("192.0.2.2", 1, 50)), locator("192.0.2.3", 1, 50),
		from(65535, locator("2001:db8:ff00::2", 2, 100)), from(rtrPort, by(pathTo("192.0.2.2", "192.0.2.3:40001"), 1, 3)))
	b.apply(want)
	got, ok := b.plane.Mapping(want.Entry.Mapping.Prefix)
	if !ok {
		b.Fatal("the mapping is not there")
	}
	b.sameEntry(got, want.Entry)
	for got := range b.plane.Mappings() {
		b.sameEntry(got, want.Entry)
	}
}

// flowsOf sends packets of several flows to an EID and returns how many source ports they left from. Those that leave
// from the given port, and only those, have a checksum, which must be right.
func (b *bench) flowsOf(rloc string, to packet, port uint16) int {
	b.Helper()
	ports := map[uint16]bool{}
	for i := range 12 {
		p := to.flow(uint16(2000 + i)).numbered(i).sized(100 + i)
		s := b.expectTo(rloc, p)
		ports[s.sourcePort] = true
		b.expectChecksum(s, port != 0)
		if port != 0 && s.sourcePort != port || port == 0 && s.sourcePort < 0xC000 {
			b.Errorf("%s leaves from port %d, want %d (0: of its flow)", s, s.sourcePort, port)
		}
	}
	return len(ports)
}

// expectChecksum demands an outer UDP checksum, or none. Engines that send by sockets always have one.
func (b *bench) expectChecksum(s seen, wanted bool) {
	b.Helper()
	if s.checksum == 0 && !wanted {
		return
	}
	if problem := checksumProblem(s.outer); problem != "" {
		b.Errorf("%s from port %d: %s", s, s.sourcePort, problem)
	}
}

// checksumProblem says what is wrong with the UDP checksum of a packet without IP options or extension headers.
func checksumProblem(octets []byte) string {
	header, addresses := 20, octets[12:20]
	if octets[0]>>4 == 6 {
		header, addresses = 40, octets[8:40]
	}
	udp := octets[header:]
	if udp[6] == 0 && udp[7] == 0 {
		return "no checksum"
	}
	total := uint32(17) + uint32(len(udp)) + uint32(^complementOf(0, addresses))
	if left := complementOf(total, udp); left != 0 {
		return fmt.Sprintf("a wrong checksum %x: it is off by %04x", udp[6:8], left)
	}
	return ""
}

// sourcePortsOfFlows: packets of all flows leave from the locator's port, of both families, and follow a change of
// it.
func sourcePortsOfFlows(b *bench) {
	if !b.fixesPorts() {
		return
	}
	for _, rloc := range []string{PeerRLOCs[0].String(), PeerRLOCs[2].String()} {
		for _, port := range []uint16{nodePort, 0, rtrPort} {
			b.expectSourcePort(from(port, locator(rloc, 1, 100)))
		}
	}
}

func (b *bench) expectSourcePort(l lisp.Locator) {
	b.Helper()
	b.apply(b.mapping("10.2.0.0/24", l), b.mapping("2001:db8:2::/64", l))
	for _, to := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
		ports := b.flowsOf(l.RLOC.String(), to, l.SourcePort)
		if l.SourcePort != 0 && ports != 1 || l.SourcePort == 0 && ports < 3 {
			b.Errorf("flows to %s by %s leave from %d ports; the locator's is %d", to.to, l.RLOC, ports, l.SourcePort)
		}
	}
}

// sourcePortsOfOneLocator: the other locators of its set keep the flows' ports.
func sourcePortsOfOneLocator(b *bench) {
	if !b.fixesPorts() {
		return
	}
	first, second := PeerRLOCs[0].String(), PeerRLOCs[1].String()
	b.apply(b.mapping("10.2.0.0/24", from(nodePort, locator(first, 1, 50)), locator(second, 1, 50)))
	seen := map[string]map[uint16]bool{first: {}, second: {}}
	for i := range 40 {
		b.send(from4("10.2.0.1").flow(uint16(3000 + i)))
		s := b.receive()
		b.expectChecksum(s, s.rloc.String() == first)
		seen[s.rloc.String()][s.sourcePort] = true
	}
	if len(seen[first]) != 1 || !seen[first][nodePort] {
		b.Errorf("packets to %s leave from %v, want %d", first, seen[first], nodePort)
	}
	if len(seen[second]) < 3 || seen[second][nodePort] {
		b.Errorf("packets to %s leave from %v, want those of their flows", second, seen[second])
	}
}

// sourcePortsOfRelays: an RTR sends to a node behind a NAT from one port.
func sourcePortsOfRelays(b *bench) {
	if !b.fixesPorts() {
		return
	}
	b.roles(policy(dataplane.RoleRTR, "10.2.0.0/24", "2001:db8:2::/64"))
	for _, rloc := range []string{PeerRLOCs[1].String(), PeerRLOCs[3].String()} {
		l := from(rtrPort, locator(rloc, 1, 100))
		b.apply(b.mapping("10.2.0.0/24", l), b.mapping("2001:db8:2::/64", l))
		for i := range 12 {
			p := between("10.9.0.1", "10.2.0.1")
			if i%2 == 1 {
				p = between("2001:db8:9::1", "2001:db8:2::1")
			}
			b.through(PeerRLOCs[0], 0, p.flow(uint16(4000+i)))
			s := b.receive()
			if !s.encapsulated || s.rloc.String() != rloc || s.sourcePort != rtrPort {
				b.Errorf("%s from port %d, want one to %s from %d", s, s.sourcePort, rloc, rtrPort)
			}
			b.expectChecksum(s, true)
		}
	}
}

// sourcePortsOfProtocols: whatever a packet is, and whether it has a checksum, that of the outer header is right.
func sourcePortsOfProtocols(b *bench) {
	if !b.fixesPorts() {
		return
	}
	for _, rloc := range []string{PeerRLOCs[0].String(), PeerRLOCs[2].String()} {
		l := from(nodePort, locator(rloc, 1, 100))
		b.apply(b.mapping("10.2.0.0/24", l), b.mapping("2001:db8:2::/64", l))
		for _, to := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
			b.expectVaried(to, rloc)
		}
	}
	sent := uint64(2 * len(from4("10.2.0.1").varied()))
	b.eventuallyUsed("10.2.0.0/24", sent)
	b.eventually("all are counted", func() bool { return b.plane.Counters().EncapsulatedPackets >= 2*sent })
}

// expectVaried demands that packets of all protocols leave for an RLOC from nodePort.
func (b *bench) expectVaried(to packet, rloc string) {
	b.Helper()
	for name, octets := range to.varied() {
		b.SendFromSite(b, octets)
		s := b.receive()
		if !s.encapsulated || s.rloc.String() != rloc || s.sourcePort != nodePort || s.octets != len(octets) {
			b.Errorf("%s to %s: %s of %d octets from port %d, want %d octets to %s from %d",
				name, to.to, s, s.octets, s.sourcePort, len(octets), rloc, nodePort)
		}
		if problem := checksumProblem(s.outer); problem != "" {
			b.Errorf("%s to %s by %s: %s", name, to.to, rloc, problem)
		}
	}
}

// varied are packets of several protocols between the same hosts, one of them of an odd number of octets.
func (p packet) varied() map[string][]byte {
	udp := p.sized(201).bytes()
	l4 := p.headers() - 8
	with := func(protocol byte, change func(l4 []byte)) []byte {
		o := append([]byte(nil), udp...)
		change(o[l4:])
		if at := 6; p.from.Is6() {
			o[at] = protocol
		} else {
			o[9] = protocol
			binary.BigEndian.PutUint16(o[10:], 0)
			binary.BigEndian.PutUint16(o[10:], complementOf(0, o[:20]))
		}
		return o
	}
	pseudo := func(protocol byte, o []byte) uint32 {
		total := uint32(protocol) + uint32(len(o))
		for _, a := range [][]byte{p.from.AsSlice(), p.to.AsSlice()} {
			total += uint32(^complementOf(0, a))
		}
		return total
	}
	packets := map[string][]byte{
		"UDP": udp,
		"TCP": with(6, func(o []byte) {
			clear(o[:20])
			o[0], o[3], o[12] = 9, 9, 5<<4
			binary.BigEndian.PutUint16(o[16:], complementOf(pseudo(6, o), o))
		}),
		"UDP without checksum":         with(17, func(o []byte) { clear(o[6:8]) }),
		"UDP shorter than it is":       with(17, func(o []byte) { o[5]--; clear(o[6:8]); o[7] = 1 }),
		"a protocol that is not known": with(253, func([]byte) {}),
	}
	if p.from.Is4() {
		packets["ICMP"] = with(1, func(o []byte) {
			clear(o[:8])
			o[0] = 8
			binary.BigEndian.PutUint16(o[2:], complementOf(0, o))
		})
		fragment := append([]byte(nil), udp...)
		fragment[7], fragment[10], fragment[11] = 8, 0, 0
		binary.BigEndian.PutUint16(fragment[10:], complementOf(0, fragment[:20]))
		packets["a fragment"] = fragment
		return packets
	}
	packets["ICMPv6"] = with(58, func(o []byte) {
		clear(o[:8])
		o[0] = 128
		binary.BigEndian.PutUint16(o[2:], complementOf(pseudo(58, o), o))
	})
	packets["extension header"] = with(60, func(o []byte) { copy(o, []byte{59, 0, 1, 4, 0, 0, 0, 0}) })
	return packets
}

// complementOf is the checksum of octets, added to a sum.
func complementOf(total uint32, octets []byte) uint16 {
	for ; len(octets) > 1; octets = octets[2:] {
		total += uint32(binary.BigEndian.Uint16(octets))
	}
	if len(octets) == 1 {
		total += uint32(octets[0]) << 8
	}
	for total > 0xffff {
		total = total>>16 + total&0xffff
	}
	return ^uint16(total)
}
