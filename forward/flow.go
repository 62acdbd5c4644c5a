// SPDX-License-Identifier: Apache-2.0

package forward

// The flow of a packet. First its hash and what follows from it: the outer UDP source port (RFC 9300 s.5.3), the bucket
// that chooses the locator (RFC 9300 s.12), the outer IPv6 flow label (RFC 6438). The hash is defined in bpf/abi.h; the
// programs compute the same. Then flows that are bound to a path (dataplane/flows.go): a binding chooses among the
// locators of the packet's mapping; where it cannot, the hash does. Then the TCP packets by which connections that may
// be bound begin and end (RFC 8684). At last routers that stand on several paths of a mapping
// (dataplane/pathidentification.go): how a packet says which path it is on, and what it carries to the next router.
// Which flows are bound is the caller's to say. Nothing here changes a packet.

import (
	"encoding/binary"
	"net/netip"

	"loci/lisp"
)

// FlowHash hashes the 5-tuple of a packet; addresses and protocol alone when it
// is no TCP, UDP or SCTP or is a fragment.
func FlowHash(h *Header) uint32 {
	hash := hashAddress(0x4C495350, h.Source)
	hash = hashAddress(hash, h.Destination)
	hash = hashStep(hash, h.Ports)
	hash = hashStep(hash, uint32(h.Protocol))
	hash ^= hash >> 16
	hash *= 0x85EBCA6B
	hash ^= hash >> 13
	hash *= 0xC2B2AE35
	return hash ^ hash>>16
}

func hashStep(hash, word uint32) uint32 {
	hash ^= word
	hash *= 0x9E3779B1
	return hash ^ hash>>15
}

func hashAddress(hash uint32, a netip.Addr) uint32 {
	if a.Is4() {
		octets := a.As4()
		return hashStep(hash, binary.BigEndian.Uint32(octets[:]))
	}
	octets := a.As16()
	for i := 0; i < len(octets); i += 4 {
		hash = hashStep(hash, binary.BigEndian.Uint32(octets[i:]))
	}
	return hash
}

// SourcePort is the outer UDP source port of a flow: one of the dynamic ports,
// so that routers of the core spread flows over their paths.
func SourcePort(hash uint32) uint16 { return 0xC000 | uint16(hash&0x3FFF) }

// BucketOf is the flow's index into a bucket vector, made of bits that the
// source port does not use.
func BucketOf(hash uint32) int { return int(hash >> 14 & (BucketCount - 1)) }

// FlowLabel is the outer IPv6 flow label, 20 bits.
func FlowLabel(hash uint32) uint32 { return hash >> 12 }

// ---- flows that are bound ----

// Binding says what became of the binding of a packet's flow.
type Binding uint8

// What becomes of it.
const (
	Unbound      Binding = iota // the flow is not bound
	BindingIdle                 // its path is not in the mapping, or not usable: the hash chose
	BindingChose                // it chose the locator
)

var bindingNames = [...]string{Unbound: "unbound", BindingIdle: "idle", BindingChose: "bound"}

// String names it.
func (b Binding) String() string { return bindingNames[min(int(b), len(bindingNames)-1)] }

// Flow is the flow that a packet of that header belongs to; false for a fragment, which does not tell, and for
// IPv4-mapped IPv6 addresses, which a flow cannot tell from those of IPv4.
func (h *Header) Flow(instance lisp.InstanceID) (lisp.Flow, bool) {
	return lisp.Flow{
		Instance: instance, Source: lisp.EIDFromAddr(h.Source), Destination: lisp.EIDFromAddr(h.Destination),
		Protocol: h.Protocol, SourcePort: uint16(h.Ports >> 16), DestinationPort: uint16(h.Ports),
	}, !h.Fragment && !h.Source.Is4In6() && !h.Destination.Is4In6()
}

// LocatorBits is a set of locators by their index; MaxLocators fit.
type LocatorBits uint32

// Has reports whether the locator of that index is in the set.
func (b LocatorBits) Has(i int) bool { return b&(1<<i) != 0 }

// several reports whether the set has more than one locator.
func (b LocatorBits) several() bool { return b&(b-1) != 0 }

// UsableLocators are those that a binding may choose: that packets may be sent to, of whatever rank and priority, but
// for that which means never.
func UsableLocators(set lisp.LocatorSet, rank Rank) (usable LocatorBits) {
	for i := range set[:min(len(set), lisp.MaxLocators)] {
		may := set[i].Usable()
		if may && rank != nil {
			_, may = rank(&set[i])
		}
		if may {
			usable |= 1 << i
		}
	}
	return usable
}

// bound returns the usable locator of that path.
func (e *Entry) bound(path lisp.Path) (lisp.Locator, bool) {
	for i := range e.Locators {
		if e.Usable.Has(i) && e.Locators[i].Path() == path {
			return e.Locators[i], true
		}
	}
	return lisp.Locator{}, false
}

// chooseLocator returns the locator that a packet's flow takes: that of its binding, else by its hash; false when there
// is none.
func (o *Outcome) chooseLocator(t Tables) (lisp.Locator, bool) {
	if flow, ok := o.Header.Flow(o.Instance); ok {
		if path, bound := t.BoundPath(flow); bound {
			o.Binding = BindingIdle
			if locator, ok := o.Entry.bound(path); ok {
				o.Binding = BindingChose
				return locator, true
			}
		}
	}
	return SelectLocator(o.Entry.Locators, &o.Entry.Buckets, FlowHash(&o.Header))
}

// Flags and options of TCP (RFC 9293 s.3.1), with that of Multipath TCP (RFC 8684 s.3).
const (
	tcpSYN = 0x02
	tcpRST = 0x04

	tcpOptionEnd       = 0
	tcpOptionNone      = 1
	tcpOptionMultipath = 30
)

// noteSubflow notes that a packet between EIDs that goes on begins or ends a connection that may be bound; isWanted
// says whether a beginning counts.
func (o *Outcome) noteSubflow(t Tables, packet []byte, isWanted bool) {
	tcp := subflowHeader(packet, &o.Header)
	flow, ok := o.Header.Flow(o.Instance)
	if tcp == nil || !ok {
		return
	}
	begins := tcp[13]&tcpSYN != 0 && isWanted && isMultipath(tcp[tcpHeaderOctets:])
	if begins || tcp[13]&(tcpFIN|tcpRST) != 0 && isBound(t, flow) {
		o.Subflow = tcp
	}
}

// noteSubflowTowardsCore is noteSubflow for a packet that leaves by a mapping. Beginnings count where the packet comes
// from an EID of the site and a binding has locators to choose from.
func (o *Outcome) noteSubflowTowardsCore(t Tables, packet []byte) {
	if o.What == DoEncapsulate || o.What == DoRelay {
		o.noteSubflow(t, packet, !o.Relayed && !o.Proxied && o.Entry.Usable.several())
	}
}

// hasSYN reports whether a packet is TCP with SYN. A host repeats one that is not answered.
func hasSYN(packet []byte, h *Header) bool {
	flags := h.PayloadOffset + 13
	return h.Protocol == protocolTCP && !h.Fragment && flags < min(h.Length, len(packet)) &&
		packet[flags]&tcpSYN != 0
}

// subflowHeader is the TCP header of a packet that may be a beginning or an end; nil for others, and where a length in
// it does not fit the packet.
func subflowHeader(packet []byte, h *Header) []byte {
	if h.Protocol != protocolTCP || h.Fragment {
		return nil
	}
	length := min(h.Length, len(packet))
	tcp := packet[min(h.PayloadOffset, length):length]
	if len(tcp) < tcpHeaderOctets || tcp[13]&(tcpFIN|tcpSYN|tcpRST) == 0 {
		return nil
	}
	octets := int(tcp[12]>>4) * 4
	if octets < tcpHeaderOctets || octets > len(tcp) {
		return nil
	}
	return tcp[:octets:octets]
}

// isBound reports whether a flow is bound, or its other direction.
func isBound(t Tables, flow lisp.Flow) bool {
	_, bound := t.BoundPath(flow)
	if !bound {
		_, bound = t.BoundPath(flow.Reverse())
	}
	return bound
}

// isMultipath reports whether TCP options have one of Multipath TCP. Options behind one whose length is wrong are not
// looked at.
func isMultipath(options []byte) bool {
	for len(options) > 0 {
		octets := 1
		switch {
		case options[0] == tcpOptionEnd:
			return false
		case options[0] == tcpOptionNone:
		case len(options) < 2 || options[1] < 2 || int(options[1]) > len(options):
			return false
		case options[0] == tcpOptionMultipath:
			return true
		default:
			octets = int(options[1])
		}
		options = options[octets:]
	}
	return false
}

// ---- paths that packets are on ----

// PathIdentification says how a packet tells which path of a mapping it is on. The numbers are those of
// dataplane.PathIdentification.
type PathIdentification uint8

// What a router does about it.
const (
	PathsUnidentified PathIdentification = iota // nothing
	PathsNumbered                               // writes the number of the path in place of an Instance-ID of 0
	PathsByNumber                               // an RTR: the same, and goes by it
	PathsBySource                               // an RTR: goes by the outer source
)

// OnPath is what a packet from the core says of the path that it is on.
type OnPath struct {
	Number uint8      // in place of an Instance-ID of 0; 0: none
	Source netip.Addr // the outer one
}

// readNumber takes an Instance-ID that can be the number of a path for one.
func (p PathIdentification) readNumber(e *Encapsulated) {
	if p == PathsByNumber && e.Instance >= 1 && e.Instance <= lisp.MaxLocators {
		e.Number, e.Instance = uint8(e.Instance), 0
	}
}

// unlessNumbered drops a packet that is not relayed and has the number of a path: the router before the last hop
// writes the Instance-ID.
func (e *Encapsulated) unlessNumbered() DropReason {
	if e.Number != 0 {
		return DropEIDNotInDatabase
	}
	return DropNone
}

// identify returns the locator of the path that a relayed packet is on, where a binding may choose it; false where the
// packet is to go as one that names none.
func (o *Outcome) identify(t Tables, by PathIdentification, in Ingress) (lisp.Locator, bool) {
	if by < PathsByNumber || !in.Relayed || !in.On.Source.IsValid() {
		return lisp.Locator{}, false
	}
	at, stands := -1, false
	if by == PathsByNumber {
		at, stands = o.Entry.byNumber(t, in.On.Number)
	} else {
		at, stands = o.Entry.bySource(t, in.On.Source)
	}
	if at >= 0 && o.Entry.Usable.Has(at) {
		return o.Entry.Locators[at], true
	}
	if stands || in.On.Number != 0 {
		o.Notes |= NotePathUnidentified
	}
	return lisp.Locator{}, false
}

// byNumber is the place of the path of that number, -1 where this router does not stand on it, and whether it stands
// on any.
func (e *Entry) byNumber(t Tables, number uint8) (at int, stands bool) {
	at = -1
	for i := range e.Locators {
		if placeOn(t, &e.Locators[i]) < 0 {
			continue
		}
		stands = true
		if i+1 == int(number) {
			at = i
		}
	}
	return at, stands
}

// bySource is the place of the path that has the source before this router; without one, that of the first path that
// begins here and packets can take. -1: there is none. The other result is byNumber's.
func (e *Entry) bySource(t Tables, source netip.Addr) (at int, stands bool) {
	at = -1
	for i := range e.Locators {
		place := placeOn(t, &e.Locators[i])
		if place < 0 {
			continue
		}
		stands = true
		path := e.Locators[i].Path()
		switch {
		case place > 0 && path.Hop(place-1).Addr() == source:
			return i, true
		case place == 0 && at < 0 && e.Usable.Has(i):
			at = i
		}
	}
	return at, stands
}

// placeOn is which hop of a locator's path this router is, the first of several, before the hop that it sends to; -1
// where it is none.
func placeOn(t Tables, l *lisp.Locator) int {
	path := l.Path()
	for i := range min(int(l.Next), path.Len()-1) {
		if t.IsLocalRLOC(path.Hop(i).Addr()) {
			return i
		}
	}
	return -1
}

// namedSource is the address that an RTR sends to a locator from: that by which the path names it last, if it is of
// the next hop's family.
func (p PathIdentification) namedSource(t Tables, l *lisp.Locator, source lisp.RLOC) lisp.RLOC {
	if p < PathsByNumber || source.IsZero() {
		return source
	}
	path := l.Path()
	for i := min(int(l.Next), path.Len()-1) - 1; i >= 0; i-- {
		if hop := path.Hop(i); hop.Is4() == source.Is4() && t.IsLocalRLOC(hop.Addr()) {
			return hop.WithPort(0)
		}
	}
	return source
}

// instanceOnWire is what packets of an Instance-ID to a locator carry in its place: the number of the path, until the
// last hop.
func (p PathIdentification) instanceOnWire(of *Entry, l *lisp.Locator, instance lisp.InstanceID) lisp.InstanceID {
	numbers := p == PathsNumbered || p == PathsByNumber
	if !numbers || instance != 0 || l.IsSentToLast() {
		return instance
	}
	for i := range of.Locators {
		if of.Locators[i].IsSame(l) {
			return lisp.InstanceID(i + 1)
		}
	}
	return instance
}
