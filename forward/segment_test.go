// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// gsoPacket is a packet of TCP or UDP with so many octets of payload.
func gsoPacket(t *testing.T, six, udp bool, octets int) []byte {
	t.Helper()
	protocol := layers.IPProtocolTCP
	if udp {
		protocol = layers.IPProtocolUDP
	}
	var ip gopacket.NetworkLayer = &layers.IPv4{Version: 4, TTL: 64, Id: 0xfffe, Protocol: protocol, SrcIP: net.IP{10, 1, 0, 1}, DstIP: net.IP{10, 2, 0, 1}}
	if six {
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: protocol, SrcIP: net.ParseIP("2001:db8:1::1"), DstIP: net.ParseIP("2001:db8:2::1")}
	}
	tcp, datagram := &layers.TCP{SrcPort: 40001, DstPort: 40002, Seq: 0xfffff000, ACK: true, PSH: true, FIN: true, Window: 100}, &layers.UDP{SrcPort: 40001, DstPort: 40002}
	var transport gopacket.SerializableLayer = tcp
	_ = tcp.SetNetworkLayerForChecksum(ip)
	if udp {
		transport = datagram
		_ = datagram.SetNetworkLayerForChecksum(ip)
	}
	buffer := gopacket.NewSerializeBuffer()
	payload := gopacket.Payload(bytes.Repeat([]byte("loci-"), octets/5+1)[:octets])
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip.(gopacket.SerializableLayer), transport, payload); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// TestSegmentsOfBothFamilies: TCP and UDP over IPv4 and IPv6, as gopacket reads them: right lengths and checksums, IPv4 identifications and
// TCP sequence numbers that go on, and together the payload.
func TestSegmentsOfBothFamilies(t *testing.T) {
	for _, six := range []bool{false, true} {
		for _, udp := range []bool{false, true} {
			for _, octets := range []int{1, 1200, 1201, 3601, 60000} {
				t.Run(fmt.Sprint(six, udp, octets), func(t *testing.T) { wantSegments(t, gsoPacket(t, six, udp, octets), octets) })
			}
		}
	}
}

func wantSegments(t *testing.T, packet []byte, octets int) {
	t.Helper()
	const most = 1200
	h := mustHeader(t, packet)
	segments, err := Segments(packet, &h, most)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	count := 0
	for segment := range segments {
		first := layers.LayerTypeIPv4
		if h.Family == 6 {
			first = layers.LayerTypeIPv6
		}
		p := gopacket.NewPacket(segment, first, gopacket.Default)
		for _, l := range p.Layers() {
			if c, ok := l.(interface {
				SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
			}); ok {
				_ = c.SetNetworkLayerForChecksum(p.NetworkLayer())
			}
		}
		if err, bad := p.VerifyChecksums(); err != nil || len(bad) > 0 || p.Metadata().Truncated || p.ErrorLayer() != nil {
			t.Fatalf("segment %d: %v, %v, %v", count, err, bad, p.ErrorLayer())
		}
		if v4, ok := p.NetworkLayer().(*layers.IPv4); ok && v4.Id != uint16(0xfffe+count) {
			t.Errorf("segment %d has identification %#x", count, v4.Id)
		}
		if tcp, ok := p.TransportLayer().(*layers.TCP); ok && (tcp.Seq != 0xfffff000+uint32(len(got)) || tcp.FIN != (len(got)+most >= octets)) {
			t.Errorf("segment %d: sequence number %#x, FIN %t", count, tcp.Seq, tcp.FIN)
		}
		payload := p.TransportLayer().LayerPayload()
		if len(payload) > most || len(payload) == 0 {
			t.Errorf("segment %d has %d octets", count, len(payload))
		}
		got = append(got, payload...)
		count++
	}
	if count != (octets+most-1)/most || !bytes.Equal(got, packet[len(packet)-octets:]) {
		t.Errorf("%d segments, %d octets of %d", count, len(got), octets)
	}
}
