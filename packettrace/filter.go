// SPDX-License-Identifier: Apache-2.0

package packettrace

// The words that describe packets to `loci trace`: `in site0 src 10.1.0.5 dst 10.2.0.9 tcp dport 80`. They select packets
// that come by, and make one where none has to (RFC 9300 s.5.3 for the encapsulated ones).

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/forward"
	"loci/lisp"
)

// PacketFilter says which packets are meant; what is zero, or not valid, is left open.
type PacketFilter struct {
	Interface            string
	Leaves               bool // this host sends it by the interface
	VLAN                 int  // 802.1Q tag of the frame, 0 for none
	Source, Destination  netip.Prefix
	Protocol             int // -1: any
	SourcePort, Port     int // -1: any
	TTL, TOS, Octets     int // -1: any; TOS is DSCP and ECN, Octets the length of the IP packet
	DontFragment         bool
	OuterSource, OwnRLOC netip.Addr // valid: it is encapsulated
	Instance             int        // of the LISP header
}

// filterWords are the words with a value.
var filterWords = map[string]func(f *PacketFilter, value string) error{
	"in":    func(f *PacketFilter, v string) error { f.Interface, f.Leaves = v, false; return nil },
	"out":   func(f *PacketFilter, v string) error { f.Interface, f.Leaves = v, true; return nil },
	"vlan":  func(f *PacketFilter, v string) error { return setNumber(&f.VLAN, v, 4094) },
	"src":   func(f *PacketFilter, v string) error { return setPrefix(&f.Source, v) },
	"dst":   func(f *PacketFilter, v string) error { return setPrefix(&f.Destination, v) },
	"proto": func(f *PacketFilter, v string) error { return setNumber(&f.Protocol, v, 255) },
	"sport": func(f *PacketFilter, v string) error { return setNumber(&f.SourcePort, v, 65535) },
	"dport": func(f *PacketFilter, v string) error { return setNumber(&f.Port, v, 65535) },
	"ttl":   func(f *PacketFilter, v string) error { return setNumber(&f.TTL, v, 255) },
	"tos":   func(f *PacketFilter, v string) error { return setNumber(&f.TOS, v, 255) },
	"size":  func(f *PacketFilter, v string) error { return setNumber(&f.Octets, v, 65535) },
	"rloc":  func(f *PacketFilter, v string) error { return setAddress(&f.OuterSource, v) },
	"local": func(f *PacketFilter, v string) error { return setAddress(&f.OwnRLOC, v) },
	"iid":   func(f *PacketFilter, v string) error { return setNumber(&f.Instance, v, int(lisp.MaxInstanceID)) },
}

// filterProtocols are the words that are protocols.
var filterProtocols = map[string]int{"tcp": 6, "udp": 17, "icmp": 1, "icmp6": 58, "sctp": 132}

// ParsePacketFilter reads the words of a filter.
func ParsePacketFilter(words []string) (PacketFilter, error) {
	f := PacketFilter{Protocol: -1, SourcePort: -1, Port: -1, TTL: -1, TOS: -1, Octets: -1}
	for i := 0; i < len(words); i++ {
		word := strings.ToLower(words[i])
		if protocol, ok := filterProtocols[word]; ok {
			f.Protocol = protocol
			continue
		}
		if word == "df" {
			f.DontFragment = true
			continue
		}
		set, ok := filterWords[word]
		if !ok {
			return f, fmt.Errorf("filter: %q is not one of its words: in, out, vlan, src, dst, tcp, udp, icmp, icmp6, sctp, proto, sport, dport, ttl, tos, size, df, rloc, local, iid", words[i])
		}
		i++
		if i == len(words) {
			return f, fmt.Errorf("filter: %s wants a value behind it", word)
		}
		if err := set(&f, words[i]); err != nil {
			return f, fmt.Errorf("filter: %s %s: %w", word, words[i], err)
		}
	}
	return f, f.check()
}

func (f *PacketFilter) check() error {
	families := map[bool]bool{}
	for _, p := range []netip.Prefix{f.Source, f.Destination} {
		if p.IsValid() {
			families[p.Addr().Is4()] = true
		}
	}
	if len(families) > 1 {
		return errors.New("filter: src and dst are of different families")
	}
	return nil
}

func setPrefix(to *netip.Prefix, text string) error {
	if address, err := netip.ParseAddr(text); err == nil {
		*to = netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return errors.New("want an address or a prefix")
	}
	*to = prefix.Masked()
	return nil
}

func setAddress(to *netip.Addr, text string) error {
	address, err := netip.ParseAddr(text)
	if err != nil {
		return errors.New("want an address")
	}
	*to = address.Unmap()
	return nil
}

func setNumber(to *int, text string, most int) error {
	n, err := strconv.ParseUint(text, 0, 31)
	if err != nil || n > uint64(most) {
		return fmt.Errorf("want a number from 0 to %d", most)
	}
	*to = int(n)
	return nil
}

// matches reports whether a packet, encapsulated or not, is meant.
func (f *PacketFilter) matches(packet []byte) bool {
	h, err := forward.ParseHeader(packet)
	if err != nil {
		return false
	}
	if f.encapsulated() {
		if f.OuterSource.IsValid() && h.Source != f.OuterSource || f.OwnRLOC.IsValid() && h.Destination != f.OwnRLOC {
			return false
		}
		inner, reason := forward.ParseEncapsulated(packet)
		if reason != forward.DropNone || int(inner.Instance) != f.Instance {
			return false
		}
		h = inner.Header
	}
	within := func(p netip.Prefix, a netip.Addr) bool { return !p.IsValid() || p.Contains(a) }
	is := func(want, have int) bool { return want < 0 || want == have }
	return within(f.Source, h.Source) && within(f.Destination, h.Destination) && is(f.Protocol, int(h.Protocol)) &&
		is(f.SourcePort, int(h.Ports>>16)) && is(f.Port, int(h.Ports&0xffff)) && is(f.TTL, int(h.TTL)) &&
		is(f.TOS, int(h.TrafficClass)) && is(f.Octets, h.Length)
}

func (f *PacketFilter) encapsulated() bool { return f.OuterSource.IsValid() || f.OwnRLOC.IsValid() }

// packet makes a packet that the filter means. Source and destination must be single
// addresses; other open fields get the usual values.
func (f *PacketFilter) packet() ([]byte, error) {
	for name, p := range map[string]netip.Prefix{"src": f.Source, "dst": f.Destination} {
		if !p.IsValid() || !p.IsSingleIP() {
			return nil, fmt.Errorf("filter: %s: a packet has one address there; for those that come by, use --live", name)
		}
	}
	inner, err := f.plain()
	if err != nil || !f.encapsulated() {
		return inner, err
	}
	return f.encapsulate(inner)
}

// usual is a value, or the fallback where it is left open.
func usual(value, fallback int) int {
	if value < 0 {
		return fallback
	}
	return value
}

// plain makes the packet that hosts see.
func (f *PacketFilter) plain() ([]byte, error) {
	protocol := layers.IPProtocol(usual(f.Protocol, int(layers.IPProtocolUDP)))
	network, networkLayer := f.network(protocol)
	stack := []gopacket.SerializableLayer{networkLayer}
	switch protocol {
	case layers.IPProtocolUDP:
		udp := &layers.UDP{SrcPort: layers.UDPPort(usual(f.SourcePort, 49152)), DstPort: layers.UDPPort(usual(f.Port, 9))}
		stack = append(stack, udp)
		_ = udp.SetNetworkLayerForChecksum(network)
	case layers.IPProtocolTCP:
		tcp := &layers.TCP{SrcPort: layers.TCPPort(usual(f.SourcePort, 49152)), DstPort: layers.TCPPort(usual(f.Port, 80)), SYN: true, Window: 65535}
		stack = append(stack, tcp)
		_ = tcp.SetNetworkLayerForChecksum(network)
	case layers.IPProtocolICMPv4:
		stack = append(stack, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0)})
	}
	return f.serialize(stack)
}

// network makes the IP header.
func (f *PacketFilter) network(protocol layers.IPProtocol) (gopacket.NetworkLayer, gopacket.SerializableLayer) {
	source, destination := f.Source.Addr(), f.Destination.Addr()
	if source.Is4() {
		ip := &layers.IPv4{Version: 4, IHL: 5, TOS: uint8(usual(f.TOS, 0)), TTL: uint8(usual(f.TTL, 64)), Protocol: protocol,
			SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
		if f.DontFragment {
			ip.Flags = layers.IPv4DontFragment
		}
		return ip, ip
	}
	ip := &layers.IPv6{Version: 6, TrafficClass: uint8(usual(f.TOS, 0)), HopLimit: uint8(usual(f.TTL, 64)), NextHeader: protocol,
		SrcIP: source.AsSlice(), DstIP: destination.AsSlice()}
	return ip, ip
}

// serialize puts headers together, with as much payload as the size wants.
func (f *PacketFilter) serialize(stack []gopacket.SerializableLayer) ([]byte, error) {
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	buffer := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buffer, options, stack...); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	missing := f.Octets - len(buffer.Bytes())
	if f.Octets < 0 || missing == 0 {
		return buffer.Bytes(), nil
	}
	if missing < 0 {
		return nil, fmt.Errorf("filter: size %d: the headers alone have %d octets", f.Octets, len(buffer.Bytes()))
	}
	err := gopacket.SerializeLayers(buffer, options, append(stack, gopacket.Payload(make([]byte, missing)))...)
	return buffer.Bytes(), err
}

// encapsulate puts the packet behind the headers of an ITR.
func (f *PacketFilter) encapsulate(inner []byte) ([]byte, error) {
	if !f.OwnRLOC.IsValid() || !f.OuterSource.IsValid() || f.OwnRLOC.Is4() != f.OuterSource.Is4() {
		return nil, errors.New("filter: an encapsulated packet needs rloc, where it comes from, and local, our own RLOC, of one family")
	}
	h, err := forward.ParseHeader(inner)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	tunnel := forward.Tunnel{Source: lisp.RLOCFromAddr(f.OuterSource), Destination: lisp.RLOCFromAddr(f.OwnRLOC),
		Header: forward.DataHeader(lisp.InstanceID(f.Instance), 0)}
	out, reason := forward.Encapsulate(nil, inner, &h, &tunnel)
	if reason != forward.DropNone {
		return nil, fmt.Errorf("filter: the packet cannot be encapsulated: %s", reason)
	}
	return out, nil
}
