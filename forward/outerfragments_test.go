// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// payloadOf puts fragments together again.
func payloadOf(t *testing.T, parts [][]byte, mtu int) (payload []byte) {
	t.Helper()
	for i, part := range parts {
		h, err := ParseHeader(part)
		if err != nil || len(part) > mtu || h.FragmentOctets != len(payload) || h.Protocol != protocolUDP {
			t.Fatalf("fragment %d of %d octets: %+v, %v", i, len(part), h, err)
		}
		more := part[6]&0x20 != 0
		if h.Family == 6 {
			more = part[ipv6HeaderOctets+3]&1 != 0
		}
		if more != (i < len(parts)-1) {
			t.Errorf("fragment %d says that more follow: %v", i, more)
		}
		payload = append(payload, part[h.PayloadOffset:]...)
	}
	return payload
}

func TestFragmentOuter(t *testing.T) {
	for _, c := range []struct{ from, to string }{{"192.0.2.1", "192.0.2.2"}, {"2001:db8:f::1", "2001:db8:f::2"}} {
		source, destination := netip.AddrPortFrom(netip.MustParseAddr(c.from), 50000), netip.AddrPortFrom(netip.MustParseAddr(c.to), DataPort)
		for _, octets := range []int{100, 1300, 1301, 9000} {
			carried := bytes.Repeat([]byte{1, 2, 3}, octets)[:octets]
			packet := AppendReassembled(nil, Reassembled{source, destination, 63, 0xB9}, carried)
			h, err := ParseHeader(packet)
			if err != nil || h.TTL != 63 || h.TrafficClass != 0xB9 {
				t.Fatalf("%+v, %v", h, err)
			}
			whole := bytes.Clone(packet[h.PayloadOffset:])
			parts, reason := FragmentOuter(packet, 1280, 0x12345)
			if reason != DropNone {
				t.Fatalf("%d octets from %s: %s", octets, c.from, reason)
			}
			if !bytes.Equal(payloadOf(t, parts, 1280), whole) {
				t.Errorf("%d octets from %s came back as others", octets, c.from)
			}
		}
	}
	if _, reason := FragmentOuter([]byte{0x60}, 1280, 1); reason != DropOuterMalformed {
		t.Errorf("half a header: %s", reason)
	}
	six := AppendReassembled(nil, Reassembled{Source: netip.MustParseAddrPort("[2001:db8::1]:1"), Destination: netip.MustParseAddrPort("[2001:db8::2]:2")}, make([]byte, 100))
	if _, reason := FragmentOuter(six, 50, 1); reason != DropTooBig {
		t.Errorf("an MTU of 50: %s", reason)
	}
}

func TestSegments(t *testing.T) {
	ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: bytes.Repeat([]byte{0x20}, 16), DstIP: bytes.Repeat([]byte{0x21}, 16)}
	tcp := &layers.TCP{SrcPort: 1, DstPort: 2, Seq: 0xffffff00, ACK: true, PSH: true, FIN: true, CWR: true, Window: 100,
		Options: []layers.TCPOption{{OptionType: layers.TCPOptionKindNop}, {OptionType: layers.TCPOptionKindNop}, {OptionType: layers.TCPOptionKindNop}, {OptionType: layers.TCPOptionKindNop}}}
	_ = tcp.SetNetworkLayerForChecksum(ip)
	buffer := gopacket.NewSerializeBuffer()
	carried := bytes.Repeat([]byte("loci"), 800)
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, tcp, gopacket.Payload(carried)); err != nil {
		t.Fatal(err)
	}
	packet := buffer.Bytes()
	h, err := ParseHeader(packet)
	if err != nil {
		t.Fatal(err)
	}
	segments, err := Segments(packet, &h, 1200)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	count := 0
	for segment := range segments {
		p := gopacket.NewPacket(segment, layers.LayerTypeIPv6, gopacket.Default)
		s, ok := p.TransportLayer().(*layers.TCP)
		last := len(got)+1200 >= len(carried)
		if !ok || s.Seq != 0xffffff00+uint32(len(got)) || s.FIN != last || s.PSH != last || s.CWR != (count == 0) || !s.ACK {
			t.Fatalf("segment %d: %+v", count, s)
		}
		check := pseudoHeaderSum(h.Source, h.Destination, protocolTCP, len(segment)-ipv6HeaderOctets)
		if fold(sum(segment[ipv6HeaderOctets:], check)) != 0xffff || int(binary.BigEndian.Uint16(segment[4:])) != len(segment)-ipv6HeaderOctets {
			t.Errorf("segment %d has a wrong checksum or length", count)
		}
		got = append(got, s.Payload...)
		count++
	}
	if count != 3 || !bytes.Equal(got, carried) {
		t.Errorf("%d segments, %d octets", count, len(got))
	}
	for name, cut := range map[string]int{"half a TCP header": 50, "no TCP header": 40} {
		if _, err := Segments(packet[:cut], &h, 1200); err == nil {
			t.Errorf("%s is cut", name)
		}
	}
	if _, err := Segments(packet, &h, 0); err == nil {
		t.Error("segments of nothing")
	}
}
