// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/internal/golden"
	"loci/lisp"
)

// twoPaths is the golden router with mappings of two locators and more for both families, and all flags of its own off.
func twoPaths(t testing.TB) (*XTR, *goldenTables) {
	t.Helper()
	table, err := golden.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	tables := newGoldenTables(t, table.Router)
	tables.bound = map[lisp.Flow]lisp.Path{}
	for _, prefix := range []string{"10.2.0.0/24", "2001:db8:2::/64"} {
		tables.put(t, prefix, twoLocators())
	}
	return &XTR{Tables: tables, Memory: &Memory{}, Subflows: true}, tables
}

// twoLocators are one that all flows take by their hash, one of a worse priority, one that is never used.
func twoLocators() []lisp.Locator {
	return []lisp.Locator{
		{RLOC: rlocFrom("192.0.2.2"), Priority: 1, Weight: 100, Reachable: true},
		{RLOC: rlocFrom("192.0.2.3"), Priority: 2, Weight: 100, Reachable: true},
		{RLOC: rlocFrom("192.0.2.4"), Priority: 255, Reachable: true},
	}
}

func (g *goldenTables) put(t testing.TB, prefix string, locators []lisp.Locator) {
	t.Helper()
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		t.Fatal(err)
	}
	p := lisp.MustParsePrefix(prefix)
	g.entries[p] = &Entry{Locators: set, Buckets: Buckets(set, nil), Usable: UsableLocators(set, nil),
		Prefix: p.Netip()}
}

// tcpPacket is a TCP packet with options that fill whole words.
func tcpPacket(t testing.TB, from, to netip.Addr, flags func(*layers.TCP), options ...byte) []byte {
	t.Helper()
	tcp := &layers.TCP{SrcPort: 40000, DstPort: 443, Window: 100}
	flags(tcp)
	source, destination, at := from.AsSlice(), to.AsSlice(), ipv6HeaderOctets
	var network gopacket.SerializableLayer = &layers.IPv6{
		Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: source, DstIP: destination,
	}
	if from.Is4() {
		network = &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: source,
			DstIP: destination}
		at = ipv4HeaderOctets
	}
	buffer, fix := gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{FixLengths: true}
	payload := gopacket.Payload(append(bytes.Clone(options), "data"...))
	if err := gopacket.SerializeLayers(buffer, fix, network, tcp, payload); err != nil {
		t.Fatal(err)
	}
	packet := buffer.Bytes()
	packet[at+12] = byte(tcpHeaderOctets+len(options)) / 4 << 4
	return packet
}

func syn(tcp *layers.TCP)  { tcp.SYN = true }
func ack(tcp *layers.TCP)  { tcp.ACK = true }
func fin(tcp *layers.TCP)  { tcp.FIN, tcp.ACK = true, true }
func rst(tcp *layers.TCP)  { tcp.RST = true }
func both(tcp *layers.TCP) { tcp.SYN, tcp.ACK = true, true }

var (
	multipathCapable = []byte{30, 4, 0x01, 0x81}
	withOthers       = []byte{2, 4, 5, 0xb4, 1, 1, 4, 2, 30, 12, 0x10, 0, 1, 2, 3, 4, 5, 6, 7, 8}
)

func flowOf(t testing.TB, packet []byte) lisp.Flow {
	t.Helper()
	h := mustHeader(t, packet)
	flow, ok := h.Flow(0)
	if !ok {
		t.Fatalf("no flow of %x", packet)
	}
	return flow
}

// TestBindingChooses among the usable locators of the mapping, those of a worse priority with them; else the hash does.
func TestBindingChooses(t *testing.T) {
	x, tables := twoPaths(t)
	for _, pair := range [][2]netip.Addr{{host4, remote4}, {host6, remote6}} {
		packet := tcpPacket(t, pair[0], pair[1], ack)
		flow := flowOf(t, packet)
		for _, c := range []struct {
			name, path string
			down       lisp.RLOC
			binding    Binding
			to         string
		}{
			{"best", "192.0.2.2", lisp.RLOC{}, BindingChose, "192.0.2.2"},
			{"worse priority", "192.0.2.3", lisp.RLOC{}, BindingChose, "192.0.2.3"},
			{"priority 255", "192.0.2.4", lisp.RLOC{}, BindingIdle, "192.0.2.2"},
			{"not in the mapping", "192.0.2.9", lisp.RLOC{}, BindingIdle, "192.0.2.2"},
			{"down", "192.0.2.3", rlocFrom("192.0.2.3"), BindingIdle, "192.0.2.2"},
			{"not bound", "", lisp.RLOC{}, Unbound, "192.0.2.2"},
		} {
			clear(tables.bound)
			if c.path != "" {
				tables.bound[flow] = lisp.PathTo(rlocFrom(c.path))
			}
			for _, e := range tables.entries {
				e.Usable = UsableLocators(e.Locators,
					func(l *lisp.Locator) (int, bool) { return 0, l.RLOC != c.down })
			}
			o := x.Outbound(nil, packet, Ingress{Now: goldenNow})
			if o.What != DoEncapsulate || o.Binding != c.binding || o.SentTo() != rlocFrom(c.to) {
				t.Errorf("%s, %s: %s %s to %s, %s; want %s, %s",
					flow, c.name, o.What, o.Reason, o.SentTo(), o.Binding, c.to, c.binding)
			}
		}
	}
}

// TestFragmentsAreUnbound: which flow a fragment belongs to it does not tell.
func TestFragmentsAreUnbound(t *testing.T) {
	x, tables := twoPaths(t)
	packet := tcpPacket(t, host4, remote4, ack)
	packet[6] = 0x20 // more fragments
	packet[10], packet[11] = 0, 0
	flow := lisp.Flow{Source: lisp.EIDFromAddr(host4), Destination: lisp.EIDFromAddr(remote4),
		Protocol: protocolTCP}
	tables.bound[flow] = lisp.PathTo(rlocFrom("192.0.2.3"))
	if o := x.Outbound(nil, packet, Ingress{Now: goldenNow}); o.What != DoEncapsulate || o.Binding != Unbound {
		t.Errorf("%s %s, %s; want it unbound", o.What, o.Reason, o.Binding)
	}
}

// TestSubflows: which packets begin or end connections that may be bound.
func TestSubflows(t *testing.T) {
	x, tables := twoPaths(t)
	tables.put(t, "10.3.0.0/24", twoLocators()[:1])
	tables.put(t, "10.4.0.0/24", []lisp.Locator{twoLocators()[0], twoLocators()[2]})
	one, unused := netip.MustParseAddr("10.3.0.1"), netip.MustParseAddr("10.4.0.1")
	for _, c := range []struct {
		name     string
		from, to netip.Addr
		flags    func(*layers.TCP)
		options  []byte
		bound    int // 1: the flow is, -1: its other direction is
		want     bool
	}{
		{"plain SYN", host4, remote4, syn, []byte{2, 4, 5, 0xb4}, 0, false},
		{"SYN of Multipath TCP", host4, remote4, syn, multipathCapable, 0, true},
		{"with other options", host4, remote4, syn, withOthers, 0, true},
		{"SYN/ACK", host4, remote4, both, withOthers, 0, true},
		{"IPv6", host6, remote6, syn, withOthers, 0, true},
		{"one locator", host4, one, syn, multipathCapable, 0, false},
		{"one usable locator", host4, unused, syn, multipathCapable, 0, false},
		{"data of Multipath TCP", host4, remote4, ack, multipathCapable, 1, false},
		{"from the core", remote4, host4, syn, multipathCapable, 0, true},
		{"from the core, SYN/ACK", remote4, host4, both, multipathCapable, 0, true},
		{"from the core, plain", remote4, host4, syn, nil, 0, false},
		{"FIN of a flow that is not bound", host4, remote4, fin, nil, 0, false},
		{"FIN", host4, remote4, fin, nil, 1, true},
		{"FIN of the other direction", host4, remote4, fin, nil, -1, true},
		{"RST", host6, remote6, rst, nil, 1, true},
		{"RST of the other direction", host6, remote6, rst, nil, -1, true},
		{"FIN from the core", remote4, host4, fin, nil, -1, true},
		{"FIN from the core, not bound", remote4, host4, fin, nil, 0, false},
	} {
		packet := tcpPacket(t, c.from, c.to, c.flags, c.options...)
		flow := flowOf(t, packet)
		clear(tables.bound)
		switch c.bound {
		case 1:
			tables.bound[flow] = lisp.PathTo(rlocFrom("192.0.2.9"))
		case -1:
			tables.bound[flow.Reverse()] = lisp.PathTo(rlocFrom("192.0.2.9"))
		}
		for _, on := range []bool{true, false} {
			x.Subflows = on
			o := passThrough(t, x, packet)
			if (o.Subflow != nil) != (c.want && on) {
				t.Errorf("%s, subflows %t: %s %s, header %x, want one: %t", c.name, on, o.What,
					o.Reason, o.Subflow, c.want && on)
			}
			if o.Subflow != nil && len(o.Subflow) != tcpHeaderOctets+len(c.options) {
				t.Errorf("%s: a header of %d octets with %d of options", c.name, len(o.Subflow),
					len(c.options))
			}
		}
	}
}

// passThrough leads a packet through the stages: from the core where it is for an EID of the site.
func passThrough(t testing.TB, x *XTR, packet []byte) Outcome {
	t.Helper()
	h := mustHeader(t, packet)
	if x.Tables.InDatabase(0, h.Destination) {
		return x.Inbound(nil, wrapped(t, packet, 0, 64), Ingress{Now: goldenNow})
	}
	return x.Outbound(nil, packet, Ingress{Now: goldenNow})
}

// TestSubflowsOfRelays: what a relay or a PITR passes on begins nothing, and ends what is bound.
func TestSubflowsOfRelays(t *testing.T) {
	x := relay(t, 1)
	_, tables := twoPaths(t)
	x.Tables, x.Subflows = tables, true
	other := netip.MustParseAddr("10.9.0.1")
	begin, end := tcpPacket(t, other, remote4, syn, multipathCapable...), tcpPacket(t, other, remote4, fin)
	tables.bound[flowOf(t, end)] = lisp.PathTo(rlocFrom("192.0.2.3"))
	for _, way := range []struct {
		name string
		wrap func([]byte) []byte
		what What
	}{
		{"relay", func(p []byte) []byte { return wrapped(t, p, 0, 64) }, DoRelay},
		{"PITR", bytes.Clone, DoEncapsulate},
	} {
		for _, c := range []struct {
			packet []byte
			want   bool
		}{{begin, false}, {end, true}} {
			o := x.Inbound(nil, way.wrap(c.packet), Ingress{Now: goldenNow})
			if o.What != way.what || o.Binding != BindingChose || o.SentTo() != rlocFrom("192.0.2.3") {
				t.Errorf("%s: %s %s to %s, %s", way.name, o.What, o.Reason, o.SentTo(), o.Binding)
			}
			if (o.Subflow != nil) != c.want {
				t.Errorf("%s: header %x, want one: %t", way.name, o.Subflow, c.want)
			}
		}
	}
}

// TestSubflowsOfDroppedPackets: what does not go on begins nothing.
func TestSubflowsOfDroppedPackets(t *testing.T) {
	x, _ := twoPaths(t)
	x.Denies = func(ListKind, lisp.InstanceID, netip.Addr) bool { return true }
	for _, pair := range [][2]netip.Addr{{host4, remote4}, {remote4, host4}} {
		packet := tcpPacket(t, pair[0], pair[1], syn, multipathCapable...)
		if o := passThrough(t, x, packet); o.What != DoDrop || o.Subflow != nil {
			t.Errorf("%s, header %x, want it dropped without one", o.What, o.Subflow)
		}
	}
}

// lyingOptions are TCP options that are cut off or contradict themselves.
var lyingOptions = [][]byte{
	{30, 0, 0, 0}, {30, 1, 0, 0}, {30, 5, 0, 0}, {30, 255, 0, 0}, {0, 30, 4, 1}, {2, 40, 30, 4}, {3, 0, 30, 2},
	{8, 1, 30, 2}, {1, 1, 1, 30},
}

// TestLyingOptions raise nothing.
func TestLyingOptions(t *testing.T) {
	x, _ := twoPaths(t)
	for _, options := range lyingOptions {
		packet := tcpPacket(t, host4, remote4, syn, options...)
		if o := passThrough(t, x, packet); o.What != DoEncapsulate || o.Subflow != nil {
			t.Errorf("options %x: %s, header %x, want none", options, o.What, o.Subflow)
		}
	}
	whole := tcpPacket(t, host4, remote4, syn, multipathCapable...)
	for _, words := range []byte{0, 4, 15} { // less than a header, more than the packet has
		packet := bytes.Clone(whole)
		packet[ipv4HeaderOctets+12] = words << 4
		if o := passThrough(t, x, packet); o.Subflow != nil {
			t.Errorf("header of %d words: %x, want none", words, o.Subflow)
		}
	}
}

// FuzzSubflow: any octets behind an IP header of TCP give a header that is theirs, or none.
func FuzzSubflow(f *testing.F) {
	x, tables := twoPaths(f)
	for _, options := range append(lyingOptions, multipathCapable, withOthers) {
		f.Add(tcpPacket(f, host4, remote4, syn, options...))
		f.Add(tcpPacket(f, host6, remote6, rst, options...))
	}
	f.Add(tcpPacket(f, host6, remote6, fin)[:ipv6HeaderOctets+13])
	f.Fuzz(func(t *testing.T, packet []byte) {
		h, err := ParseHeader(packet)
		if err != nil {
			return
		}
		flow, ok := h.Flow(0)
		clear(tables.bound)
		if ok {
			tables.bound[flow] = lisp.PathTo(rlocFrom("192.0.2.3"))
		}
		for _, in := range []Ingress{{Now: goldenNow}, {Now: goldenNow, Own: true}, {Now: goldenNow, Relayed: true}} {
			o := x.Outbound(nil, packet, in)
			checkSubflow(t, packet, &o)
		}
		if h.Length+Overhead(rlocFrom("192.0.2.1")) <= maxIPv4Octets {
			o := x.Inbound(nil, wrapped(t, packet, 0, 64), Ingress{Now: goldenNow})
			checkSubflow(t, packet, &o)
		}
	})
}

func checkSubflow(t *testing.T, packet []byte, o *Outcome) {
	t.Helper()
	n := len(o.Subflow)
	if n == 0 {
		return
	}
	isWhole := n >= tcpHeaderOctets && n <= 60 && n%4 == 0 && o.Header.Protocol == protocolTCP
	if !isWhole || !bytes.Contains(packet[:o.Header.Length], o.Subflow) {
		t.Fatalf("header %x of packet %x", o.Subflow, packet)
	}
}
