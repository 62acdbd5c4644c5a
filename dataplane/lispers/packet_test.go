// SPDX-License-Identifier: Apache-2.0

package lispers

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// udp4 is a UDP packet; data packets of LISP are made with encapsulated.
func udp4(from, to netip.Addr) []byte { return serialize(from, to, 9, []byte("loci")) }

// encapsulated puts a packet behind outer and LISP header.
func encapsulated(from, to netip.Addr, header, inner []byte) []byte {
	return serialize(from, to, DataPort, append(append([]byte{}, header...), inner...))
}

func serialize(from, to netip.Addr, port uint16, payload []byte) []byte {
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	udp := &layers.UDP{SrcPort: 1000, DstPort: layers.UDPPort(port)}
	_ = udp.SetNetworkLayerForChecksum(ip)
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, ip, udp, gopacket.Payload(payload)); err != nil {
		panic(err) // the tests' own packets always serialize
	}
	return buffer.Bytes()
}
