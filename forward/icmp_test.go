// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/lisp"
)

var router4, router6 = netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("2001:db8:1::1")

func rlocFrom(text string) lisp.RLOC {
	a, _ := netip.ParseAddr(text)
	return lisp.RLOCFromAddr(a)
}

// checkICMP demands a valid ICMP error that quotes the beginning of about.
func checkICMP(t testing.TB, answer, about []byte, mtu int) (kind, code uint8) {
	t.Helper()
	h := mustHeader(t, answer)
	if h.Length != len(answer) {
		t.Fatalf("length field %d, the answer has %d octets", h.Length, len(answer))
	}
	limit, initial := maxICMPv6ErrorOctets, pseudoHeaderSum(h.Source, h.Destination, protocolICMPv6, len(answer)-h.PayloadOffset)
	if h.Family == 4 {
		limit, initial = maxICMPv4ErrorOctets, 0
		if Checksum(answer[:ipv4HeaderOctets]) != 0 {
			t.Error("IPv4 header checksum is wrong")
		}
	}
	message := answer[h.PayloadOffset:]
	if fold(sum(message, initial)) != 0xffff {
		t.Error("ICMP checksum is wrong")
	}
	original := mustHeader(t, about)
	quoted := message[icmpHeaderOctets:]
	if len(answer) > limit || len(answer) < limit && len(quoted) != original.Length || !bytes.HasPrefix(about, quoted) {
		t.Errorf("answer of %d octets quotes %d of %d", len(answer), len(quoted), original.Length)
	}
	if h.Destination != original.Source {
		t.Errorf("answer to %s about a packet of %s", h.Destination, original.Source)
	}
	if got := int(binary.BigEndian.Uint32(message[4:])); got != mtu {
		t.Errorf("rest of the header is %d, want %d", got, mtu)
	}
	return message[0], message[1]
}

func TestICMPErrors(t *testing.T) {
	type build func([]byte, netip.Addr, []byte) ([]byte, bool)
	tooBig := func(dst []byte, s netip.Addr, p []byte) ([]byte, bool) { return PacketTooBig(dst, s, p, 1464) }
	unreachable := func(code UnreachableCode) build {
		return func(dst []byte, s netip.Addr, p []byte) ([]byte, bool) { return Unreachable(dst, s, p, code) }
	}
	for _, octets := range []int{60, 1500} {
		v4, v6 := udpPacket(t, host4, remote4, octets, dontFragment), udpPacket(t, host6, remote6, octets)
		for _, c := range []struct {
			name       string
			build      build
			mtu        int
			v4, v6     [2]uint8
			kind, code uint8
		}{
			{name: "too big", build: tooBig, mtu: 1464, v4: [2]uint8{3, 4}, v6: [2]uint8{2, 0}},
			{name: "time exceeded", build: TimeExceeded, v4: [2]uint8{11, 0}, v6: [2]uint8{3, 0}},
			{name: "no route", build: unreachable(UnreachableNoRoute), v4: [2]uint8{3, 0}, v6: [2]uint8{1, 0}},
			{name: "prohibited", build: unreachable(UnreachableProhibited), v4: [2]uint8{3, 13}, v6: [2]uint8{1, 1}},
		} {
			t.Run(c.name, func(t *testing.T) {
				answer, ok := c.build([]byte("x"), router4, v4)
				if !ok || answer[0] != 'x' {
					t.Fatalf("no answer, or not appended: %x", answer)
				}
				if kind, code := checkICMP(t, answer[1:], v4, c.mtu); [2]uint8{kind, code} != c.v4 {
					t.Errorf("IPv4: type %d code %d, want %v", kind, code, c.v4)
				}
				answer, ok = c.build(nil, router6, v6)
				if !ok {
					t.Fatal("no answer")
				}
				if kind, code := checkICMP(t, answer, v6, c.mtu); [2]uint8{kind, code} != c.v6 {
					t.Errorf("IPv6: type %d code %d, want %v", kind, code, c.v6)
				}
			})
		}
	}
}

func TestICMPPaddingIsNotQuoted(t *testing.T) {
	packet := udpPacket(t, host4, remote4, 40)
	answer, ok := TimeExceeded(nil, router4, append(bytes.Clone(packet), "padding"...))
	if !ok || len(answer) != 28+40 {
		t.Errorf("answer of %d octets, want %d", len(answer), 28+40)
	}
}

// icmpPacket makes an ICMP packet of that type.
func icmpPacket(t testing.TB, family, kind uint8) []byte {
	t.Helper()
	from, to := host4, remote4
	if family == 6 {
		from, to = host6, remote6
	}
	packet := udpPacket(t, from, to, 100)
	h := mustHeader(t, packet)
	packet[h.PayloadOffset] = kind
	if family == 4 {
		updateChecksum(packet[10:12], uint16(packet[8])<<8|uint16(packet[9]), uint16(packet[8])<<8|protocolICMPv4)
		packet[9] = protocolICMPv4
	} else {
		packet[6] = protocolICMPv6
	}
	return packet
}

func TestICMPIsNotAnswered(t *testing.T) {
	later := udpPacket(t, host4, remote4, 100, func(v4 *layers.IPv4) { v4.FragOffset = 1 })
	first := udpPacket(t, host4, remote4, 100, func(v4 *layers.IPv4) { v4.Flags = layers.IPv4MoreFragments })
	later6 := udpPacket(t, host6, remote6, 100)
	later6[6], later6[40], later6[42], later6[43] = protocolFragment, protocolUDP, 0, 9
	damaged := udpPacket(t, host4, remote4, 100)
	damaged[10] ^= 0x10
	cases := map[string]struct {
		packet []byte
		source netip.Addr
		want   bool
	}{
		"header checksum wrong":  {damaged, router4, false},
		"ordinary":               {udpPacket(t, host4, remote4, 100), router4, true},
		"first fragment":         {first, router4, true},
		"later fragment":         {later, router4, false},
		"later ipv6 fragment":    {later6, router6, false},
		"to multicast":           {udpPacket(t, host4, netip.MustParseAddr("239.1.1.1"), 100), router4, false},
		"to ipv6 multicast":      {udpPacket(t, host6, netip.MustParseAddr("ff0e::1"), 100), router6, false},
		"to broadcast":           {udpPacket(t, host4, netip.MustParseAddr("255.255.255.255"), 100), router4, false},
		"from unspecified":       {udpPacket(t, netip.IPv4Unspecified(), remote4, 100), router4, false},
		"from multicast":         {udpPacket(t, netip.MustParseAddr("224.0.0.1"), remote4, 100), router4, false},
		"from ipv6 unspecified":  {udpPacket(t, netip.IPv6Unspecified(), remote6, 100), router6, false},
		"garbage":                {[]byte{0x45, 1, 2}, router4, false},
		"nothing":                {nil, router4, false},
		"source of other family": {udpPacket(t, host4, remote4, 100), router6, false},
		"no source":              {udpPacket(t, host6, remote6, 100), netip.Addr{}, false},
	}
	for kind, want := range map[uint8]bool{0: true, 3: false, 4: false, 5: false, 8: true, 11: false, 12: false, 13: true} {
		c := cases["ordinary"]
		c.packet, c.want = icmpPacket(t, 4, kind), want
		cases["icmpv4 type "+string(rune('0'+kind))] = c
	}
	for kind, want := range map[uint8]bool{1: false, 2: false, 3: false, 4: false, 127: false, 128: true, 129: true, 135: true, 137: false} {
		c := cases["no source"]
		c.packet, c.source, c.want = icmpPacket(t, 6, kind), router6, want
		cases["icmpv6 type "+string(rune('0'+kind))] = c
	}
	for name, c := range cases {
		answer, ok := TimeExceeded(nil, c.source, c.packet)
		if ok != c.want || !ok && answer != nil {
			t.Errorf("%s: answered %t, want %t", name, ok, c.want)
		}
	}
}

// TestICMPIsReadByOthers lets gopacket decode the errors.
func TestICMPIsReadByOthers(t *testing.T) {
	answer, _ := PacketTooBig(nil, router6, udpPacket(t, host6, remote6, 1500), 1444)
	p := gopacket.NewPacket(answer, layers.LayerTypeIPv6, gopacket.Default)
	if icmp, ok := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6); !ok || icmp.TypeCode.Type() != layers.ICMPv6TypePacketTooBig || p.ErrorLayer() != nil {
		t.Errorf("decoded as %v", p)
	}
	answer, _ = PacketTooBig(nil, router4, udpPacket(t, host4, remote4, 1500), 70000)
	p = gopacket.NewPacket(answer, layers.LayerTypeIPv4, gopacket.Default)
	if icmp, ok := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4); !ok || icmp.Seq != 0xffff {
		t.Errorf("decoded as %v, want the MTU limited to 16 bits", p)
	}
}
