// SPDX-License-Identifier: Apache-2.0

package forward

// Stage 6: an Action is carried out (RFC 9300 s.5.1, s.5.2, s.5.3). Only this file writes headers of packets that are
// forwarded. Encapsulated they are
//
//	outer IPv4 or IPv6 | UDP, destination port 4341 | LISP header | inner packet
//
// The UDP checksum is 0 on both families (RFC 6935, RFC 6936), unless the locator has a
// source port. An outer IPv4 header has DF set and identification 0 (RFC 6864 s.4.1). Nothing here chooses a
// locator or looks at a path's MTU.

import (
	"cmp"
	"slices"

	"loci/lisp"
	"loci/wire"
)

// applyEncapsulation appends the encapsulated packet to dst. What varies comes into the LISP header now that the packet is
// certain to leave: an echo that is owed is paid by this.
func (x *XTR) applyEncapsulation(dst, packet []byte, o *Outcome, in Ingress) {
	t := o.Template
	if o.Varies != 0 {
		t.Header.NoncePresent, t.Header.Nonce = true, in.Nonce&0xffffff
	}
	if o.Varies&VariesHeader != 0 {
		x.composeHeader(&t.Header, x.Tables.Site(o.Instance, o.Header.Source), o.Entry, o.Locator.NextHop(), in.Now)
	}
	first := dst
	if o.Outer != nil {
		first = nil // dst is for the packet that leaves
	}
	sent, reason := Encapsulate(first, packet, &o.Header, &t)
	if reason == DropNone && o.Outer != nil {
		sent, reason = x.encapsulateAgain(dst, sent, o.Outer, in)
	}
	if reason != DropNone {
		o.Action = drop(reason)
		return
	}
	o.Packet = sent
	if in.Relayed {
		o.What = DoRelay
	}
}

// encapsulateAgain appends an encapsulated packet with the second layer to dst.
func (x *XTR) encapsulateAgain(dst, packet []byte, l *Layer, in Ingress) ([]byte, DropReason) {
	h, err := ParseHeader(packet)
	if err != nil {
		return dst, DropEncapsulationFailed
	}
	t := l.Template
	if l.Varies != 0 {
		t.Header.NoncePresent, t.Header.Nonce = true, in.Nonce&0xffffff
	}
	if l.Varies&VariesHeader != 0 {
		x.composeHeader(&t.Header, x.Tables.Site(0, h.Source), l.Entry, l.Locator.NextHop(), in.Now)
	}
	return Encapsulate(dst, packet, &h, &t)
}

// applyNatively appends a packet to dst that an RTR has no locator for, with one hop less to go.
func (o *Outcome) applyNatively(dst, packet []byte) {
	before := len(dst)
	o.Packet = append(dst, packet[:o.Header.Length]...)
	DecrementTTL(o.Packet[before:], &o.Header)
}

// applyDelivery takes the outer headers off. A packet that goes on has one hop less to go.
func (o *Outcome) applyDelivery(e *Encapsulated) {
	switch o.What {
	case DoDeliver, DoNatively:
		o.Packet = e.unwrap(e.ttl - 1)
	case DoLocal:
		o.Packet = e.unwrap(e.ttl)
	}
	o.Header, o.Instance = e.Header, e.Instance
	o.Notes |= e.Notes
}

// unwrap gives the inner packet its marks, in place.
func (e *Encapsulated) unwrap(ttl uint8) []byte {
	setMarks(e.Inner, &e.Header, ttl, e.class)
	return e.Inner
}

// Encapsulate appends the encapsulated packet to dst, whose memory must not
// overlap packet. Octets of packet beyond the length in its header are padding
// and stay behind. A packet that cannot be encapsulated leaves dst as it was.
func Encapsulate(dst, packet []byte, h *Header, t *Tunnel) ([]byte, DropReason) {
	switch {
	case t.Source.Is4() != t.Destination.Is4() || t.Source.IsZero() || t.Destination.IsZero():
		return dst, DropNoLocator
	case h.Length+Overhead(t.Destination) > outerMaxOctets(t.Destination):
		return dst, DropEncapsulationFailed
	case t.Forwarded && h.TTL == 0:
		return dst, DropTTLExpired
	}
	inner := *h
	if t.Forwarded {
		inner.TTL--
	}
	before := len(dst)
	dst = slices.Grow(dst, Overhead(t.Destination)+h.Length)
	dst = appendOuter(dst, &inner, t)
	dst, err := t.Header.AppendTo(dst)
	if err != nil {
		return dst[:before], DropEncapsulationFailed
	}
	start := len(dst)
	dst = append(dst, packet[:h.Length]...)
	setMarks(dst[start:], &inner, inner.TTL, h.TrafficClass)
	if t.SourcePort != 0 {
		putUDPChecksum(dst[start-udpHeaderOctets-wire.DataHeaderOctets:], t.Source.Addr(), t.Destination.Addr())
	}
	return dst, DropNone
}

const maxIPv4Octets = 65535

func outerMaxOctets(rloc lisp.RLOC) int {
	if rloc.Is6() {
		return maxIPv4Octets + ipv6HeaderOctets // the length field does not count the header
	}
	return maxIPv4Octets
}

// appendOuter appends the outer IP and UDP headers.
func appendOuter(dst []byte, inner *Header, t *Tunnel) []byte {
	hash := FlowHash(inner)
	return appendUDP(dst, ipFields{
		source: t.Source.Addr(), destination: t.Destination.Addr(), class: t.Marking.Outer(inner.TrafficClass), ttl: inner.TTL,
		payload: wire.DataHeaderOctets + inner.Length, dontFragment: true, label: FlowLabel(hash),
	}, cmp.Or(t.SourcePort, SourcePort(hash)), cmp.Or(t.Port, DataPort))
}

// setMarks writes TTL and traffic class into an IP packet of that header. It updates IPv4's checksum even where nothing
// changes: one of 0xFFFF becomes the 0 that it stands for.
func setMarks(packet []byte, h *Header, ttl, class uint8) {
	if h.Family == 4 {
		updateChecksum(packet[10:12], uint16(packet[1]), uint16(class))
		updateChecksum(packet[10:12], uint16(packet[8])<<8, uint16(ttl)<<8)
		packet[1], packet[8] = class, ttl
	} else {
		packet[0] = packet[0]&0xf0 | class>>4
		packet[1] = packet[1]&0x0f | class<<4
		packet[7] = ttl
	}
	h.TTL, h.TrafficClass = ttl, class
}

// DecrementTTL does what a router does to a packet it forwards. The TTL must be
// above 0.
func DecrementTTL(packet []byte, h *Header) { setMarks(packet, h, h.TTL-1, h.TrafficClass) }
