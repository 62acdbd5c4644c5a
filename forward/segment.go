// SPDX-License-Identifier: Apache-2.0

package forward

// GSO packets of TCP over IPv6, cut into their segments: what an interface does with them otherwise (RFC 9293 s.3.1).

import (
	"encoding/binary"
	"errors"
	"iter"
)

const (
	tcpHeaderOctets = 20
	tcpFIN          = 0x01
	tcpPSH          = 0x08
	tcpCWR          = 0x80
)

// ErrNotSegmentable says that a packet cannot be cut into segments.
var ErrNotSegmentable = errors.New("no TCP over IPv6 that can be cut into segments")

// Segments yields the segments of an IPv6 GSO packet, each with so many octets of payload but the last, checksums
// included. A segment is valid until the next.
func Segments(packet []byte, h *Header, payload int) (iter.Seq[[]byte], error) {
	if h.Family != 6 || h.Protocol != protocolTCP || h.Fragment || payload < 1 || len(packet) < h.PayloadOffset+tcpHeaderOctets {
		return nil, ErrNotSegmentable
	}
	data := h.PayloadOffset + int(packet[h.PayloadOffset+12]>>4)*4
	if data < h.PayloadOffset+tcpHeaderOctets || data > len(packet) {
		return nil, ErrNotSegmentable
	}
	return func(yield func([]byte) bool) {
		segment := make([]byte, 0, data+payload)
		for at := data; at < len(packet); at += payload {
			end := min(at+payload, len(packet))
			segment = append(append(segment[:0], packet[:data]...), packet[at:end]...)
			finishSegment(segment, h, at-data, end == len(packet))
			if !yield(segment) {
				return
			}
		}
	}, nil
}

// finishSegment makes the headers those of the segment that begins so many octets after the first.
func finishSegment(segment []byte, h *Header, offset int, last bool) {
	binary.BigEndian.PutUint16(segment[4:], uint16(len(segment)-ipv6HeaderOctets))
	tcp := segment[h.PayloadOffset:]
	binary.BigEndian.PutUint32(tcp[4:], binary.BigEndian.Uint32(tcp[4:])+uint32(offset))
	if !last {
		tcp[13] &^= tcpFIN | tcpPSH
	}
	if offset > 0 {
		tcp[13] &^= tcpCWR
	}
	tcp[16], tcp[17] = 0, 0
	binary.BigEndian.PutUint16(tcp[16:], ^fold(sum(tcp, pseudoHeaderSum(h.Source, h.Destination, protocolTCP, len(tcp)))))
}
