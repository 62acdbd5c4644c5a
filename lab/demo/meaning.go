// SPDX-License-Identifier: Apache-2.0

// What a captured frame means to the demo: an echo, a Map-Request, a Map-Reply, or a LISP data packet (RFC 9300 s.5,
// RFC 9301 s.5). Anything else means nothing here.

package demo

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/wire"
)

type packetKind int

const (
	kindEchoRequest packetKind = iota + 1
	kindEchoReply
	kindMapRequest
	kindMapReply
	kindData
)

// packetMeaning is one understood packet. Source and destination are EIDs, of the inner packet where there is one.
type packetMeaning struct {
	kind                packetKind
	source, destination netip.Addr
	outerDestination    netip.Addr     // of what goes between RLOCs
	prefixes            []netip.Prefix // of a Map-Request or a Map-Reply
	nonce               uint64
	detail              string
}

func (m packetMeaning) covers(eid netip.Addr) bool {
	for _, prefix := range m.prefixes {
		if prefix.Contains(eid) {
			return true
		}
	}
	return false
}

// once tells packets apart that are told once: echoes and data by direction, control messages each.
func (m packetMeaning) once() string {
	return fmt.Sprintf("|%d|%s|%x", m.kind, m.destination, m.nonce)
}

// tell is the packet in words.
func (m packetMeaning) tell() string {
	switch m.kind {
	case kindEchoRequest:
		return fmt.Sprintf("echo request %s → %s", m.source, m.destination)
	case kindEchoReply:
		return fmt.Sprintf("echo reply %s → %s", m.source, m.destination)
	case kindData:
		return fmt.Sprintf("LISP data packet, inside: %s → %s", m.source, m.destination)
	}
	return m.detail
}

// understand decodes a frame.
func understand(frame []byte) (packetMeaning, bool) {
	return understandLayers(gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true}))
}

func understandLayers(packet gopacket.Packet) (packetMeaning, bool) {
	network := packet.NetworkLayer()
	if network == nil {
		return packetMeaning{}, false
	}
	source, destination := endpoints(network)
	if kind := echoKind(packet); kind != 0 {
		return packetMeaning{kind: kind, source: source, destination: destination}, true
	}
	udp, ok := packet.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if !ok {
		return packetMeaning{}, false
	}
	meaning, ok := packetMeaning{}, false
	switch {
	case udp.DstPort == wire.DataPort:
		meaning, ok = understandData(udp.Payload)
	case udp.DstPort == wire.ControlPort || udp.SrcPort == wire.ControlPort:
		meaning, ok = understandControl(udp.Payload)
	}
	meaning.outerDestination = destination
	return meaning, ok
}

func endpoints(network gopacket.NetworkLayer) (source, destination netip.Addr) {
	flow := network.NetworkFlow()
	source, _ = netip.AddrFromSlice(flow.Src().Raw())
	destination, _ = netip.AddrFromSlice(flow.Dst().Raw())
	return source, destination
}

func echoKind(packet gopacket.Packet) packetKind {
	if icmp, ok := packet.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4); ok {
		switch icmp.TypeCode.Type() {
		case layers.ICMPv4TypeEchoRequest:
			return kindEchoRequest
		case layers.ICMPv4TypeEchoReply:
			return kindEchoReply
		}
	}
	if icmp, ok := packet.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6); ok {
		switch icmp.TypeCode.Type() {
		case layers.ICMPv6TypeEchoRequest:
			return kindEchoRequest
		case layers.ICMPv6TypeEchoReply:
			return kindEchoReply
		}
	}
	return 0
}

// understandData looks at the inner packet behind the LISP header.
func understandData(payload []byte) (packetMeaning, bool) {
	header, inner, err := wire.ParseDataHeader(payload)
	if err != nil || header.NextProtocol || len(inner) == 0 {
		return packetMeaning{}, false
	}
	first := layers.LayerTypeIPv4
	if inner[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	packet := gopacket.NewPacket(inner, first, gopacket.DecodeOptions{NoCopy: true})
	network := packet.NetworkLayer()
	if network == nil {
		return packetMeaning{}, false
	}
	m := packetMeaning{kind: kindData}
	m.source, m.destination = endpoints(network)
	return m, m.source.IsValid() && m.destination.IsValid()
}

// understandControl decodes the message, inside an Encapsulated Control Message too.
func understandControl(payload []byte) (packetMeaning, bool) {
	message, err := wire.Parse(payload)
	if err != nil {
		return packetMeaning{}, false
	}
	encapsulated := ""
	if outer, ok := message.(*wire.EncapsulatedControlMessage); ok {
		encapsulated = ", in an Encapsulated Control Message"
		if message, err = wire.Parse(outer.Inner.Message); err != nil {
			return packetMeaning{}, false
		}
	}
	switch m := message.(type) {
	case *wire.MapRequest:
		return understandMapRequest(m, encapsulated), true
	case *wire.MapReply:
		return understandMapReply(m), true
	}
	return packetMeaning{}, false
}

func understandMapRequest(m *wire.MapRequest, encapsulated string) packetMeaning {
	meaning := packetMeaning{kind: kindMapRequest, nonce: m.Nonce}
	var asked []string
	for i := range m.Records {
		if prefix, err := m.Records[i].Prefix(); err == nil && prefix.EID().IsIP() {
			meaning.prefixes = append(meaning.prefixes, prefix.Netip())
			asked = append(asked, prefix.String())
		}
	}
	meaning.detail = fmt.Sprintf("Map-Request for %s, nonce %016x%s", strings.Join(asked, ", "), m.Nonce, encapsulated)
	return meaning
}

func understandMapReply(m *wire.MapReply) packetMeaning {
	meaning := packetMeaning{kind: kindMapReply, nonce: m.Nonce}
	var answers []string
	for i := range m.Records {
		record := &m.Records[i]
		prefix, err := record.Prefix()
		if err != nil || !prefix.EID().IsIP() {
			continue
		}
		meaning.prefixes = append(meaning.prefixes, prefix.Netip())
		answer := fmt.Sprintf("%s is at %s, TTL %d min", prefix, describeLocators(record), record.TTLMinutes)
		answers = append(answers, answer)
	}
	meaning.detail = fmt.Sprintf("Map-Reply: %s, nonce %016x", strings.Join(answers, "; "), m.Nonce)
	return meaning
}

func describeLocators(record *wire.Record) string {
	if len(record.Locators) == 0 {
		return "no locator (" + record.Action.String() + ")"
	}
	var all []string
	for _, l := range record.Locators {
		all = append(all, fmt.Sprintf("%s (priority %d, weight %d)", l.Address, l.Priority, l.Weight))
	}
	return strings.Join(all, ", ")
}
