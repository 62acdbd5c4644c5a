// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

func TestAppendECM(t *testing.T) {
	message := unhex(t, plainRequestHex)
	for _, c := range []struct {
		name                string
		source, destination string
		layer               gopacket.LayerType
	}{
		{"ipv4", "192.0.2.1:40000", "10.1.0.9:4342", layers.LayerTypeIPv4},
		{"ipv6", "[2001:db8::1]:40000", "[2001:db8:1::9]:4342", layers.LayerTypeIPv6},
	} {
		source, destination := netip.MustParseAddrPort(c.source), netip.MustParseAddrPort(c.destination)
		b, err := AppendECM(nil, source, destination, message)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		inner := m.(*EncapsulatedControlMessage).Inner
		if inner.Source != source || inner.Destination != destination || inner.TTL != DefaultInnerTTL || !bytes.Equal(inner.Message, message) {
			t.Errorf("%s: %+v", c.name, inner)
		}
		if inner.MessageType() != TypeMapRequest {
			t.Errorf("%s: inner type %s", c.name, inner.MessageType())
		}
		checkWithGopacket(t, c.name, b[4:], c.layer)
	}
}

// checkWithGopacket lets another implementation verify lengths and checksums.
func checkWithGopacket(t *testing.T, name string, ip []byte, first gopacket.LayerType) {
	t.Helper()
	packet := gopacket.NewPacket(ip, first, gopacket.Default)
	if packet.ErrorLayer() != nil {
		t.Errorf("%s: %v", name, packet.ErrorLayer().Error())
	}
	for _, err := range verifyChecksums(packet) {
		t.Errorf("%s: %v", name, err)
	}
}

func verifyChecksums(packet gopacket.Packet) []string {
	var wrong []string
	if udp, ok := packet.Layer(layers.LayerTypeUDP).(*layers.UDP); ok {
		_ = udp.SetNetworkLayerForChecksum(packet.NetworkLayer())
	}
	mismatches, results := packet.VerifyChecksums()
	if mismatches != nil {
		wrong = append(wrong, mismatches.Error())
	}
	for _, r := range results {
		if !r.Valid {
			wrong = append(wrong, r.Layer.LayerType().String()+" checksum is wrong")
		}
	}
	return wrong
}

func TestInnerPacketFieldsSurvive(t *testing.T) {
	for _, inner := range []InnerPacket{
		{Source: netip.MustParseAddrPort("192.0.2.1:1"), Destination: netip.MustParseAddrPort("10.1.0.9:4342"), TTL: 1, TrafficClass: 0xb8,
			Identification: 0xbeef, DontFragment: true, Options: []byte{7, 7, 4, 0, 0, 0, 0, 0}, Message: []byte{0x10}},
		{Source: netip.MustParseAddrPort("[2001:db8::1]:1"), Destination: netip.MustParseAddrPort("[2001:db8::2]:4342"), TTL: 255, TrafficClass: 0x2e,
			FlowLabel: 0xfffff, Message: []byte{0x10, 1, 2}},
	} {
		b, err := (&EncapsulatedControlMessage{Inner: inner}).AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.(*EncapsulatedControlMessage).Inner; !got.Equal(&inner) {
			t.Errorf("\n got %+v\nwant %+v", got, inner)
		}
	}
}

// Each case edits a good ECM; checksums are repaired afterwards unless the edit is
// about them.
// Shows RFC 9301 s.5 (3), RFC 9301 s.5.8 (1), (3).
func TestInnerPacketRefused(t *testing.T) {
	v4, v6 := sampleECM(t, "192.0.2.1:1234", "10.1.0.9:4342"), sampleECM(t, "[2001:db8::1]:1234", "[2001:db8::9]:4342")
	const ip = 4
	const udp4, udp6 = ip + ipv4HeaderOctets, ip + ipv6HeaderOctets
	for _, c := range []struct {
		name   string
		base   []byte
		edit   func(b []byte) []byte
		repair bool
		reason Reason
		offset int
	}{
		{"no inner packet", v4, func(b []byte) []byte { return b[:4] }, false, ReasonTruncated, ip},
		{"IP version 5", v4, set(ip, 0x55), false, ReasonBadValue, ip},
		{"IHL of 16 octets", v4, set(ip, 0x44), false, ReasonBadLength, ip},
		{"IHL beyond the packet", v4, func(b []byte) []byte { return set(ip, 0x4f)(b[:udp4+8]) }, false, ReasonTruncated, udp4},
		{"header checksum", v4, set(ip+10, 0xff), false, ReasonBadChecksum, ip + 10},
		{"more fragments", v4, set(ip+6, 0x20), true, ReasonFragment, ip + 6},
		{"fragment offset", v4, set(ip+7, 1), true, ReasonFragment, ip + 6},
		{"TCP inside", v4, set(ip+9, 6), true, ReasonNotUDP, ip + 9},
		{"total length too long", v4, set(ip+3, 0xff), true, ReasonBadLength, ip + 2},
		{"total length shorter than the header", v4, set(ip+3, 19), true, ReasonBadLength, ip + 2},
		{"total length cuts UDP", v4, set(ip+3, 27), true, ReasonTruncated, udp4},
		{"total length too short", v4, set(ip+3, 30), true, ReasonBadLength, udp4 + 4},
		{"UDP length too short", v4, set(udp4+5, 8), true, ReasonBadLength, udp4 + 4},
		{"UDP length too long", v4, set(udp4+5, 0xf0), true, ReasonBadLength, udp4 + 4},
		{"source port 4341", v4, func(b []byte) []byte { binary.BigEndian.PutUint16(b[udp4:], DataPort); return b }, true, ReasonForbiddenPort, udp4},
		{"destination port 4341", v6, func(b []byte) []byte { binary.BigEndian.PutUint16(b[udp6+2:], DataPort); return b }, true, ReasonForbiddenPort, udp6},
		{"UDP checksum", v4, set(udp4+7, 0xff), false, ReasonBadChecksum, udp4 + 6},
		{"UDP checksum, IPv6", v6, set(udp6+7, 0xff), false, ReasonBadChecksum, udp6 + 6},
		{"no UDP checksum", v4, func(b []byte) []byte { clear(b[udp4+6 : udp4+8]); return b }, false, ReasonZeroChecksum, udp4 + 6},
		{"ECM inside", v4, set(udp4+8, 0x80), true, ReasonNestedECM, udp4 + 8},
		{"extension header", v6, set(ip+6, 0), true, ReasonNotUDP, ip + 6},
		{"payload length too long", v6, set(ip+5, 0xff), true, ReasonBadLength, ip + 4},
		{"half an IPv6 header", v6, func(b []byte) []byte { return b[:ip+39] }, false, ReasonTruncated, ip},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := c.edit(bytes.Clone(c.base))
			if c.repair {
				repairInnerChecksums(b)
			}
			_, err := Parse(b)
			checkRefusal(t, err, c.reason, c.offset)
		})
	}
}

func sampleECM(t *testing.T, source, destination string) []byte {
	t.Helper()
	b, err := AppendECM(nil, netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination), unhex(t, plainRequestHex))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func set(at int, value byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] = value
		return b
	}
}

func TestZeroInnerChecksumBehindItsKnob(t *testing.T) {
	b := sampleECM(t, "192.0.2.1:1234", "10.1.0.9:4342")
	clear(b[4+ipv4HeaderOctets+6 : 4+ipv4HeaderOctets+8])
	m, err := deployed.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.AppendTo(nil)
	if err != nil || binary.BigEndian.Uint16(out[4+ipv4HeaderOctets+6:]) == 0 {
		t.Errorf("sent %x (%v): an ECM never goes out without checksum", out, err)
	}
	b[4+ipv4HeaderOctets+7] = 1 // present but wrong: the knob does not reach that
	_, err = deployed.Parse(b)
	checkRefusal(t, err, ReasonBadChecksum, 4+ipv4HeaderOctets+6)
}

func TestInnerPacketsThatCannotBeEncoded(t *testing.T) {
	v4, v6 := netip.MustParseAddrPort("192.0.2.1:1"), netip.MustParseAddrPort("[2001:db8::1]:1")
	for name, inner := range map[string]InnerPacket{
		"two families":       {Source: v4, Destination: v6},
		"no source":          {Destination: v4},
		"data port":          {Source: v4, Destination: netip.AddrPortFrom(v4.Addr(), DataPort)},
		"options of 3":       {Source: v4, Destination: v4, Options: make([]byte, 3)},
		"options of 44":      {Source: v4, Destination: v4, Options: make([]byte, 44)},
		"options in IPv6":    {Source: v6, Destination: v6, Options: make([]byte, 4)},
		"21-bit flow label":  {Source: v6, Destination: v6, FlowLabel: 1 << 20},
		"too long a message": {Source: v4, Destination: v4, Message: make([]byte, 65535-20-8+1)},
		"ECM":                {Source: v4, Destination: v4, Message: []byte{0x80}},
	} {
		m := EncapsulatedControlMessage{Inner: inner}
		if out, err := m.AppendTo([]byte{1}); err == nil || !bytes.Equal(out, []byte{1}) {
			t.Errorf("%s: %x, %v", name, out, err)
		}
	}
}

func TestUDPChecksum(t *testing.T) {
	source, destination := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	// The last two octets make the sum 0xffff: what is sent is never 0.
	zero := unhex(t, "0001 0002 000a 0000 0000")
	binary.BigEndian.PutUint16(zero[8:], UDPChecksum(source, destination, zero))
	if got := UDPChecksum(source, destination, zero); got != 0xffff {
		t.Errorf("a sum of 0 is sent as %04x", got)
	}
	odd := unhex(t, "0001 0002 0009 0000 ab")
	binary.BigEndian.PutUint16(odd[6:], UDPChecksum(source, destination, odd))
	if !VerifyUDPChecksum(source, destination, odd) {
		t.Error("odd length")
	}
	odd[8] ^= 1
	if VerifyUDPChecksum(source, destination, odd) || VerifyUDPChecksum(source, destination, odd[:7]) {
		t.Error("a wrong checksum verifies")
	}
	clear(odd[6:8])
	if VerifyUDPChecksum(source, destination, odd) {
		t.Error("an absent checksum verifies")
	}
}
