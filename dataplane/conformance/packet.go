// SPDX-License-Identifier: Apache-2.0

package conformance

// The packets that the suite sends, and reading those that come back. They are made
// and read by gopacket, so that no engine is measured by its own code.

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

const dataPort = 4341

// packet describes a UDP packet.
type packet struct {
	from, to     netip.Addr
	port         uint16 // source; it tells flows apart
	number       uint32 // in the payload; it tells packets of a flow apart
	octets       int    // of the IP packet; 0: as short as can be
	ttl          uint8  // 0: 64
	dontFragment bool
}

// from4 and from6 are packets of the site's hosts.
func from4(to string) packet {
	return packet{from: SiteHosts[0], to: netip.MustParseAddr(to), port: 1000}
}
func from6(to string) packet {
	return packet{from: SiteHosts[1], to: netip.MustParseAddr(to), port: 1000}
}

func (p packet) flow(port uint16) packet    { p.port = port; return p }
func (p packet) numbered(number int) packet { p.number = uint32(number); return p }
func (p packet) sized(octets int) packet    { p.octets = octets; return p }
func (p packet) withSource(s string) packet { p.from = netip.MustParseAddr(s); return p }
func (p packet) dontFragmented() packet     { p.dontFragment = true; return p }
func (p packet) payload() []byte            { return p.payloadOf(p.octets - p.headers()) }
func (p packet) headers() int               { return map[bool]int{true: 28, false: 48}[p.from.Is4()] }
func (p packet) payloadOf(octets int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, p.number), make([]byte, max(0, octets-4))...)
}

// bytes makes the packet.
func (p packet) bytes() []byte {
	ttl := p.ttl
	if ttl == 0 {
		ttl = 64
	}
	return p.serialize(ttl, 9, p.payload())
}

func (p packet) serialize(ttl uint8, destination uint16, payload []byte) []byte {
	udp := &layers.UDP{SrcPort: layers.UDPPort(p.port), DstPort: layers.UDPPort(destination)}
	var network gopacket.SerializableLayer
	if p.from.Is4() {
		v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: ttl, Protocol: layers.IPProtocolUDP, SrcIP: p.from.AsSlice(), DstIP: p.to.AsSlice()}
		if p.dontFragment {
			v4.Flags = layers.IPv4DontFragment
		}
		_ = udp.SetNetworkLayerForChecksum(v4)
		network = v4
	} else {
		v6 := &layers.IPv6{Version: 6, HopLimit: ttl, NextHeader: layers.IPProtocolUDP, SrcIP: p.from.AsSlice(), DstIP: p.to.AsSlice()}
		_ = udp.SetNetworkLayerForChecksum(v6)
		network = v6
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, network, udp, gopacket.Payload(payload)); err != nil {
		panic(err) // the suite's own packets always serialize
	}
	return buffer.Bytes()
}

// fromPeer puts a packet behind outer and LISP header, as a peer sends it.
func fromPeer(peer netip.Addr, instance uint32, inner []byte) []byte {
	header := [8]byte{0x80, 1, 2, 3}
	if instance != 0 {
		header[0] |= 0x08
		binary.BigEndian.PutUint32(header[4:], instance<<8)
	}
	return fromPeerWith(peer, header, inner)
}

// fromPeerWith is fromPeer with a LISP header of one's own.
func fromPeerWith(peer netip.Addr, header [8]byte, inner []byte) []byte {
	own := OwnRLOC6
	if peer.Is4() {
		own = OwnRLOC4
	}
	outer := packet{from: peer, to: own, port: 50000, dontFragment: true}
	return outer.serialize(64, dataPort, append(header[:], inner...))
}

// seen is what was read of a packet that left the engine.
type seen struct {
	encapsulated bool
	rloc         netip.Addr // outer destination
	port         uint16     // of the outer destination
	sourcePort   uint16     // outer
	checksum     uint16     // of the outer UDP header
	outer        []byte     // all of it
	instance     uint32
	outerTTL     uint8
	header       [8]byte // LISP
	inner        gopacket.Packet
	octets       int // of the inner packet
}

// isDataPort reports whether the suite's locators have that port.
func isDataPort(port layers.UDPPort) bool { return port == dataPort || port == 40001 || port == 40002 }

// read takes a packet apart; a LISP packet gives its inner one.
func read(octets []byte) (seen, error) {
	outer, err := decode(octets)
	if err != nil {
		return seen{}, err
	}
	udp, ok := outer.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || !isDataPort(udp.DstPort) || len(udp.Payload) < 8 {
		return seen{inner: outer, octets: len(octets)}, nil
	}
	_, to := addresses(outer)
	s := seen{encapsulated: true, rloc: to, outerTTL: ttlOf(outer), port: uint16(udp.DstPort), octets: len(udp.Payload) - 8, header: [8]byte(udp.Payload)}
	s.sourcePort, s.checksum, s.outer = uint16(udp.SrcPort), udp.Checksum, octets
	if udp.Payload[0]&0x08 != 0 {
		s.instance = binary.BigEndian.Uint32(udp.Payload[4:]) >> 8
	}
	s.inner, err = decode(udp.Payload[8:])
	return s, err
}

// IsICMP reports whether a packet is of ICMP, or one in a tunnel.
func IsICMP(octets []byte) bool {
	s, err := read(octets)
	if err != nil || s.inner == nil {
		return false
	}
	return s.inner.Layer(layers.LayerTypeICMPv4) != nil || s.inner.Layer(layers.LayerTypeICMPv6) != nil
}

func decode(octets []byte) (gopacket.Packet, error) {
	first := layers.LayerTypeIPv4
	if len(octets) > 0 && octets[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(octets, first, gopacket.Default)
	if p.NetworkLayer() == nil {
		return nil, fmt.Errorf("not an IP packet: %x", octets)
	}
	return p, nil
}

func addresses(p gopacket.Packet) (from, to netip.Addr) {
	flow := p.NetworkLayer().NetworkFlow()
	from, _ = netip.AddrFromSlice(flow.Src().Raw())
	to, _ = netip.AddrFromSlice(flow.Dst().Raw())
	return from, to
}

// destination is the inner packet's.
func (s seen) destination() netip.Addr { _, to := addresses(s.inner); return to }

// ttl is the inner packet's.
func (s seen) ttl() uint8 { return ttlOf(s.inner) }

func ttlOf(p gopacket.Packet) uint8 {
	if v4, ok := p.NetworkLayer().(*layers.IPv4); ok {
		return v4.TTL
	}
	return p.NetworkLayer().(*layers.IPv6).HopLimit
}

// flow is the inner packet's source port, number what its payload begins with.
func (s seen) flow() (port uint16, number int) {
	udp, ok := s.inner.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || len(udp.Payload) < 4 {
		return 0, -1
	}
	return uint16(udp.SrcPort), int(binary.BigEndian.Uint32(udp.Payload))
}

// String describes the packet for messages.
func (s seen) String() string {
	port, number := s.flow()
	return fmt.Sprintf("packet to %s (RLOC %s, flow %d, number %d)", s.destination(), s.rloc, port, number)
}

// send sends packets of site hosts.
func (b *bench) send(packets ...packet) {
	b.Helper()
	for _, p := range packets {
		b.SendFromSite(b, p.bytes())
	}
}

// receive demands a packet at the core.
func (b *bench) receive() seen {
	b.Helper()
	octets, ok := b.ReceiveAtCore(b)
	if !ok {
		b.Fatalf("nothing arrived at the core; counters %+v", b.plane.Counters())
	}
	s, err := read(octets)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// expectTo sends a packet and demands it encapsulated to that RLOC.
func (b *bench) expectTo(rloc string, p packet) seen {
	b.Helper()
	b.send(p)
	s := b.receive()
	_, number := s.flow()
	if !s.encapsulated || s.rloc.String() != rloc || s.destination() != p.to || number != int(p.number) {
		b.Fatalf("%s, want one to %s through %s, number %d", s, p.to, rloc, p.number)
	}
	return s
}

// expectNative sends a packet and demands it unencapsulated at the core.
func (b *bench) expectNative(p packet) {
	b.Helper()
	b.send(p)
	if s := b.receive(); s.encapsulated || s.destination() != p.to {
		b.Fatalf("%s, want one to %s without encapsulation", s, p.to)
	}
}
