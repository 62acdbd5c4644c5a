// SPDX-License-Identifier: Apache-2.0

package behindnat

// The packets of the tests.

import (
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// serialize makes a packet with checksums.
func serialize(all ...gopacket.SerializableLayer) []byte {
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...); err != nil {
		panic(err) // the test's own packet is wrong
	}
	return buffer.Bytes()
}

// network is an IP header of the addresses' family.
func network(from, to netip.Addr, protocol layers.IPProtocol) (header gopacket.SerializableLayer, sum gopacket.NetworkLayer) {
	if from.Is4() {
		h := &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice(), Flags: layers.IPv4DontFragment}
		return h, h
	}
	h := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	return h, h
}

// udp is a UDP packet.
func udp(from, to netip.AddrPort, payload []byte) []byte {
	header, sum := network(from.Addr(), to.Addr(), layers.IPProtocolUDP)
	datagram := &layers.UDP{SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port())}
	if err := datagram.SetNetworkLayerForChecksum(sum); err != nil {
		panic(err)
	}
	return serialize(header, datagram, gopacket.Payload(payload))
}

// encapsulated is a LISP packet without Instance-ID.
func encapsulated(from, to netip.AddrPort, inner []byte) []byte {
	return udp(from, to, append([]byte{0x80, 1, 2, 3, 0, 0, 0, 0}, inner...))
}

// tooBig says of a packet that it should have had at most so many octets.
func tooBig(from netip.Addr, packet []byte, mtu int) []byte {
	outer, err := readOuter(packet)
	if err != nil {
		panic(err)
	}
	quoted := gopacket.Payload(packet[:min(len(packet), 128)])
	if from.Is4() {
		header, _ := network(from, outer.source.Addr(), layers.IPProtocolICMPv4)
		return serialize(header, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 4), Seq: uint16(mtu)}, quoted)
	}
	header, sum := network(from, outer.source.Addr(), layers.IPProtocolICMPv6)
	message := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(2, 0)}
	if err := message.SetNetworkLayerForChecksum(sum); err != nil {
		panic(err)
	}
	return serialize(header, message, gopacket.Payload(append([]byte{0, 0, byte(mtu >> 8), byte(mtu)}, quoted...)))
}

// outerHeader is what an outer packet says.
type outerHeader struct {
	source, destination netip.AddrPort
	checksum            uint16
	inner               []byte
}

func readOuter(packet []byte) (o outerHeader, err error) {
	first := layers.LayerTypeIPv4
	if packet[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(packet, first, gopacket.Default)
	datagram, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok || len(datagram.Payload) < 8 {
		return o, fmt.Errorf("no LISP packet: %x", packet)
	}
	flow := p.NetworkLayer().NetworkFlow()
	source, _ := netip.AddrFromSlice(flow.Src().Raw())
	destination, _ := netip.AddrFromSlice(flow.Dst().Raw())
	return outerHeader{
		source: netip.AddrPortFrom(source, uint16(datagram.SrcPort)), destination: netip.AddrPortFrom(destination, uint16(datagram.DstPort)),
		checksum: datagram.Checksum, inner: datagram.Payload[8:],
	}, nil
}

// checkSum says what is wrong with the outer UDP checksum of a packet.
func checkSum(packet []byte) error {
	o, err := readOuter(packet)
	if err != nil {
		return err
	}
	payload := packet[len(packet)-len(o.inner)-8:]
	right, err := readOuter(udp(o.source, o.destination, payload))
	if err == nil && right.checksum != o.checksum {
		err = fmt.Errorf("checksum %#x of %s to %s, want %#x", o.checksum, o.source, o.destination, right.checksum)
	}
	return err
}
