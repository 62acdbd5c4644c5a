// SPDX-License-Identifier: Apache-2.0

package experiment

// The datagrams of a row: how they are built, and what a captured frame says about one. gopacket does both; of LISP
// it is only known here that the header behind UDP port 4341 has eight octets (RFC 9300 s.5.1).

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	dataPort      = 4341
	controlPort   = 4342 // an RTR sends data from there to routers behind NATs, whose port the NAT chose
	testPort      = 9    // discard (RFC 863)
	lispOctets    = 8
	instanceIDBit = 0x08 // I of the flags: the Instance-ID field is in use
	firstPort     = 20000
	markOctets    = 16
	maxLayers     = 4
	hopLimit      = 64
)

// mark is the payload of a datagram: which try of which run it belongs to, and its number.
type mark struct {
	try    uint64
	number uint64
}

func (m mark) octets() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, m.try), m.number)
}

func readMark(payload []byte) (m mark, ok bool) {
	if len(payload) != markOctets {
		return m, false
	}
	return mark{binary.BigEndian.Uint64(payload), binary.BigEndian.Uint64(payload[8:])}, true
}

// build makes one datagram with its IP header and what it is inside of.
func (s *send) build(m mark) ([]byte, error) {
	packet, err := udpIn(s.Source, s.Destination, uint16(firstPort+m.number), testPort, m.octets())
	for i := len(s.Inside) - 1; i >= 0 && err == nil; i-- {
		outer := s.Inside[i]
		header := make([]byte, lispOctets)
		if outer.InstanceID != 0 {
			header[0] = instanceIDBit
			binary.BigEndian.PutUint32(header[4:], outer.InstanceID<<8)
		}
		packet, err = udpIn(outer.Source, outer.Destination, uint16(firstPort+m.number), dataPort, append(header, packet...))
	}
	return packet, err
}

func udpIn(source, destination netip.Addr, from, to uint16, payload []byte) ([]byte, error) {
	udp := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
	var ip gopacket.SerializableLayer
	if source.Is4() {
		v4 := &layers.IPv4{Version: 4, TTL: hopLimit, Protocol: layers.IPProtocolUDP, SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
		ip = v4
		if err := udp.SetNetworkLayerForChecksum(v4); err != nil {
			return nil, err
		}
	} else {
		v6 := &layers.IPv6{Version: 6, HopLimit: hopLimit, NextHeader: layers.IPProtocolUDP, SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
		ip = v6
		if err := udp.SetNetworkLayerForChecksum(v6); err != nil {
			return nil, err
		}
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buffer, options, ip, udp, gopacket.Payload(payload)); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// inject sends a packet from a node as it is, also with the source address of another: the node's routes choose the
// interface. Policy rules see the source if the node has it.
func inject(from *testnet.Namespace, packet []byte, source, destination netip.Addr) error {
	err := from.Do(func() error {
		family, level, option := unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_HDRINCL
		if destination.Is4() {
			family, level, option = unix.AF_INET, unix.IPPROTO_IP, unix.IP_HDRINCL
		}
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return err
		}
		if err := unix.Bind(fd, socketAddress(source)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return err
		}
		return unix.Sendto(fd, packet, 0, socketAddress(destination))
	})
	if err != nil {
		return fmt.Errorf("send from %s to %v: %w", from.Role(), destination, err)
	}
	return nil
}

func socketAddress(a netip.Addr) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Addr: a.As16()}
}

// sighting is what a captured frame says about a datagram of a row.
type sighting struct {
	mark                mark
	answer              bool // it is the answer to the datagram of that mark
	layers              int  // LISP headers around it
	source, destination netip.Addr
	sourcePort          uint16
}

// understand reads a frame; there is nothing in one without a datagram of an experiment, and several in one that a
// router in user space gave to the kernel to be cut (UDP_SEGMENT): between namespaces it stays in one piece.
func understand(frame []byte) (all []sighting) {
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
	udp, source, destination := datagram(packet)
	if udp == nil {
		return nil
	}
	for _, payload := range segmentsOf(udp) {
		s := sighting{source: source, destination: destination, sourcePort: uint16(udp.SrcPort)}
		if s.read(udp, payload) {
			all = append(all, s)
		}
	}
	return all
}

// segmentsOf are the payloads of a UDP header: of one with LISP, as many as there are inner packets.
func segmentsOf(udp *layers.UDP) (all [][]byte) {
	rest := udp.Payload
	for isLISP(udp) && len(rest) > lispOctets {
		length := lispOctets + lengthOf(rest[lispOctets:])
		if length <= lispOctets || length >= len(rest) {
			break
		}
		all, rest = append(all, rest[:length]), rest[length:]
	}
	return append(all, rest)
}

// lengthOf is what an IP header says of its packet's length; 0 is not known.
func lengthOf(packet []byte) int {
	const fixed = 40 // of an IPv6 header
	switch {
	case len(packet) >= 4 && packet[0]>>4 == 4:
		return int(binary.BigEndian.Uint16(packet[2:]))
	case len(packet) >= 6 && packet[0]>>4 == 6:
		return fixed + int(binary.BigEndian.Uint16(packet[4:]))
	}
	return 0
}

func isLISP(udp *layers.UDP) bool { return udp.DstPort == dataPort || udp.SrcPort == controlPort }

// read finds the datagram in a payload, below its LISP headers.
func (s *sighting) read(udp *layers.UDP, payload []byte) (ok bool) {
	for ; s.layers <= maxLayers; s.layers++ {
		if m, ok := readMark(payload); ok && (udp.DstPort == testPort || udp.SrcPort == testPort) {
			s.mark, s.answer = m, udp.SrcPort == testPort
			return true
		}
		if !isLISP(udp) || len(payload) <= lispOctets {
			return false
		}
		inner := payload[lispOctets:]
		udp, _, _ = datagram(gopacket.NewPacket(inner, ipLayer(inner[0]>>4),
			gopacket.DecodeOptions{NoCopy: true}))
		if udp == nil {
			return false
		}
		payload = udp.Payload
	}
	return false
}

func ipLayer(version byte) gopacket.LayerType {
	if version == 4 {
		return layers.LayerTypeIPv4
	}
	return layers.LayerTypeIPv6
}

// datagram is the first UDP header of a packet, and the addresses of the IP header before it.
func datagram(packet gopacket.Packet) (udp *layers.UDP, source, destination netip.Addr) {
	network := packet.NetworkLayer()
	udp, _ = packet.Layer(layers.LayerTypeUDP).(*layers.UDP)
	if network == nil || udp == nil {
		return nil, source, destination
	}
	flow := network.NetworkFlow()
	source, _ = netip.AddrFromSlice(flow.Src().Raw())
	destination, _ = netip.AddrFromSlice(flow.Dst().Raw())
	return udp, source, destination
}
