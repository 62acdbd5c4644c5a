// SPDX-License-Identifier: Apache-2.0

package forward

// What ICMP errors say about packets that a tunnel router sent to locators (RFC 9300 s.7.2, s.10): read here,
// believed elsewhere. Anybody can send them, so that what they quote matters: a forger has to know a flow and its
// EIDs.

import (
	"cmp"
	"encoding/binary"
	"net/netip"

	"loci/lisp"
	"loci/wire"
)

// leastIPv6MTU is what IPv6 asks of any link (RFC 8200 s.5).
const leastIPv6MTU = 1280

// OuterError is an ICMP error about an outer packet, and what it quotes of that packet.
type OuterError struct {
	Type, Code  uint8      // of ICMPv4 or ICMPv6, after the family of Source
	MTU         int        // octets of an outer packet that would fit; 0 when the error is another one
	Source      netip.Addr // of the outer packet
	Destination netip.Addr
	Port        uint16 // where it went
	From        uint16 // the port that it left from
	Instance    lisp.InstanceID
	Inner       Header // as far as it is quoted
	// Consistent says that the inner packet is quoted with its ports, and that the packet was longer than what is
	// said to fit.
	Consistent bool
}

// ParseOuterError reads an ICMP message, from its type on. False when it is none of Destination Unreachable, Packet
// Too Big and Time Exceeded, or quotes no UDP datagram.
func ParseOuterError(message []byte, family uint8) (e OuterError, ok bool) {
	if len(message) < icmpHeaderOctets {
		return e, false
	}
	e.Type, e.Code = message[0], message[1]
	if !e.readKind(message, family) {
		return e, false
	}
	quoted := message[icmpHeaderOctets:]
	outer, err := readHeader(quoted)
	if err != nil || outer.Family != family || outer.Protocol != protocolUDP || outer.FragmentOctets != 0 {
		return e, false
	}
	if outer.PayloadOffset < ipv4HeaderOctets || len(quoted) < outer.PayloadOffset+udpHeaderOctets {
		return e, false
	}
	udp := quoted[outer.PayloadOffset:]
	e.Source, e.Destination, e.Port = outer.Source, outer.Destination, binary.BigEndian.Uint16(udp[2:])
	e.From = binary.BigEndian.Uint16(udp)
	e.readInner(udp[udpHeaderOctets:])
	e.Consistent = e.Consistent && e.MTU < outer.Length
	return e, true
}

// farthestHop is how many hops a traceroute looks at; hosts send packets with a TTL of 64 and more.
const farthestHop = 32

// AgainstPath reports whether the error speaks against the path to the locator. A Time Exceeded tells of a loop, but
// of nothing where the packet was sent with few hops to go: the outer header has the TTL of the inner one, and a host
// of the site may well look for the routers on the way.
func (e *OuterError) AgainstPath() bool {
	exceeded := e.Type == icmpv4TimeExceeded
	if e.Destination.Is6() {
		exceeded = e.Type == icmpv6TimeExceeded
	}
	return e.MTU == 0 && (!exceeded || e.Inner.TTL > farthestHop)
}

// readKind reports whether the error is one of those that tell something of a path.
func (e *OuterError) readKind(message []byte, family uint8) bool {
	switch {
	case family == 4 && e.Type == icmpv4Unreachable && e.Code == icmpv4FragmentationNeeded:
		e.MTU = int(binary.BigEndian.Uint16(message[6:]))
		return e.MTU > 0 // RFC 1191 s.3: 0 is of routers that do not know
	case family == 6 && e.Type == icmpv6TooBig:
		e.MTU = int(min(binary.BigEndian.Uint32(message[4:]), 1<<16))
		return e.MTU >= leastIPv6MTU // RFC 8201 s.4: what says less is discarded
	case family == 4:
		return e.Type == icmpv4Unreachable || e.Type == icmpv4TimeExceeded
	}
	return e.Type == icmpv6Unreachable || e.Type == icmpv6TimeExceeded
}

// readInner reads what follows the UDP header.
func (e *OuterError) readInner(payload []byte) {
	header, inner, err := wire.ParseDataHeader(payload)
	if err != nil {
		return
	}
	if header.Instance {
		e.Instance = header.InstanceID
	}
	if e.Inner, err = readHeader(inner); err != nil {
		return
	}
	const portsOctets = 4
	if e.Inner.hasPorts() && len(inner) < e.Inner.PayloadOffset+portsOctets {
		return // the hash of the flow needs them
	}
	e.Consistent = true
}

// LeftFor reports whether the packet that a consistent error quotes left from the port that packets to a locator
// leave from, which is that of their flow where sourcePort is 0.
func (e *OuterError) LeftFor(sourcePort uint16) bool {
	return e.Consistent && e.From == cmp.Or(sourcePort, SourcePort(FlowHash(&e.Inner)))
}
