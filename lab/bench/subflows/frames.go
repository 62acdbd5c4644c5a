// SPDX-License-Identifier: Apache-2.0

package subflows

// TCP segments as Ethernet frames: SYNs with an option of Multipath TCP (RFC 8684 s.3), the same with padding in its
// place, and data.

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

const (
	lowestPort      = 20000
	destinationPort = 5001
	mptcpOption     = 30
	noOperation     = 1
	dataOctets      = 64
	sequence        = 1000
)

// The option of a SYN that opens a session (version 1, SHA-256), and of one that joins a session: subtype and flags,
// the address's number, a token, a nonce.
var (
	capable = []byte{0x01, 0x01}
	join    = []byte{0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8}
)

// link is where frames leave.
type link struct {
	fd       int
	at       *unix.SockaddrLinklayer
	from, to []byte // MAC addresses
}

// openLink opens a socket for the frames of a host to Enc.
func openLink(host, enc *testnet.Namespace, encLink string) (*link, error) {
	out, err := testbed.LinkOf(host, testbed.HostLink)
	if err != nil {
		return nil, err
	}
	next, err := testbed.LinkOf(enc, encLink)
	if err != nil {
		return nil, err
	}
	o := &link{from: out.HardwareAddr, to: next.HardwareAddr, at: &unix.SockaddrLinklayer{Ifindex: out.Index}}
	return o, host.Do(func() (err error) {
		o.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket for frames: %w", err)
		}
		return nil
	})
}

func (o *link) send(frame []byte) error { return unix.Sendto(o.fd, frame, 0, o.at) }

func (o *link) close() { _ = unix.Close(o.fd) }

// segment is a TCP segment of a flow.
type segment struct {
	source, destination netip.Addr
	port                uint16 // of the source
	option              []byte // of Multipath TCP, in a SYN; nil: data of an open connection
	padded              bool   // padding in place of the option
}

// frame is the segment as it leaves by a link.
func (s segment) frame(o *link) ([]byte, error) {
	tcp := &layers.TCP{SrcPort: layers.TCPPort(s.port), DstPort: destinationPort, Seq: sequence, Window: 65535}
	payload := gopacket.Payload{}
	switch {
	case s.option == nil:
		tcp.ACK, tcp.Ack, payload = true, 1, make([]byte, dataOctets)
	case s.padded:
		tcp.SYN = true
		for range len(s.option) + 2 {
			tcp.Options = append(tcp.Options, layers.TCPOption{OptionType: noOperation})
		}
	default:
		tcp.SYN = true
		tcp.Options = []layers.TCPOption{
			{OptionType: mptcpOption, OptionLength: uint8(len(s.option) + 2), OptionData: s.option},
		}
	}
	ethernet := &layers.Ethernet{SrcMAC: o.from, DstMAC: o.to, EthernetType: layers.EthernetTypeIPv4}
	var ip gopacket.NetworkLayer
	if s.destination.Is4() {
		ip = &layers.IPv4{Version: 4, TTL: testbed.SentTTL, Protocol: layers.IPProtocolTCP,
			Flags: layers.IPv4DontFragment,
			SrcIP: s.source.AsSlice(), DstIP: s.destination.AsSlice()}
	} else {
		ethernet.EthernetType = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: testbed.SentTTL, NextHeader: layers.IPProtocolTCP,
			SrcIP: s.source.AsSlice(), DstIP: s.destination.AsSlice()}
	}
	if err := tcp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	buffer := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	err := gopacket.SerializeLayers(buffer, options, ethernet, ip.(gopacket.SerializableLayer), tcp, payload)
	return buffer.Bytes(), err
}

// seen is what tells a segment in a captured frame.
type seen struct {
	outer4 bool // of a LISP packet
	port   uint16
	syn    bool
}

const (
	udpOctets, lispOctets = 8, 8
	tcpOctets             = 20
	synFlag               = 2
	dataPort              = 4341
)

// see reads a TCP segment to destinationPort, as it is or, with encapsulated, in a LISP packet. IP headers have no
// options or extensions.
func see(frame []byte, encapsulated bool) (s seen, ok bool) {
	if len(frame) < testbed.EthernetOctets {
		return s, false
	}
	packet := frame[testbed.EthernetOctets:]
	if encapsulated {
		s.outer4 = len(packet) > 0 && packet[0]>>4 == 4
		if packet, ok = behindIP(packet, unix.IPPROTO_UDP); !ok || len(packet) < udpOctets+lispOctets ||
			binary.BigEndian.Uint16(packet[2:]) != dataPort {
			return s, false
		}
		packet = packet[udpOctets+lispOctets:]
	}
	if packet, ok = behindIP(packet, unix.IPPROTO_TCP); !ok || len(packet) < tcpOctets ||
		binary.BigEndian.Uint16(packet[2:]) != destinationPort {
		return s, false
	}
	s.port, s.syn = binary.BigEndian.Uint16(packet), packet[13]&synFlag != 0
	return s, true
}

// behindIP is what follows an IP header, if that is of the protocol.
func behindIP(packet []byte, protocol byte) ([]byte, bool) {
	switch {
	case len(packet) >= testbed.IPv4Octets && packet[0]>>4 == 4:
		return packet[testbed.IPv4Octets:], packet[9] == protocol
	case len(packet) >= testbed.IPv6Octets && packet[0]>>4 == 6:
		return packet[testbed.IPv6Octets:], packet[6] == protocol
	}
	return nil, false
}
