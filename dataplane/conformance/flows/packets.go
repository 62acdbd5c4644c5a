// SPDX-License-Identifier: Apache-2.0

package flows

// The packets that the tests send, and reading those that come back. They are made and read by gopacket, so that no
// engine is measured by its own code.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

const (
	dataPort    = 4341
	discardPort = 9
)

// Flags of TCP.
const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

// packet describes a packet of UDP, or of TCP where it has flags.
type packet struct {
	from, to          netip.Addr
	port, destination uint16 // 0: discardPort
	number            uint32 // in the payload; it tells packets of a flow apart
	flags             uint8
	options           []layers.TCPOption
}

// between is a packet of UDP between two hosts.
func between(from, to string) packet {
	return packet{from: netip.MustParseAddr(from), to: netip.MustParseAddr(to), port: 1000}
}

// from4 and from6 are packets of the site's hosts.
func from4(to string) packet { return between(conformance.SiteHosts[0].String(), to) }
func from6(to string) packet { return between(conformance.SiteHosts[1].String(), to) }

func (p packet) flow(port uint16) packet    { p.port = port; return p }
func (p packet) numbered(number int) packet { p.number = uint32(number); return p }

// tcp is the packet as one of TCP.
func (p packet) tcp(flags uint8, options ...layers.TCPOption) packet {
	p.flags, p.options = flags, options
	return p
}

// reversed is the same packet in the other direction.
func (p packet) reversed() packet {
	p.from, p.to = p.to, p.from
	p.port, p.destination = cmp.Or(p.destination, discardPort), cmp.Or(p.port, discardPort)
	return p
}

func (p packet) protocol() layers.IPProtocol {
	if p.flags != 0 {
		return layers.IPProtocolTCP
	}
	return layers.IPProtocolUDP
}

// lispFlow is the flow of the packet.
func (p packet) lispFlow() lisp.Flow {
	return lisp.Flow{
		Source: lisp.EIDFromAddr(p.from), Destination: lisp.EIDFromAddr(p.to), Protocol: uint8(p.protocol()),
		SourcePort: cmp.Or(p.port, discardPort), DestinationPort: cmp.Or(p.destination, discardPort),
	}
}

// bytes makes the packet.
func (p packet) bytes() []byte {
	return serialized(p, binary.BigEndian.AppendUint32(nil, p.number))
}

func serialized(p packet, payload []byte) []byte {
	from, to, protocol := p.from.AsSlice(), p.to.AsSlice(), p.protocol()
	source, destination := cmp.Or(p.port, discardPort), cmp.Or(p.destination, discardPort)
	udp := &layers.UDP{SrcPort: layers.UDPPort(source), DstPort: layers.UDPPort(destination)}
	tcp := &layers.TCP{
		SrcPort: layers.TCPPort(source), DstPort: layers.TCPPort(destination), Seq: 1, Window: 100,
		Options: p.options,
		FIN:     p.flags&flagFIN != 0, SYN: p.flags&flagSYN != 0, RST: p.flags&flagRST != 0,
		ACK: p.flags&flagACK != 0,
	}
	var network gopacket.SerializableLayer
	if p.from.Is4() {
		v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: protocol, SrcIP: from, DstIP: to}
		v4.Flags = layers.IPv4DontFragment
		_, _ = udp.SetNetworkLayerForChecksum(v4), tcp.SetNetworkLayerForChecksum(v4)
		network = v4
	} else {
		v6 := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: from, DstIP: to}
		_, _ = udp.SetNetworkLayerForChecksum(v6), tcp.SetNetworkLayerForChecksum(v6)
		network = v6
	}
	var transport gopacket.SerializableLayer = udp
	if protocol == layers.IPProtocolTCP {
		transport = tcp
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, network, transport, gopacket.Payload(payload)); err != nil {
		panic(err) // the suite's own packets always serialize
	}
	return buffer.Bytes()
}

// header is the TCP header with its options.
func (p packet) header() []byte {
	octets := p.bytes()
	at := map[bool]int{true: 20, false: 40}[p.from.Is4()]
	return octets[at : at+int(octets[at+12]>>4)*4]
}

// event is what the packet raises where it raises something.
func (p packet) event(fromCore bool) dataplane.Subflow {
	return dataplane.Subflow{Flow: p.lispFlow(), FromCore: fromCore, TCP: p.header()}
}

// tunnelled puts a packet behind outer and LISP header, as the first peer sends it.
func (p packet) tunnelled(instance lisp.InstanceID) []byte {
	header := [8]byte{0x80, 1, 2, 3}
	if instance != 0 {
		header[0] |= 0x08
		binary.BigEndian.PutUint32(header[4:], uint32(instance)<<8)
	}
	outer := packet{from: conformance.PeerRLOCs[0], to: conformance.OwnRLOC4, port: 50000, destination: dataPort}
	return serialized(outer, append(header[:], p.bytes()...))
}

// seen is what was read of a packet that left the engine.
type seen struct {
	rloc     netip.Addr // outer destination; none without encapsulation
	instance lisp.InstanceID
	to       netip.Addr // inner destination
	port     uint16     // inner source port
	number   int
}

// String describes the packet for messages.
func (s seen) String() string {
	return fmt.Sprintf("packet to %s in Instance-ID %d (RLOC %s, flow %d, number %d)",
		s.to, s.instance, s.rloc, s.port, s.number)
}

// read takes a packet apart; a LISP packet gives its inner one.
func read(octets []byte) (s seen, err error) {
	p, to, err := decode(octets)
	if err != nil {
		return s, err
	}
	if udp, ok := p.TransportLayer().(*layers.UDP); ok && isDataPort(udp.DstPort) && len(udp.Payload) > 8 {
		s.rloc = to
		if udp.Payload[0]&0x08 != 0 {
			s.instance = lisp.InstanceID(binary.BigEndian.Uint32(udp.Payload[4:]) >> 8)
		}
		if p, to, err = decode(udp.Payload[8:]); err != nil {
			return s, err
		}
	}
	s.to, s.number = to, -1
	var payload []byte
	switch t := p.TransportLayer().(type) {
	case *layers.UDP:
		s.port, payload = uint16(t.SrcPort), t.Payload
	case *layers.TCP:
		s.port, payload = uint16(t.SrcPort), t.Payload
	}
	if len(payload) >= 4 {
		s.number = int(binary.BigEndian.Uint32(payload))
	}
	return s, nil
}

// isDataPort reports whether the suite's locators have that port.
func isDataPort(port layers.UDPPort) bool { return port == dataPort || port == 40001 }

// decode also gives the destination.
func decode(octets []byte) (p gopacket.Packet, to netip.Addr, err error) {
	first := layers.LayerTypeIPv4
	if len(octets) > 0 && octets[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	p = gopacket.NewPacket(octets, first, gopacket.Default)
	if p.NetworkLayer() == nil {
		return nil, to, fmt.Errorf("not an IP packet: %x", octets)
	}
	to, _ = netip.AddrFromSlice(p.NetworkLayer().NetworkFlow().Dst().Raw())
	return p, to, nil
}

// receive demands a packet at the core, receiveAtSite one at the site.
func (b *bench) receive() seen {
	b.Helper()
	octets, ok := b.ReceiveAtCore(b)
	return b.mustRead(octets, ok)
}

func (b *bench) receiveAtSite() seen {
	b.Helper()
	octets, ok := b.ReceiveAtSite(b)
	return b.mustRead(octets, ok)
}

func (b *bench) mustRead(octets []byte, ok bool) seen {
	b.Helper()
	if !ok {
		b.Fatalf("nothing arrived; counters %+v", b.plane.Counters())
	}
	s, err := read(octets)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// tookBy sends a packet of the site and gives the RLOC that it takes.
func (b *bench) tookBy(p packet) string {
	b.Helper()
	b.SendFromSite(b, p.bytes())
	return b.receive().rloc.String()
}

// expectTo sends a packet of the site and demands it encapsulated to that RLOC.
func (b *bench) expectTo(rloc string, p packet) {
	b.Helper()
	b.SendFromSite(b, p.bytes())
	b.expect(rloc, 0, p)
}

// expectRelayed sends a packet in a tunnel and demands it from there to that RLOC, in the same Instance-ID.
func (b *bench) expectRelayed(rloc string, instance lisp.InstanceID, p packet) {
	b.Helper()
	b.SendFromCore(b, p.tunnelled(instance))
	b.expect(rloc, instance, p)
}

func (b *bench) expect(rloc string, instance lisp.InstanceID, p packet) {
	b.Helper()
	s := b.receive()
	if s.rloc.String() != rloc || s.instance != instance || s.to != p.to || s.number != int(p.number) {
		b.Fatalf("%s, want one to %s in Instance-ID %d through %s, number %d", s, p.to, instance, rloc,
			p.number)
	}
}

// deliver sends a packet in a tunnel and demands it at the site.
func (b *bench) deliver(p packet) {
	b.Helper()
	b.SendFromCore(b, p.tunnelled(0))
	if s := b.receiveAtSite(); s.to != p.to || s.number != int(p.number) {
		b.Fatalf("%s at the site, want one to %s, number %d", s, p.to, p.number)
	}
}
