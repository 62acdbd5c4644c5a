// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"loci/wire"
)

// The UDP checksum of the first packet is that of every packet: each number stands beside its complement.
func TestInnerPacketChecksumHoldsForAllNumbers(t *testing.T) {
	for _, p := range Pairs {
		for _, octets := range []int{PacketOctets, 1388} {
			checksumHolds(t, p, longPacket(p.Source(), p.Destination(), 1, octets))
		}
	}
}

func checksumHolds(t *testing.T, p Pair, packet []byte) {
	t.Helper()
	header := IPv6Octets
	if p.Inner4() {
		header = IPv4Octets
	}
	for _, number := range []uint32{0, 1, 65535, 65536, 0xfffffffe} {
		udp := packet[header:]
		destination := p.Destination().AsSlice()
		low := destination[len(destination)-4:]
		binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+number%4096)
		binary.BigEndian.PutUint32(destination, binary.BigEndian.Uint32(destination)+number>>2)
		port := uint16(firstPort + number%manyFlows)
		binary.BigEndian.PutUint16(udp, port)
		binary.BigEndian.PutUint16(udp[10:], ^port)
		binary.BigEndian.PutUint32(udp[12:], number)
		binary.BigEndian.PutUint32(udp[16:], ^number)
		binary.BigEndian.PutUint32(udp[20:], ^sumOf(destination))
		to, _ := netip.AddrFromSlice(destination)
		if !wire.VerifyUDPChecksum(p.Source(), to, udp) {
			t.Errorf("%s, number %d: the UDP checksum is wrong", p.Name, number)
		}
	}
}
