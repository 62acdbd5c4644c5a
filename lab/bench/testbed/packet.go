// SPDX-License-Identifier: Apache-2.0

// The packets that benches send: 64 octets of IP and UDP, or more, whose payload numbers them (the layout is in bench_traffic.bpf.c).
// The program writes the numbers; here is everything that stays the same, checksums included.

package testbed

import (
	"encoding/binary"
	"net/netip"

	"loci/wire"
)

// Octets of a packet and of its headers, and the TTL that it is sent with.
const (
	PacketOctets   = 64
	EthernetOctets = 14
	IPv4Octets     = 20
	IPv6Octets     = 40
	udpOctets      = 8
	SentTTL        = 64
)

const (
	firstPort   = 20000
	dataPort    = 4341
	lispOctets  = 8
	sinkPort    = 9 // discard (RFC 863)
	protocolUDP = 17
)

// InnerPacket is the first packet of a stream: sequence 0, the first port, the first destination. Streams with different
// magic are not taken for each other, however late their packets arrive.
func InnerPacket(source, destination netip.Addr, magic uint16) [PacketOctets]byte {
	return [PacketOctets]byte(longPacket(source, destination, magic, PacketOctets))
}

// longPacket is an InnerPacket of so many octets, at least PacketOctets: what follows its numbers is zero.
func longPacket(source, destination netip.Addr, magic uint16, octets int) []byte {
	packet := make([]byte, octets)
	udp := packet[IPv4Octets:]
	if destination.Is4() {
		fillIPv4(packet, source, destination)
	} else {
		udp = packet[IPv6Octets:]
		fillIPv6(packet, source, destination)
	}
	binary.BigEndian.PutUint16(udp[0:], firstPort)
	binary.BigEndian.PutUint16(udp[2:], sinkPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	binary.BigEndian.PutUint16(udp[8:], magic)
	binary.BigEndian.PutUint16(udp[10:], 0xffff^firstPort)
	binary.BigEndian.PutUint32(udp[12:], 0)
	binary.BigEndian.PutUint32(udp[16:], 0xffffffff)
	binary.BigEndian.PutUint32(udp[20:], ^sumOf(destination.AsSlice()))
	binary.BigEndian.PutUint16(udp[6:], wire.UDPChecksum(source, destination, udp))
	return packet
}

// OuterHeaders are those of a LISP packet with an InnerPacket, without UDP checksum: IP, UDP, and a LISP header without any flag.
func OuterHeaders(source, destination netip.Addr) []byte {
	const content = udpOctets + lispOctets + PacketOctets
	headers := make([]byte, IPv6Octets, IPv6Octets+udpOctets+lispOctets)
	if source.Is4() {
		headers = headers[:IPv4Octets]
		fillIPv4(headers, source, destination)
		binary.BigEndian.PutUint16(headers[2:], IPv4Octets+content)
		binary.BigEndian.PutUint16(headers[10:], ^foldedSum(headers))
	} else {
		fillIPv6(headers, source, destination)
		binary.BigEndian.PutUint16(headers[4:], content)
	}
	headers = binary.BigEndian.AppendUint16(headers, firstPort)
	headers = binary.BigEndian.AppendUint16(headers, dataPort)
	headers = binary.BigEndian.AppendUint16(headers, content)
	return append(headers, make([]byte, 2+lispOctets)...)
}

// foldedSum is the sum of words of 16 bits with end-around carry.
func foldedSum(octets []byte) uint16 {
	sum := sumOf(octets)
	sum = sum>>16 + sum&0xffff
	return uint16(sum + sum>>16)
}

func fillIPv4(packet []byte, source, destination netip.Addr) {
	packet[0] = 0x45
	binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
	packet[6] = 0x40 // must not be fragmented, as hosts send it
	packet[8], packet[9] = SentTTL, protocolUDP
	copy(packet[12:], source.AsSlice())
	copy(packet[16:], destination.AsSlice())
}

func fillIPv6(packet []byte, source, destination netip.Addr) {
	packet[0] = 0x60
	binary.BigEndian.PutUint16(packet[4:], uint16(len(packet)-IPv6Octets))
	packet[6], packet[7] = protocolUDP, SentTTL
	copy(packet[8:], source.AsSlice())
	copy(packet[24:], destination.AsSlice())
}

// sumOf adds up words of 32 bits with end-around carry, as checksums do with words of 16.
func sumOf(octets []byte) uint32 {
	var sum uint64
	for ; len(octets) > 0; octets = octets[4:] {
		sum += uint64(binary.BigEndian.Uint32(octets))
		sum = sum>>32 + sum&0xffffffff
	}
	return uint32(sum)
}

// HalvesOf are the 64 bits of an IPv6 address in which a stream's destinations differ, the first ones or the last, and the others; an IPv4
// address has none of those.
func HalvesOf(a netip.Addr, upper bool) (differ uint64, fixed []byte) {
	octets := a.AsSlice()
	switch {
	case a.Is4():
		return uint64(binary.BigEndian.Uint32(octets)), nil
	case upper:
		return binary.BigEndian.Uint64(octets), octets[8:]
	}
	return binary.BigEndian.Uint64(octets[8:]), octets[:8]
}

// HeaderSum is the sum of an IPv4 header's words but checksum and destination, to which the program adds the destination.
func HeaderSum(packet [PacketOctets]byte) uint32 {
	var sum uint32
	for i := 0; i < 16; i += 2 {
		if i != 10 {
			sum += uint32(binary.BigEndian.Uint16(packet[i:]))
		}
	}
	return sum
}
