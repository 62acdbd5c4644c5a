// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/forward"
)

// packetOf is a GSO packet of TCP or UDP as a TUN gives it, made by gopacket but for its open checksum.
func packetOf(t testing.TB, six, udp bool, payload, segment int) (Vnet, []byte) {
	t.Helper()
	data := make([]byte, payload)
	for i := range data {
		data[i] = byte(i * 7)
	}
	var network gopacket.SerializableLayer
	protocol, v := layers.IPProtocolTCP, Vnet{flags: vnetNeedsChecksum, kind: gsoTCPv4, segmentOctets: uint16(segment), checksumStart: 20, checksumOffset: 16}
	if udp {
		protocol, v.checksumOffset = layers.IPProtocolUDP, 6
	}
	tcp := &layers.TCP{SrcPort: 1000, DstPort: 9, Seq: 4294967000, Ack: 5, ACK: true, PSH: true, Window: 77, Options: []layers.TCPOption{{OptionType: 1}, {OptionType: 1}, {OptionType: 8, OptionLength: 10, OptionData: make([]byte, 8)}}}
	datagram := &layers.UDP{SrcPort: 40001, DstPort: 40002}
	if six {
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: net.ParseIP("2001:db8:1::1"), DstIP: net.ParseIP("2001:db8:2::1")}
		_, _, network = tcp.SetNetworkLayerForChecksum(ip), datagram.SetNetworkLayerForChecksum(ip), ip
		v.kind, v.checksumStart = gsoTCPv6, 40
	} else {
		ip := &layers.IPv4{Version: 4, IHL: 5, Id: 65530, TTL: 64, Protocol: protocol, SrcIP: net.IPv4(10, 1, 0, 1), DstIP: net.IPv4(10, 2, 0, 1)}
		_, _, network = tcp.SetNetworkLayerForChecksum(ip), datagram.SetNetworkLayerForChecksum(ip), ip
	}
	var transport gopacket.SerializableLayer = tcp
	if udp {
		transport, v.kind = datagram, gsoUDP
	}
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, network, transport, gopacket.Payload(data)); err != nil {
		t.Fatal(err)
	}
	return v, buffer.Bytes()
}

// verified demands that gopacket finds lengths and checksums right.
func verified(t testing.TB, packet []byte) {
	t.Helper()
	first := layers.LayerTypeIPv4
	if packet[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	p := gopacket.NewPacket(packet, first, gopacket.Default)
	for _, l := range p.Layers() {
		if c, ok := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok {
			if err := c.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err, bad := p.VerifyChecksums(); err != nil || len(bad) > 0 || p.Metadata().Truncated {
		t.Fatalf("checksums: %v, %v", err, bad)
	}
}

// TestSegments: each segment is right by gopacket, all payloads make the packet's, TCP over IPv6 is cut as package forward
// does, and the segments of TCP are joined to the packet that they came from.
func TestSegments(t *testing.T) {
	for _, six := range []bool{false, true} {
		for _, udp := range []bool{false, true} {
			for _, payload := range []int{1401, 2800, 60001} {
				t.Run(fmt.Sprint(six, udp, payload), func(t *testing.T) {
					v, packet := packetOf(t, six, udp, payload, 1400)
					s, ok := Cut(packet, v)
					if !ok {
						t.Fatal("not cut")
					}
					var segments [][]byte
					var data []byte
					for i := range s.Count() {
						segment := append(s.AppendHeader(nil, i), s.Payload(i)...)
						verified(t, segment)
						segments, data = append(segments, segment), append(data, s.Payload(i)...)
					}
					if !bytes.Equal(data, packet[s.HeaderOctets():]) {
						t.Error("payloads differ")
					}
					if six && !udp {
						h, _ := forward.ParseHeader(packet)
						want, err := forward.Segments(packet, &h, 1400)
						if err != nil {
							t.Fatal(err)
						}
						i := 0
						for w := range want {
							if !bytes.Equal(w, segments[i]) {
								t.Fatalf("segment %d differs from that of package forward", i)
							}
							i++
						}
					}
					if !udp {
						joinedAgain(t, segments, v, packet)
					}
				})
			}
		}
	}
}

func joinedAgain(t *testing.T, segments [][]byte, v Vnet, packet []byte) {
	var j Joiner
	for i, s := range segments {
		if !j.Add(s) {
			t.Fatalf("segment %d is not joined", i)
		}
	}
	frame := slices.Concat(j.Frame()...)
	got := ParseVnet(frame)
	if got.kind != v.kind || got.segmentOctets != v.segmentOctets || !got.Finish(frame[VnetOctets:]) || !bytes.Equal(frame[VnetOctets:], packet) {
		t.Errorf("joined: %+v, want %+v and the packet", got, v)
	}
}

// TestDamagedSegmentsStayAlone: a joined packet gets a new checksum, which must not hide damage.
func TestDamagedSegmentsStayAlone(t *testing.T) {
	v, packet := packetOf(t, false, false, 4200, 1400)
	s, _ := Cut(packet, v)
	for damaged := range 2 {
		for _, at := range []int{2, 4, 30, 500} { // headers and payload
			var j Joiner
			var parts [2][]byte
			for i := range 2 {
				parts[i] = append(s.AppendHeader(nil, i), s.Payload(i)...)
			}
			parts[damaged][at] ^= 0x10
			before := bytes.Clone(parts[0])
			if !j.Add(parts[0]) || j.Add(parts[1]) {
				t.Fatalf("damaged segment %d, octet %d: joined", damaged, at)
			}
			if frame := slices.Concat(j.Frame()...); !bytes.Equal(frame[VnetOctets:], before) || frame[0] != 0 || frame[1] != 0 {
				t.Error("a packet that is alone changed")
			}
		}
	}
}

// FuzzOffload: no packet and no virtio header breaks anything.
func FuzzOffload(f *testing.F) {
	v, packet := packetOf(f, true, false, 3000, 1400)
	frame := make([]byte, VnetOctets)
	v.put(frame)
	f.Add(append(frame, packet...), packet)
	f.Fuzz(func(t *testing.T, frame, other []byte) {
		var j Joiner
		if len(frame) >= VnetOctets {
			v, p := ParseVnet(frame), bytes.Clone(frame[VnetOctets:])
			if s, ok := Cut(p, v); ok && s.Count() <= 1<<12 {
				for i := range s.Count() {
					j.Add(append(s.AppendHeader(nil, i), s.Payload(i)...))
				}
			}
			v.Finish(p)
			CompleteChecksum(p)
			j.Add(p)
		}
		j.Add(other)
		j.Add(other)
		if j.Packets() > 0 {
			j.Frame()
		}
	})
}
