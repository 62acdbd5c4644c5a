// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/lisp"
)

var (
	host4, remote4 = netip.MustParseAddr("10.1.0.10"), netip.MustParseAddr("10.2.0.10")
	host6, remote6 = netip.MustParseAddr("2001:db8:1::10"), netip.MustParseAddr("2001:db8:2::10")
)

// udpPacket makes an IP packet of so many octets.
func udpPacket(t testing.TB, from, to netip.Addr, octets int, change ...func(*layers.IPv4)) []byte {
	t.Helper()
	udp := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	var network gopacket.SerializableLayer
	header := ipv4HeaderOctets
	if from.Is4() {
		v4 := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Id: 0x4711, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
		for _, c := range change {
			c(v4)
		}
		for _, o := range v4.Options {
			header += int(o.OptionLength)
		}
		_ = udp.SetNetworkLayerForChecksum(v4)
		network = v4
	} else {
		header = ipv6HeaderOctets
		v6 := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
		_ = udp.SetNetworkLayerForChecksum(v6)
		network = v6
	}
	payload := make([]byte, octets-header-udpHeaderOctets)
	for i := range payload {
		payload[i] = byte(i * 7)
	}
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, network, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func dontFragment(v4 *layers.IPv4) { v4.Flags = layers.IPv4DontFragment }

// unwrapped is what the stages do to a packet from the core, without tables.
func unwrapped(packet []byte, m Marking) (Encapsulated, DropReason) {
	e, reason := ParseEncapsulated(packet)
	if reason == DropNone {
		reason = e.mergeMarks(m)
	}
	if reason == DropNone {
		e.unwrap(e.ttl)
	}
	return e, reason
}

func mustHeader(t testing.TB, packet []byte) Header {
	t.Helper()
	h, err := ParseHeader(packet)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestParseHeaderNamesFieldAndOffset(t *testing.T) {
	good := udpPacket(t, host4, remote4, 60)
	change := func(at int, value byte) []byte {
		b := bytes.Clone(good)
		b[at] = value
		return b
	}
	for _, c := range []struct {
		packet []byte
		want   MalformedError
	}{
		{nil, MalformedError{"version", 0}},
		{change(0, 0x75), MalformedError{"version", 0}},
		{good[:19], MalformedError{"header", 19}},
		{change(0, 0x44), MalformedError{"header length", 0}},
		{change(3, 19), MalformedError{"total length", 2}},
		{good[:59], MalformedError{"total length", 2}},
		{udpPacket(t, host6, remote6, 80)[:79], MalformedError{"payload length", 4}},
	} {
		_, err := ParseHeader(c.packet)
		var malformed *MalformedError
		if !errors.As(err, &malformed) || *malformed != c.want || err.Error() == "" {
			t.Errorf("%x: %v, want %v", c.packet, err, &c.want)
		}
	}
}

func TestRoutableUnicast(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.1": true, "223.255.255.255": true, "224.0.0.1": false, "255.255.255.255": false, "0.0.0.0": false, "0.1.2.3": false, "127.1.2.3": false,
		"169.254.0.1": false, "169.253.0.1": true, "2001:db8::1": true, "fd00::1": true, "fe80::1": false, "ff02::1": false, "::1": false, "::": false,
		"::ffff:10.0.0.1": true, "::2": true, "febf::1": false, "fec0::1": true,
		"::ffff:127.0.0.1": true, "::ffff:0.0.0.0": true, "::ffff:224.0.0.1": true, "::ffff:169.254.0.1": true, // IPv6 like all mapped ones
	} {
		if got := RoutableUnicast(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
	if RoutableUnicast(netip.Addr{}) {
		t.Error("no address is routable")
	}
}

// Shows RFC 9300 s.7.1 (1).
func TestCheckSize(t *testing.T) {
	free, fixed, six := udpPacket(t, host4, remote4, 1500), udpPacket(t, host4, remote4, 1500, dontFragment), udpPacket(t, host6, remote6, 1500)
	tcp := bytes.Clone(free)
	tcp[9], tcp[20+12] = protocolTCP, 8<<4
	for _, c := range []struct {
		name             string
		packet           []byte
		segment, largest int
		fit              Fit
		newSegment       int
	}{
		{"fits exactly", fixed, 0, 1500, FitWhole, 0},
		{"ipv4 with df", fixed, 0, 1499, FitNot, 0},
		{"ipv4 without df", free, 0, 1499, FitFragments, 0},
		{"ipv6", six, 0, 1499, FitNot, 0},
		{"tcp segments fit", tcp, 1448, 1500, FitWhole, 1448},
		{"tcp segments without df", tcp, 1448, 1464, FitSegments, 1412},
		{"tcp segments too small", tcp, 100, 40, FitNot, 0},
		{"udp segments", free, 1472, 1464, FitNot, 0},
		{"udp segments fit", free, 1436, 1464, FitWhole, 1436},
	} {
		h := mustHeader(t, c.packet)
		if fit, segment := CheckSize(c.packet, &h, c.segment, c.largest); fit != c.fit || segment != c.newSegment {
			t.Errorf("%s: %d, segments of %d, want %d, %d", c.name, fit, segment, c.fit, c.newSegment)
		}
	}
}

// reassemble puts fragments together and demands that they are as RFC 791 wants.
func reassemble(t *testing.T, parts [][]byte) []byte {
	t.Helper()
	var payload []byte
	for i, p := range parts {
		h := mustHeader(t, p)
		if Checksum(p[:h.PayloadOffset]) != 0 {
			t.Errorf("part %d: header checksum is wrong", i)
		}
		if h.FragmentOctets != len(payload) || h.Length != len(p) {
			t.Fatalf("part %d: offset %d, length %d; %d octets before it, %d in it", i, h.FragmentOctets, h.Length, len(payload), len(p))
		}
		if more := p[6]&0x20 != 0; more != (i < len(parts)-1) {
			t.Errorf("part %d of %d: more fragments %t", i, len(parts), more)
		}
		if i < len(parts)-1 && (len(p)-h.PayloadOffset)%8 != 0 {
			t.Errorf("part %d carries %d octets", i, len(p)-h.PayloadOffset)
		}
		payload = append(payload, p[h.PayloadOffset:]...)
	}
	return payload
}

// Shows RFC 9300 s.5 (2), RFC 9300 s.7.1 (2).
func TestFragment(t *testing.T) {
	for _, c := range []struct{ octets, largest, parts int }{
		{1500, 1500, 1}, {1500, 1464, 2}, {1465, 1464, 2}, {1500, 764, 2}, {1500, 760, 3}, {1500, 740, 4}, {1500, 400, 4}, {1501, 68, 32}, {9000, 1464, 8}, {65535, 1464, 64},
	} {
		packet := udpPacket(t, host4, remote4, c.octets)
		parts, reason := Fragment(nil, packet, c.largest)
		if reason != DropNone || len(parts) != c.parts {
			t.Fatalf("%d octets to %d: %d parts, %s; want %d", c.octets, c.largest, len(parts), reason, c.parts)
		}
		if longest(parts) > c.largest {
			t.Errorf("%d octets to %d: a part has %d", c.octets, c.largest, longest(parts))
		}
		if got := reassemble(t, parts); !bytes.Equal(got, packet[20:]) {
			t.Errorf("%d octets to %d: the parts do not make up the packet", c.octets, c.largest)
		}
	}
}

func TestFragmentRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		packet  []byte
		largest int
		reason  DropReason
	}{
		"df":        {udpPacket(t, host4, remote4, 1500, dontFragment), 1400, DropTooBig},
		"too small": {udpPacket(t, host4, remote4, 65535), 300, DropTooBig},
		"no room":   {udpPacket(t, host4, remote4, 1500), 20, DropTooBig},
		"beyond":    {udpPacket(t, host4, remote4, 1500, func(v4 *layers.IPv4) { v4.FragOffset = 0x1FFF }), 1400, DropInnerMalformed},
		"ipv6":      {udpPacket(t, host6, remote6, 1500), 1400, DropInnerMalformed},
		"garbage":   {[]byte{1, 2, 3}, 1400, DropInnerMalformed},
	} {
		if parts, reason := Fragment(nil, c.packet, c.largest); reason != c.reason || len(parts) > 0 {
			t.Errorf("%s: %d parts, %s, want %s", name, len(parts), reason, c.reason)
		}
	}
}

func TestFragmentOfFragment(t *testing.T) {
	whole := udpPacket(t, host4, remote4, 3000)
	halves, _ := Fragment(nil, whole, 1600)
	var parts [][]byte
	for _, half := range halves {
		quarters, reason := Fragment(nil, half, 800)
		if reason != DropNone || len(quarters) != 2 {
			t.Fatalf("%d parts, %s", len(quarters), reason)
		}
		parts = append(parts, quarters...)
	}
	if !bytes.Equal(reassemble(t, parts), whole[20:]) {
		t.Error("the parts do not make up the packet")
	}
}

// TestFragmentOptions: an option stands in every part only when its copied flag is
// set (RFC 791 s.3.1).
func TestFragmentOptions(t *testing.T) {
	packet := udpPacket(t, host4, remote4, 1000, func(v4 *layers.IPv4) {
		v4.Options = []layers.IPv4Option{
			{OptionType: 7, OptionLength: 4, OptionData: []byte{4, 0}}, // record route: not copied
			{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}},
		}
	})
	parts, reason := Fragment(nil, packet, 600)
	if reason != DropNone || len(parts) != 2 {
		t.Fatalf("%d parts, %s", len(parts), reason)
	}
	reassemble(t, parts)
	if !bytes.Equal(parts[0][20:28], packet[20:28]) {
		t.Errorf("options of the first part %x, want %x", parts[0][20:28], packet[20:28])
	}
	if want := []byte{1, 1, 1, 1, 148, 4, 0, 0}; !bytes.Equal(parts[1][20:28], want) {
		t.Errorf("options of the second part %x, want %x", parts[1][20:28], want)
	}
}

func TestEncapsulateRefuses(t *testing.T) {
	packet := udpPacket(t, host4, remote4, 100)
	h := mustHeader(t, packet)
	four, six := rlocOf(0), rlocOf(1)
	six = rlocFrom("2001:db8::1")
	good := Tunnel{Source: four, Destination: rlocOf(1), Header: DataHeader(0, 1)}
	for name, c := range map[string]struct {
		change func(*Tunnel, *Header)
		want   DropReason
	}{
		"families differ":    {func(t *Tunnel, _ *Header) { t.Source = six }, DropNoLocator},
		"no source":          {func(t *Tunnel, _ *Header) { t.Source = rlocFrom("") }, DropNoLocator},
		"too long":           {func(_ *Tunnel, h *Header) { h.Length = 65500 }, DropEncapsulationFailed},
		"flags contradict":   {func(t *Tunnel, _ *Header) { t.Header.MapVersion = true }, DropEncapsulationFailed},
		"ttl 0 is forwarded": {func(t *Tunnel, h *Header) { h.TTL, t.Forwarded = 0, true }, DropTTLExpired},
	} {
		tunnel, header := good, h
		c.change(&tunnel, &header)
		before := []byte("kept")
		got, reason := Encapsulate(before, packet, &header, &tunnel)
		if reason != c.want || string(got) != "kept" {
			t.Errorf("%s: %s, %q, want %s and the buffer as it was", name, reason, got, c.want)
		}
	}
}

// TestEncapsulateFromASourcePort: all flows leave from the port, with a checksum that is never 0. Without a port each
// flow has its own, and no checksum.
// Shows RFC 9300 s.5.3 (4).
func TestEncapsulateFromASourcePort(t *testing.T) {
	rlocs := map[bool][2]lisp.RLOC{
		false: {rlocOf(0), rlocOf(1)},
		true:  {rlocFrom("2001:db8:f::1"), rlocFrom("2001:db8:f::2")},
	}
	for _, six := range []bool{false, true} {
		for octets := 100; octets < 140; octets++ {
			for _, packet := range [][]byte{udpPacket(t, host4, remote4, octets), udpPacket(t, host6, remote6, octets)} {
				h := mustHeader(t, packet)
				tunnel := Tunnel{Source: rlocs[six][0], Destination: rlocs[six][1], Header: DataHeader(7, 1), Forwarded: true}
				plain, reason := Encapsulate(nil, packet, &h, &tunnel)
				tunnel.SourcePort = 4342
				ported, ported2 := []byte(nil), reason
				if ported, ported2 = Encapsulate(nil, packet, &h, &tunnel); reason != DropNone || ported2 != DropNone {
					t.Fatal(reason, ported2)
				}
				outer := mustHeader(t, ported)
				udp, of := ported[outer.PayloadOffset:], plain[outer.PayloadOffset:]
				if port := binary.BigEndian.Uint16(udp); port != 4342 {
					t.Errorf("leaves from port %d, want 4342", port)
				}
				if port := binary.BigEndian.Uint16(of); port != SourcePort(FlowHash(&h)) || of[6] != 0 || of[7] != 0 {
					t.Errorf("without a port: from %d, checksum %x", port, of[6:8])
				}
				if udp[6] == 0 && udp[7] == 0 {
					t.Error("no checksum")
				}
				if s := fold(sum(udp, pseudoHeaderSum(outer.Source, outer.Destination, protocolUDP, len(udp)))); s != 0xffff {
					t.Errorf("%d octets, IPv6 %v: the checksum is wrong: the sum is %x", octets, six, s)
				}
				copy(udp[6:8], []byte{0, 0})
				copy(udp[:2], of[:2])
				if !bytes.Equal(ported, plain) {
					t.Errorf("else it is\n%x, want\n%x", ported, plain)
				}
			}
		}
	}
}

// TestUDPChecksumOfZero: a sum of 0 is sent as 0xFFFF, for 0 says that there is none.
func TestUDPChecksumOfZero(t *testing.T) {
	datagram := []byte{0x10, 0xf5, 0x10, 0xf5, 0, 10, 0, 0, 0, 0}
	putUDPChecksum(datagram, rlocOf(0).Addr(), rlocOf(1).Addr())
	copy(datagram[8:], datagram[6:8]) // now it sums up to nothing
	datagram[6], datagram[7] = 0, 0
	putUDPChecksum(datagram, rlocOf(0).Addr(), rlocOf(1).Addr())
	if datagram[6] != 0xff || datagram[7] != 0xff {
		t.Errorf("checksum %x, want ffff", datagram[6:8])
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	packet, buffer := udpPacket(t, host6, remote6, 1200), make([]byte, 0, 2048)
	tunnel := Tunnel{Source: rlocOf(0), Destination: rlocOf(1), Header: DataHeader(7, 1), Forwarded: true}
	sent := []byte{}
	if n := testing.AllocsPerRun(100, func() {
		h, err := ParseHeader(packet)
		if err != nil {
			t.Fatal(err)
		}
		sent, _ = Encapsulate(buffer, packet, &h, &tunnel)
	}); n > 0 {
		t.Errorf("encapsulation allocates %v times", n)
	}
	copied := slices.Clone(sent)
	if n := testing.AllocsPerRun(100, func() {
		copy(copied, sent)
		if e, reason := unwrapped(copied, Marking{}); reason != DropNone || len(e.Inner) != 1200 {
			t.Fatal(reason)
		}
	}); n > 0 {
		t.Errorf("decapsulation allocates %v times", n)
	}
}
