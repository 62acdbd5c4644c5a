// SPDX-License-Identifier: Apache-2.0

package offload

// Joining consecutive TCP segments of a flow to one GSO packet, as the kernel's GRO does. Only segments whose checksums
// are right are joined, because the joined packet gets a checksum of its own: a damaged one goes on alone, and stays
// damaged. A segment that is cut from the joined packet again is the one that came.

import (
	"bytes"
	"encoding/binary"
)

const (
	maxJoined = 64
	// maxPacketOctets is what the length field of IPv4 holds.
	maxPacketOctets = 65535
	// maxHeaderOctets is the longest header of a packet that is joined: IPv6, and TCP with all its options.
	maxHeaderOctets = ipv6Octets + 60
)

// Joiner collects a packet: one that came, or one joined of several. The memory of packets that were added must not
// change until Reset.
type Joiner struct {
	pieces   [][]byte // the frame: virtio header and headers, then payloads; or virtio header, packet
	head     [VnetOctets + maxHeaderOctets]byte
	first    []byte
	packets  int
	octets   int // of the joined packet
	segment  int // payload of the first
	next     uint32
	layout   layout
	closed   bool // no further packet fits behind the last
	pushed   bool
	verified bool // the first one's checksums
}

// layout is where a segment has what.
type layout struct{ transport, data int }

// Packets is how many were added since Reset.
func (j *Joiner) Packets() int { return j.packets }

// Reset empties it.
func (j *Joiner) Reset() {
	clear(j.pieces)
	*j = Joiner{pieces: j.pieces[:0]}
}

// Add takes a packet. False: it does not go with those that are there; the caller sends these, and begins anew.
func (j *Joiner) Add(packet []byte) bool {
	l, joins := layoutOf(packet)
	if j.packets == 0 {
		j.begin(packet, l, joins)
		return true
	}
	if j.closed || !joins || !j.follows(packet, l) {
		return false
	}
	if !j.verified {
		if !intact(j.first, j.layout) {
			j.closed = true
			return false
		}
		j.verified = true
		j.pieces = append(j.pieces[:0], nil, j.first[j.layout.data:])
	}
	if !intact(packet, l) {
		return false
	}
	payload := packet[l.data:]
	j.pieces = append(j.pieces, payload)
	j.packets, j.octets, j.next = j.packets+1, j.octets+len(payload), j.next+uint32(len(payload))
	j.pushed = packet[l.transport+13]&tcpPSH != 0
	j.closed = j.pushed || len(payload) < j.segment || j.packets == maxJoined
	return true
}

func (j *Joiner) begin(packet []byte, l layout, joins bool) {
	j.first, j.packets, j.octets, j.layout = packet, 1, len(packet), l
	if !joins {
		j.closed = true
		return
	}
	j.segment = len(packet) - l.data
	j.next = binary.BigEndian.Uint32(packet[l.transport+4:]) + uint32(j.segment)
	j.closed = packet[l.transport+13]&tcpPSH != 0
}

// layoutOf reads a packet that may be joined with others: TCP behind a plain IP header, with payload and no flags but ACK
// and PSH.
func layoutOf(p []byte) (l layout, joins bool) {
	switch {
	case len(p) > ipv4Octets && p[0] == 0x45:
		if p[9] != protocolTCP || int(binary.BigEndian.Uint16(p[2:])) != len(p) || binary.BigEndian.Uint16(p[6:])&0x3fff != 0 {
			return l, false // MF or an offset make it a fragment
		}
		l.transport = ipv4Octets
	case len(p) > ipv6Octets && p[0]>>4 == 6:
		if p[6] != protocolTCP || int(binary.BigEndian.Uint16(p[4:])) != len(p)-ipv6Octets {
			return l, false
		}
		l.transport = ipv6Octets
	default:
		return l, false
	}
	if l.transport+tcpOctets > len(p) {
		return l, false
	}
	header := int(p[l.transport+12]>>4) * 4
	l.data = l.transport + header
	return l, header >= tcpOctets && l.data < len(p) && p[l.transport+13]&^tcpPSH == tcpACK
}

// follows reports whether a packet is the next segment behind those that are there.
func (j *Joiner) follows(p []byte, l layout) bool {
	first, payload := j.first, len(p)-l.data
	if l != j.layout || payload > j.segment || j.octets+payload > maxPacketOctets {
		return false
	}
	if l.transport == ipv4Octets {
		// Version to DSCP and ECN; flags to protocol; addresses. Where fragmentation is allowed, the numbers have to be those
		// that cutting gives again.
		number := binary.BigEndian.Uint16(first[4:]) + uint16(j.packets)
		if p[1] != first[1] || !bytes.Equal(p[6:10], first[6:10]) || !bytes.Equal(p[12:20], first[12:20]) || number != binary.BigEndian.Uint16(p[4:]) && p[6]&0x40 == 0 {
			return false
		}
	} else if !bytes.Equal(p[:4], first[:4]) || !bytes.Equal(p[6:40], first[6:40]) {
		return false
	}
	tcp, other := p[l.transport:l.data], first[l.transport:]
	return binary.BigEndian.Uint32(tcp[4:]) == j.next && bytes.Equal(tcp[:4], other[:4]) && bytes.Equal(tcp[8:13], other[8:13]) &&
		bytes.Equal(tcp[14:16], other[14:16]) && bytes.Equal(tcp[18:], other[18:len(tcp)])
}

// intact reports whether the checksums of a segment are right.
func intact(p []byte, l layout) bool {
	if l.transport == ipv4Octets && fold(sum(p[:ipv4Octets], 0)) != 0xffff {
		return false
	}
	return fold(sum(p[l.transport:], pseudoHeader(p, protocolTCP, len(p)-l.transport))) == 0xffff
}

// Frame is the frame to write to the TUN, in pieces that are valid until Reset. There is a packet in it.
func (j *Joiner) Frame() [][]byte {
	if j.packets == 1 {
		Vnet{}.put(j.head[:])
		j.pieces = append(j.pieces[:0], j.head[:VnetOctets], j.first)
		return j.pieces
	}
	l := j.layout
	header := append(j.head[:VnetOctets], j.first[:l.data]...)
	ip, tcp := header[VnetOctets:], header[VnetOctets+l.transport:]
	v := Vnet{
		flags: vnetNeedsChecksum, kind: gsoTCPv6, headerOctets: uint16(l.data), segmentOctets: uint16(j.segment),
		checksumStart: uint16(l.transport), checksumOffset: 16,
	}
	if l.transport == ipv4Octets {
		v.kind = gsoTCPv4
		binary.BigEndian.PutUint16(ip[2:], uint16(j.octets))
		ip[10], ip[11] = 0, 0
		putChecksum(ip[10:], sum(ip[:ipv4Octets], 0))
	} else {
		binary.BigEndian.PutUint16(ip[4:], uint16(j.octets-ipv6Octets))
	}
	if j.pushed {
		tcp[13] |= tcpPSH
	}
	binary.NativeEndian.PutUint16(tcp[16:], fold(pseudoHeader(ip, protocolTCP, j.octets-l.transport)))
	v.put(header)
	j.pieces[0] = header
	return j.pieces
}
