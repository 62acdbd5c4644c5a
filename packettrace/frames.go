// SPDX-License-Identifier: Apache-2.0

package packettrace

// The frames that `loci trace --live` listens to, with their VLAN tags (IEEE 802.1Q), which the kernel mostly takes out of a
// frame and tells beside it. Nothing here decides about a packet.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// captureOctets is room for the longest GSO packet.
	captureOctets = 1<<16 + 256
	// vnetHeaderOctets is struct virtio_net_hdr, which tells the size of segments.
	vnetHeaderOctets = 10
	// listenPause is how long the socket is waited for before the context is looked at.
	listenPause = 200 * time.Millisecond
)

const (
	ethernetOctets = 14
	vlanTagOctets  = 4
	vlanIDMask     = 0xfff
	// auxiliaryOctets is room for struct tpacket_auxdata behind its header; vlanTCIAt is where the tag stands in it.
	auxiliaryOctets = 64
	vlanTCIAt       = 16
)

// listener reads the frames that pass an interface.
type listener struct {
	link   *net.Interface
	socket int
	buffer []byte
}

func listenAt(link *net.Interface) (*listener, error) {
	socket, err := openSocket(link.Index)
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", link.Name, err)
	}
	return &listener{link: link, socket: socket, buffer: make([]byte, captureOctets)}, nil
}

func (l *listener) close() { unix.Close(l.socket) }

// receive returns the next IP packet in the filter's direction and VLAN; nil when it was none, or nothing came for a while.
func (l *listener) receive(filter *PacketFilter) (packet []byte, segment int, err error) {
	buffer := l.buffer
	var beside [auxiliaryOctets]byte
	n, nBeside, _, from, err := unix.Recvmsg(l.socket, buffer, beside[:], 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("listening at %s: %w", l.link.Name, err)
	}
	source, ok := from.(*unix.SockaddrLinklayer)
	if !ok || (source.Pkttype == unix.PACKET_OUTGOING) != filter.Leaves || n < vnetHeaderOctets+ethernetOctets {
		return nil, 0, nil
	}
	packet, vlan := takeApart(buffer[vnetHeaderOctets:n], tagBeside(beside[:nBeside]))
	if vlan != filter.VLAN {
		return nil, 0, nil
	}
	return packet, int(binary.NativeEndian.Uint16(buffer[4:])), nil
}

// takeApart returns the IP packet of a frame, nil where there is none, and its VLAN: that of a tag beside it, else of the one
// that is in it.
func takeApart(frame []byte, beside int) (packet []byte, vlan int) {
	ethertype, packet := binary.BigEndian.Uint16(frame[12:]), frame[ethernetOctets:]
	vlan = beside
	if vlan == 0 && ethertype == unix.ETH_P_8021Q && len(packet) >= vlanTagOctets {
		vlan = int(binary.BigEndian.Uint16(packet)) & vlanIDMask
		ethertype, packet = binary.BigEndian.Uint16(packet[2:]), packet[vlanTagOctets:]
	}
	if ethertype != unix.ETH_P_IP && ethertype != unix.ETH_P_IPV6 {
		return nil, 0
	}
	return packet, vlan
}

// tagBeside is the VLAN of a tag that the kernel tells of in PACKET_AUXDATA, 0 for none.
func tagBeside(octets []byte) int {
	messages, err := unix.ParseSocketControlMessage(octets)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < vlanTCIAt+2 {
			continue
		}
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			return int(binary.NativeEndian.Uint16(m.Data[vlanTCIAt:])) & vlanIDMask
		}
	}
	return 0
}

func openSocket(ifindex int) (int, error) {
	everything := uint16(unix.ETH_P_ALL)
	network := everything<<8 | everything>>8
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(network))
	if err != nil {
		return -1, err
	}
	pause := unix.NsecToTimeval(int64(listenPause))
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1), // where the kernel puts VLAN tags
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &pause),
		unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: network, Ifindex: ifindex}),
	)
	if err != nil {
		unix.Close(socket)
		return -1, err
	}
	return socket, nil
}
