// SPDX-License-Identifier: Apache-2.0

// Package packets makes and reads what the simulated network carries: packets of hosts, whose
// payload names their flow and site, LISP data packets around them, and control messages in a
// few words for the trace. It keeps no state.
package packets

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
	"loci/wire"
)

// Payload is what the packets of hosts carry.
type Payload struct {
	Number, From, Instance, Site uint32

	TTL uint8 // of the packet; 0 for HostTTL
}

// NoSite is the site of EIDs that belong to none, Outside that of hosts outside LISP.
const (
	NoSite  = 0xffffffff
	Outside = 0xfffffffe
)

const (
	payloadOctets = 16
	// UDPOctets is the length of a UDP header.
	UDPOctets   = 8
	ipv4Octets  = 20
	ipv6Octets  = 40
	protocolUDP = 17
	// HostTTL is the TTL of what hosts send.
	HostTTL = 64
)

// Packet is an IP packet with UDP. Its UDP checksum is left out over IPv4 and not looked
// at over IPv6: tunnel routers do not read it.
func (p Payload) Packet(source, destination netip.Addr) []byte {
	octets := UDPOctets + payloadOctets
	b := ipHeader(source, destination, cmp.Or(p.TTL, HostTTL), octets, uint16(p.Number))
	b = binary.BigEndian.AppendUint16(b, uint16(1024+p.Number%5000))
	b = append(b, 0, 9, 0, byte(octets), 0, 0)
	for _, n := range []uint32{p.Number, p.From, p.Instance, p.Site} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// ipHeader is the header of a UDP packet with so many octets after it, and room for them.
func ipHeader(source, destination netip.Addr, ttl uint8, octets int, id uint16) []byte {
	if source.Is4() {
		b := make([]byte, ipv4Octets, ipv4Octets+octets)
		from, to := source.As4(), destination.As4()
		b[0], b[8], b[9] = 0x45, ttl, protocolUDP
		binary.BigEndian.PutUint16(b[2:], uint16(ipv4Octets+octets))
		binary.BigEndian.PutUint16(b[4:], id)
		copy(b[12:], from[:])
		copy(b[16:], to[:])
		binary.BigEndian.PutUint16(b[10:], ^onesSum(b))
		return b
	}
	b := make([]byte, ipv6Octets, ipv6Octets+octets)
	from, to := source.As16(), destination.As16()
	b[0], b[6], b[7] = 0x60, protocolUDP, ttl
	binary.BigEndian.PutUint16(b[4:], uint16(octets))
	copy(b[8:], from[:])
	copy(b[24:], to[:])
	return b
}

// onesSum is the checksum of an IPv4 header.
func onesSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// Read finds the payload at the end of a packet, encapsulated or not.
func Read(packet []byte) Payload {
	if len(packet) < payloadOctets {
		return Payload{Site: NoSite}
	}
	b := packet[len(packet)-payloadOctets:]
	return Payload{
		Number: binary.BigEndian.Uint32(b), From: binary.BigEndian.Uint32(b[4:]),
		Instance: binary.BigEndian.Uint32(b[8:]), Site: binary.BigEndian.Uint32(b[12:]),
	}
}

// Source and innerDestination read addresses where they stand.
func Source(packet []byte) netip.Addr {
	if packet[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(packet[12:]))
	}
	return netip.AddrFrom16([16]byte(packet[8:]))
}

// TTL reads the TTL of an IP packet.
func TTL(packet []byte) uint8 {
	if packet[0]>>4 == 4 {
		return packet[8]
	}
	return packet[7]
}

// Destination reads the destination address of an IP packet.
func Destination(packet []byte) netip.Addr {
	if packet[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(packet[16:]))
	}
	return netip.AddrFrom16([16]byte(packet[24:]))
}

// Inner is the packet inside an encapsulated one.
func Inner(packet []byte) []byte {
	header := ipv4Octets
	if packet[0]>>4 == 6 {
		header = ipv6Octets
	}
	return packet[min(len(packet), header+UDPOctets+wire.DataHeaderOctets):]
}

// MessageType names the type of a control message.
func MessageType(payload []byte) string {
	if len(payload) == 0 {
		return "empty"
	}
	return wire.MessageType(payload[0] >> 4).String()
}

// Describe is a message in a few words.
func Describe(payload []byte) string {
	m, err := wire.Parse(payload)
	if err != nil {
		return fmt.Sprintf("%d octets that are not a message (%v)", len(payload), err)
	}
	switch m := m.(type) {
	case *wire.EncapsulatedControlMessage:
		return "an ECM with " + Describe(m.Inner.Message)
	case *wire.MapRequest:
		return fmt.Sprintf("Map-Request %016x for %s%s", m.Nonce, describeAsked(m.Records), requestKind(m))
	case *wire.MapReply:
		return fmt.Sprintf("Map-Reply %016x %s", m.Nonce, describeRecords(m.Records))
	case *wire.MapRegister:
		return fmt.Sprintf("Map-Register %016x %s", m.Nonce, describeRecords(m.Records))
	case *wire.MapNotify:
		return fmt.Sprintf("Map-Notify %016x %s", m.Nonce, describeRecords(m.Records))
	}
	return m.Type().String()
}

func describeAsked(records []wire.RequestRecord) string {
	words := ""
	for i := range records {
		if p, err := records[i].Prefix(); err == nil {
			words += p.String()
		}
	}
	return words
}

func requestKind(m *wire.MapRequest) string {
	switch {
	case m.Probe:
		return " (RLOC-probe)"
	case m.SMR:
		return " (SMR)"
	}
	return ""
}

func describeRecords(records []wire.Record) string {
	words := ""
	for i := range records {
		if mapping, err := records[i].Mapping(); err == nil {
			words += fmt.Sprintf("[%s, TTL %d min] ", mapping, mapping.TTLMinutes)
		}
	}
	return words
}

// Encapsulated is a packet in a LISP data packet (RFC 9300 s.5), as a router of the core would
// bring it: TTL left, no UDP checksum over either family (RFC 6935).
func Encapsulated(from, to netip.Addr, instance lisp.InstanceID, packet []byte) []byte {
	header, err := wire.DataHeader{Instance: true, InstanceID: instance}.AppendTo(nil)
	if err != nil {
		panic(err)
	}
	return Datagram(netip.AddrPortFrom(from, wire.DataPort), netip.AddrPortFrom(to, wire.DataPort), slices.Concat(header, packet))
}

// Datagram is a UDP packet as a router of the core would bring it: TTL left, no UDP checksum.
func Datagram(from, to netip.AddrPort, payload []byte) []byte {
	octets := UDPOctets + len(payload)
	b := ipHeader(from.Addr(), to.Addr(), HostTTL, octets, 0)
	for _, n := range []uint16{from.Port(), to.Port(), uint16(octets), 0} {
		b = binary.BigEndian.AppendUint16(b, n)
	}
	return append(b, payload...)
}

// Ends are the source and the destination of a UDP packet, with what it carries.
func Ends(packet []byte) (from, to netip.AddrPort, payload []byte) {
	header := ipv4Octets
	if packet[0]>>4 == 6 {
		header = ipv6Octets
	}
	udp := packet[header:]
	from = netip.AddrPortFrom(Source(packet), binary.BigEndian.Uint16(udp))
	to = netip.AddrPortFrom(Destination(packet), binary.BigEndian.Uint16(udp[2:]))
	return from, to, udp[UDPOctets:]
}
