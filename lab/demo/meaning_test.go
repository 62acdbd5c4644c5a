// SPDX-License-Identifier: Apache-2.0

// Tests of what captured frames mean, with frames built by package wire and gopacket.

package demo

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/wire"
)

func itoa(i int) string { return strconv.Itoa(i) }

// frame is an Ethernet frame with a UDP datagram.
func frame(t *testing.T, from, to netip.AddrPort, payload []byte) []byte {
	t.Helper()
	udp := &layers.UDP{SrcPort: layers.UDPPort(from.Port()), DstPort: layers.UDPPort(to.Port())}
	kind, network := ipLayer(t, from.Addr(), to.Addr(), layers.IPProtocolUDP)
	must(t, udp.SetNetworkLayerForChecksum(network.(gopacket.NetworkLayer)))
	return serialize(t, &layers.Ethernet{SrcMAC: make(net.HardwareAddr, 6), DstMAC: make(net.HardwareAddr, 6), EthernetType: kind},
		network, udp, gopacket.Payload(payload))
}

func ipLayer(t *testing.T, from, to netip.Addr, protocol layers.IPProtocol) (layers.EthernetType, gopacket.SerializableLayer) {
	t.Helper()
	if from.Is4() {
		return layers.EthernetTypeIPv4, &layers.IPv4{Version: 4, TTL: 64, Protocol: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	}
	return layers.EthernetTypeIPv6, &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
}

func serialize(t *testing.T, all ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, all...))
	return buffer.Bytes()
}

func echo(t *testing.T, from, to netip.Addr, code uint8) []byte {
	t.Helper()
	_, network := ipLayer(t, from, to, layers.IPProtocolICMPv4)
	return serialize(t, network, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(code, 0), Id: 1, Seq: 1}, gopacket.Payload("x"))
}

func encode(t *testing.T, m wire.Message) []byte {
	t.Helper()
	b, err := m.AppendTo(nil)
	must(t, err)
	return b
}

func TestMeaningOfControlMessages(t *testing.T) {
	eid := siteB.eid(0)
	request := &wire.MapRequest{Nonce: 7, ITRRLOCs: []wire.Address{wire.IPv4(siteA.rloc4.As4())},
		Records: []wire.RequestRecord{{MaskLen: 32, EID: wire.IPv4(eid.As4())}}}
	inside, err := wire.AppendECM(nil, netip.AddrPortFrom(siteA.rloc4, 4342), netip.AddrPortFrom(eid, 4342), encode(t, request))
	must(t, err)
	got, ok := understand(frame(t, netip.AddrPortFrom(siteA.rloc4, 4342), netip.AddrPortFrom(mappingSystem.rloc4, 4342), inside))
	if !ok || got.kind != kindMapRequest || !got.covers(eid) || got.nonce != 7 || got.outerDestination != mappingSystem.rloc4 {
		t.Errorf("Map-Request: %+v, %v", got, ok)
	}
	reply := &wire.MapReply{Nonce: 7, Records: []wire.Record{{TTLMinutes: 1440, EID: wire.IPv4{10, 2, 4, 0}, MaskLen: 24,
		Locators: []wire.LocatorRecord{{Priority: 1, Weight: 100, Reachable: true, Address: wire.IPv4(siteB.rloc4.As4())}}}}}
	got, ok = understand(frame(t, netip.AddrPortFrom(siteB.rloc4, 4342), netip.AddrPortFrom(siteA.rloc4, 4342), encode(t, reply)))
	if !ok || got.kind != kindMapReply || !got.covers(eid) || got.covers(siteB.eid(1)) || !strings.Contains(got.tell(), "172.16.2.2 (priority 1, weight 100)") {
		t.Errorf("Map-Reply: %+v, %v", got, ok)
	}
}

func TestMeaningOfDataPackets(t *testing.T) {
	header, err := wire.DataHeader{NoncePresent: true, Nonce: 5}.AppendTo(nil)
	must(t, err)
	payload := append(header, echo(t, siteA.eid(1), siteB.eid(1), layers.ICMPv4TypeEchoRequest)...)
	got, ok := understand(frame(t, netip.AddrPortFrom(siteA.rloc6, 50000), netip.AddrPortFrom(siteB.rloc6, 4341), payload))
	if !ok || got.kind != kindData || got.destination != siteB.eid(1) || got.source != siteA.eid(1) || got.outerDestination != siteB.rloc6 {
		t.Errorf("got %+v, %v", got, ok)
	}
}

func TestMeaninglessFrames(t *testing.T) {
	from, to := netip.AddrPortFrom(siteA.rloc4, 4342), netip.AddrPortFrom(siteB.rloc4, 4342)
	for name, b := range map[string][]byte{
		"empty":                 {},
		"short":                 make([]byte, 13),
		"not IP":                make([]byte, 60),
		"control without type":  frame(t, from, to, nil),
		"control that is wrong": frame(t, from, to, []byte{0x10, 0, 0}),
		"data that is wrong":    frame(t, from, netip.AddrPortFrom(siteB.rloc4, 4341), []byte{0, 0, 0, 0, 0, 0, 0, 0, 0xff}),
		"another port":          frame(t, netip.AddrPortFrom(siteA.rloc4, 1), netip.AddrPortFrom(siteB.rloc4, 2), []byte("x")),
	} {
		if got, ok := understand(b); ok {
			t.Errorf("%s means %+v", name, got)
		}
	}
}

// sightingsOfPair are the stations of the first packet of pair 0, a millisecond apart.
func sightingsOfPair(begin time.Time) []sighting {
	a, b := siteA.eid(0), siteB.eid(0)
	prefixes := []netip.Prefix{siteB.eidPrefixes[0]}
	echo := packetMeaning{kind: kindEchoRequest, source: a, destination: b}
	list := []sighting{
		{where: siteA.host, packetMeaning: echo},
		{where: siteA.name, packetMeaning: packetMeaning{kind: kindMapRequest, prefixes: prefixes, nonce: 1, outerDestination: mappingSystem.rloc4}},
		{where: siteB.name, packetMeaning: packetMeaning{kind: kindMapReply, prefixes: prefixes, nonce: 1, outerDestination: siteA.rloc4}},
		{where: siteA.name, packetMeaning: packetMeaning{kind: kindData, source: a, destination: b, outerDestination: siteB.rloc4}},
		{where: siteB.host, packetMeaning: echo},
		{where: siteA.host, packetMeaning: packetMeaning{kind: kindEchoReply, source: b, destination: a}},
	}
	for i := range list {
		list[i].at = begin.Add(time.Duration(i) * time.Millisecond)
	}
	return list
}

func TestWayOfTheFirstPacket(t *testing.T) {
	w := &watch{sightings: sightingsOfPair(time.Unix(1000, 0))}
	path, err := w.path(0)
	must(t, err)
	if path.mapRequest != time.Millisecond || path.mapReply != 2*time.Millisecond || path.delivered != 4*time.Millisecond || len(path.story) != 6 {
		t.Errorf("got %+v", path)
	}
}

func TestWayMissesNoStation(t *testing.T) {
	for missing := range 5 {
		all := sightingsOfPair(time.Unix(1000, 0))
		w := &watch{sightings: append(all[:missing:missing], all[missing+1:]...)}
		if path, err := w.path(0); err == nil {
			t.Errorf("without station %d the path is %+v", missing, path)
		}
	}
	foreign := sightingsOfPair(time.Unix(1000, 0))
	foreign[2].nonce = 2
	if _, err := (&watch{sightings: foreign}).path(0); err == nil {
		t.Error("a Map-Reply with another nonce counts")
	}
}
