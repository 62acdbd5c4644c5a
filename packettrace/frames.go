// SPDX-License-Identifier: Apache-2.0

package packettrace

// The frames that `loci trace --live` listens to, with their VLAN tags (IEEE 802.1Q), which the kernel mostly takes out of a
// frame and tells beside it. Nothing here decides about a packet.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	ethernetOctets = 14
	vlanTagOctets  = 4
	vlanIDMask     = 0xfff
	// auxiliaryOctets is room for struct tpacket_auxdata behind its header; vlanTCIAt is where the tag stands in it.
	auxiliaryOctets = 64
	vlanTCIAt       = 16
)

// receive returns the next IP packet in the filter's direction and VLAN; nil when it was none, or nothing came for a while.
func (t *packetTracer) receive(socket int, buffer []byte) (packet []byte, segment int, err error) {
	var beside [auxiliaryOctets]byte
	n, nBeside, _, from, err := unix.Recvmsg(socket, buffer, beside[:], 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("listening at %s: %w", t.link.Name, err)
	}
	source, ok := from.(*unix.SockaddrLinklayer)
	if !ok || (source.Pkttype == unix.PACKET_OUTGOING) != t.filter.Leaves || n < vnetHeaderOctets+ethernetOctets {
		return nil, 0, nil
	}
	packet, vlan := takeApart(buffer[vnetHeaderOctets:n], tagBeside(beside[:nBeside]))
	if vlan != t.filter.VLAN {
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
