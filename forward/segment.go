// SPDX-License-Identifier: Apache-2.0

package forward

// GSO packets cut into their segments: what an interface does with them otherwise (RFC 9293 s.3.1, RFC 768).

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
var ErrNotSegmentable = errors.New("no TCP or UDP that can be cut into segments")

// segment says which part of a GSO packet one of its segments is.
type segment struct {
	number int // of those before it
	offset int // octets of payload before it
	last   bool
}

// Segments yields the segments of a GSO packet, each with so many octets of payload but the last, checksums included. A segment
// is valid until the next.
func Segments(packet []byte, h *Header, payload int) (iter.Seq[[]byte], error) {
	data, ok := segmentedFrom(packet, h)
	if !ok || payload < 1 {
		return nil, ErrNotSegmentable
	}
	return func(yield func([]byte) bool) {
		octets := make([]byte, 0, data+payload)
		for s := (segment{}); !s.last; s.number, s.offset = s.number+1, s.offset+payload {
			end := min(data+s.offset+payload, len(packet))
			s.last = end == len(packet)
			octets = append(append(octets[:0], packet[:data]...), packet[data+s.offset:end]...)
			s.finish(octets, h)
			if !yield(octets) {
				return
			}
		}
	}, nil
}

// segmentedFrom is where the payload of TCP or UDP begins.
func segmentedFrom(packet []byte, h *Header) (offset int, ok bool) {
	offset = h.PayloadOffset + udpHeaderOctets
	if h.Protocol == protocolTCP && len(packet) >= h.PayloadOffset+tcpHeaderOctets {
		offset = h.PayloadOffset + max(int(packet[h.PayloadOffset+12]>>4)*4, tcpHeaderOctets)
	} else if h.Protocol != protocolUDP {
		return 0, false
	}
	return offset, !h.Fragment && offset < len(packet)
}

// finish makes the headers those of the segment.
func (s segment) finish(octets []byte, h *Header) {
	if h.Family == 4 {
		binary.BigEndian.PutUint16(octets[2:], uint16(len(octets)))
		binary.BigEndian.PutUint16(octets[4:], binary.BigEndian.Uint16(octets[4:])+uint16(s.number))
		octets[10], octets[11] = 0, 0
		binary.BigEndian.PutUint16(octets[10:], Checksum(octets[:h.PayloadOffset]))
	} else {
		binary.BigEndian.PutUint16(octets[4:], uint16(len(octets)-ipv6HeaderOctets))
	}
	at := octets[h.PayloadOffset:]
	checksum := at[6:8]
	if h.Protocol == protocolTCP {
		s.finishTCP(at)
		checksum = at[16:18]
	} else {
		binary.BigEndian.PutUint16(at[4:], uint16(len(at)))
	}
	checksum[0], checksum[1] = 0, 0
	value := ^fold(sum(at, pseudoHeaderSum(h.Source, h.Destination, h.Protocol, len(at))))
	if value == 0 && h.Protocol == protocolUDP {
		value = 0xffff // 0 says that there is none
	}
	binary.BigEndian.PutUint16(checksum, value)
}

// finishTCP gives a segment its sequence number and flags.
func (s segment) finishTCP(tcp []byte) {
	binary.BigEndian.PutUint32(tcp[4:], binary.BigEndian.Uint32(tcp[4:])+uint32(s.offset))
	if !s.last {
		tcp[13] &^= tcpFIN | tcpPSH
	}
	if s.offset > 0 {
		tcp[13] &^= tcpCWR
	}
}
