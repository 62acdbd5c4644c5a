// SPDX-License-Identifier: Apache-2.0

package wire

// The IP packet inside an ECM: an IPv4 (RFC 791) or IPv6 (RFC 8200) header and a
// UDP header around one control message. RFC 9301 s.5.8: the UDP checksum is
// there and right, neither port is 4341, and no ECM is inside.
//
// IPv6 extension headers and fragments are refused: no control message needs
// them, and a relay would have to look behind them.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"loci/lisp"
)

// InnerPacket is the IP packet inside an ECM.
type InnerPacket struct {
	Source, Destination netip.AddrPort // one family, no zones
	TTL                 uint8          // or hop limit; AppendTo sends 0 as DefaultInnerTTL
	TrafficClass        uint8          // DSCP and ECN
	FlowLabel           uint32         // IPv6 only, 20 bits
	Identification      uint16         // IPv4 only
	DontFragment        bool           // IPv4 only
	Options             []byte         // IPv4 only, whole 4-octet words, at most 40 octets
	Message             []byte         // the control message, still encoded
}

// ParseInner reads what stands behind the LISP header of a data packet of lisp.ControlInstanceID. The packet does not
// refer to b afterwards. The error is a *ParseError.
func (p Parser) ParseInner(b []byte) (InnerPacket, error) {
	r := newReader("control message in data", b)
	r.acceptZeroChecksum = p.AcceptZeroInnerChecksum
	var inner InnerPacket
	inner.parse(r, nil)
	return inner, r.err
}

// AppendControlInData appends a LISP header of lisp.ControlInstanceID, and behind it a control message with its IP and
// UDP headers.
func AppendControlInData(b []byte, source, destination netip.AddrPort, message []byte) ([]byte, error) {
	out, err := DataHeader{Instance: true, InstanceID: lisp.ControlInstanceID}.AppendTo(b)
	if err != nil {
		return b, err
	}
	inner := InnerPacket{Source: source, Destination: destination, Message: message}
	if out, err = inner.appendTo(out); err != nil {
		return b, fmt.Errorf("control message in data: %w", err)
	}
	return out, nil
}

// DefaultInnerTTL is the TTL of inner packets whose TTL field is 0.
const DefaultInnerTTL = 64

const (
	ipv4HeaderOctets  = 20
	ipv4MaxOptions    = 40
	ipv6HeaderOctets  = 40
	udpHeaderOctets   = 8
	ipv4DontFragment  = 0x4000
	ipv4FragmentMask  = 0x3fff // more fragments, and the offset
	ipv6FlowLabelMask = 0xfffff
)

// MessageType is the type nibble of the inner message, 0 when it is empty.
func (p *InnerPacket) MessageType() MessageType {
	if len(p.Message) == 0 {
		return 0
	}
	return MessageType(p.Message[0] >> 4)
}

// parse reads the packet; its message is copied into the room, where that is enough.
func (p *InnerPacket) parse(r *reader, room []byte) {
	var source, destination netip.Addr
	if r.failed() {
		return
	}
	if r.remaining() == 0 {
		r.fail("inner IP header", ReasonTruncated, "")
		return
	}
	switch version := r.data[r.at] >> 4; version {
	case 4:
		source, destination = p.parseIPv4(r)
	case 6:
		source, destination = p.parseIPv6(r)
	default:
		r.fail("inner IP version", ReasonBadValue, fmt.Sprintf("%d", version))
	}
	p.parseUDP(r, source, destination, room)
}

func (p *InnerPacket) parseIPv4(r *reader) (source, destination netip.Addr) {
	start := r.at
	header := r.take(ipv4HeaderOctets, "inner IPv4 header")
	if header == nil {
		return source, destination
	}
	headerOctets := int(header[0]&0xf) * 4
	if headerOctets < ipv4HeaderOctets {
		r.failAt(start, "inner IHL", ReasonBadLength, fmt.Sprintf("%d octets", headerOctets))
	}
	p.Options = r.copied(headerOctets-ipv4HeaderOctets, "inner IPv4 options")
	fragment := binary.BigEndian.Uint16(header[6:])
	p.TrafficClass, p.Identification, p.TTL = header[1], binary.BigEndian.Uint16(header[4:]), header[8]
	p.DontFragment = fragment&ipv4DontFragment != 0
	switch {
	case r.failed():
	case headerChecksum(r.data[start:r.at]) != 0:
		r.failAt(start+10, "inner IPv4 checksum", ReasonBadChecksum, "")
	case fragment&ipv4FragmentMask != 0:
		r.failAt(start+6, "inner fragment offset", ReasonFragment, "")
	case header[9] != protocolUDP:
		r.failAt(start+9, "inner protocol", ReasonNotUDP, fmt.Sprintf("%d", header[9]))
	}
	p.limit(r, start+2, int(binary.BigEndian.Uint16(header[2:]))-headerOctets)
	return netip.AddrFrom4([4]byte(header[12:])), netip.AddrFrom4([4]byte(header[16:]))
}

func (p *InnerPacket) parseIPv6(r *reader) (source, destination netip.Addr) {
	start := r.at
	header := r.take(ipv6HeaderOctets, "inner IPv6 header")
	if header == nil {
		return source, destination
	}
	word := binary.BigEndian.Uint32(header)
	p.TrafficClass, p.FlowLabel, p.TTL = uint8(word>>20), word&ipv6FlowLabelMask, header[7]
	if header[6] != protocolUDP {
		r.failAt(start+6, "inner next header", ReasonNotUDP, fmt.Sprintf("%d", header[6]))
	}
	p.limit(r, start+4, int(binary.BigEndian.Uint16(header[4:])))
	return netip.AddrFrom16([16]byte(header[8:])), netip.AddrFrom16([16]byte(header[24:]))
}

// limit checks what the IP header says about the length of what follows it.
func (p *InnerPacket) limit(r *reader, lengthAt, payloadOctets int) {
	if payloadOctets < 0 || payloadOctets > r.remaining() {
		r.failAt(lengthAt, "inner IP length", ReasonBadLength, fmt.Sprintf("%d octets of payload, %d left", payloadOctets, r.remaining()))
		return
	}
	r.end = r.at + payloadOctets
}

func (p *InnerPacket) parseUDP(r *reader, source, destination netip.Addr, room []byte) {
	start := r.at
	header := r.take(udpHeaderOctets, "inner UDP header")
	if header == nil {
		return
	}
	p.Source = netip.AddrPortFrom(source, binary.BigEndian.Uint16(header))
	p.Destination = netip.AddrPortFrom(destination, binary.BigEndian.Uint16(header[2:]))
	length := int(binary.BigEndian.Uint16(header[4:]))
	switch {
	case length != udpHeaderOctets+r.remaining():
		r.failAt(start+4, "inner UDP length", ReasonBadLength, fmt.Sprintf("%d, but %d octets", length, udpHeaderOctets+r.remaining()))
	case p.Source.Port() == DataPort || p.Destination.Port() == DataPort:
		r.failAt(start, "inner UDP port", ReasonForbiddenPort, "")
	default:
		p.checkUDPChecksum(r, start, r.data[start:r.end])
	}
	p.Message = slices.Clip(append(room, r.take(r.remaining(), "inner message")...))
	if p.MessageType() == TypeEncapsulatedControlMessage {
		r.failAt(start+udpHeaderOctets, "inner message", ReasonNestedECM, "")
	}
	r.end = len(r.data) // what follows the inner packet is trailing
}

func (p *InnerPacket) checkUDPChecksum(r *reader, start int, segment []byte) {
	if binary.BigEndian.Uint16(segment[6:]) == 0 {
		if !r.acceptZeroChecksum {
			r.failAt(start+6, "inner UDP checksum", ReasonZeroChecksum, "")
		}
		return
	}
	if !VerifyUDPChecksum(p.Source.Addr(), p.Destination.Addr(), segment) {
		r.failAt(start+6, "inner UDP checksum", ReasonBadChecksum, "")
	}
}

func (p *InnerPacket) appendTo(b []byte) ([]byte, error) {
	if err := p.check(); err != nil {
		return b, err
	}
	udpOctets := udpHeaderOctets + len(p.Message)
	if p.Source.Addr().Is4() {
		b = p.appendIPv4(b, udpOctets)
	} else {
		b = p.appendIPv6(b, udpOctets)
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, p.Source.Port())
	b = binary.BigEndian.AppendUint16(b, p.Destination.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(udpOctets))
	b = append(append(b, 0, 0), p.Message...)
	segment := b[start:]
	binary.BigEndian.PutUint16(segment[6:], UDPChecksum(p.Source.Addr(), p.Destination.Addr(), segment))
	return b, nil
}

func (p *InnerPacket) check() error {
	s, d := p.Source.Addr(), p.Destination.Addr()
	switch {
	case !s.IsValid() || !d.IsValid() || s.Is4() != d.Is4():
		return fmt.Errorf("inner addresses %s and %s: want two of one family", s, d)
	case p.Source.Port() == DataPort || p.Destination.Port() == DataPort:
		return fmt.Errorf("inner port %d is the data port", DataPort)
	case len(p.Options) > ipv4MaxOptions || len(p.Options)%4 != 0:
		return fmt.Errorf("%d octets of IPv4 options: want whole words, at most %d octets", len(p.Options), ipv4MaxOptions)
	case !s.Is4() && (len(p.Options) > 0 || p.FlowLabel > ipv6FlowLabelMask):
		return fmt.Errorf("IPv4 options or a flow label beyond 20 bits in an IPv6 header")
	case ipv4HeaderOctets+len(p.Options)+udpHeaderOctets+len(p.Message) > math.MaxUint16:
		return fmt.Errorf("inner message of %d octets does not fit an IP packet", len(p.Message))
	case p.MessageType() == TypeEncapsulatedControlMessage:
		return fmt.Errorf("an ECM inside an ECM")
	}
	return nil
}

func (p *InnerPacket) ttl() uint8 {
	if p.TTL == 0 {
		return DefaultInnerTTL
	}
	return p.TTL
}

func (p *InnerPacket) appendIPv4(b []byte, udpOctets int) []byte {
	start := len(b)
	headerOctets := ipv4HeaderOctets + len(p.Options)
	source, destination := p.Source.Addr().As4(), p.Destination.Addr().As4()
	b = append(b, 4<<4|uint8(headerOctets/4), p.TrafficClass)
	b = binary.BigEndian.AppendUint16(b, uint16(headerOctets+udpOctets))
	b = binary.BigEndian.AppendUint16(b, p.Identification)
	b = binary.BigEndian.AppendUint16(b, bit16(p.DontFragment, ipv4DontFragment))
	b = append(b, p.ttl(), protocolUDP, 0, 0)
	b = append(append(b, source[:]...), destination[:]...)
	b = append(b, p.Options...)
	binary.BigEndian.PutUint16(b[start+10:], headerChecksum(b[start:]))
	return b
}

func (p *InnerPacket) appendIPv6(b []byte, udpOctets int) []byte {
	source, destination := p.Source.Addr().As16(), p.Destination.Addr().As16()
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(p.TrafficClass)<<20|p.FlowLabel)
	b = binary.BigEndian.AppendUint16(b, uint16(udpOctets))
	b = append(b, protocolUDP, p.ttl())
	return append(append(b, source[:]...), destination[:]...)
}

// Equal reports whether both packets say the same.
func (p *InnerPacket) Equal(o *InnerPacket) bool {
	return p.Source == o.Source && p.Destination == o.Destination && p.ttl() == o.ttl() && p.TrafficClass == o.TrafficClass &&
		p.FlowLabel == o.FlowLabel && p.Identification == o.Identification && p.DontFragment == o.DontFragment &&
		bytes.Equal(p.Options, o.Options) && bytes.Equal(p.Message, o.Message)
}
