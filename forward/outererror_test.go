// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"loci/lisp"
)

// outerPacket is an encapsulated UDP packet between two EIDs.
func outerPacket(t *testing.T, source, destination, from, to string, instance lisp.InstanceID) []byte {
	t.Helper()
	s, d := netip.MustParseAddr(source), netip.MustParseAddr(destination)
	udp := append([]byte{0x10, 0x00, 0x00, 0x09, 1400 >> 8, 1400 & 0xff, 0, 0}, make([]byte, 1392)...)
	inner := append(appendIP(nil, ipFields{source: s, destination: d, ttl: 63, protocol: protocolUDP, payload: len(udp)}), udp...)
	h, err := ParseHeader(inner)
	if err != nil {
		t.Fatal(err)
	}
	packet, reason := Encapsulate(nil, inner, &h, &Tunnel{
		Source: lisp.RLOCFromAddr(netip.MustParseAddr(from)), Destination: lisp.RLOCFromAddr(netip.MustParseAddr(to)), Header: DataHeader(instance, 5),
	})
	if reason != DropNone {
		t.Fatal(reason)
	}
	return packet
}

// icmpAbout is an ICMP message, from its type on, that quotes so many octets of a packet.
func icmpAbout(kind, code uint8, rest uint32, packet []byte, octets int) []byte {
	message := binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, rest)
	return append(message, packet[:min(octets, len(packet))]...)
}

func TestParseOuterError(t *testing.T) {
	four := outerPacket(t, "10.1.0.5", "10.2.0.9", "192.0.2.1", "192.0.2.2", 0)
	six := outerPacket(t, "2001:db8:1::5", "2001:db8:2::9", "2001:db8:f::1", "2001:db8:f::2", 7)
	changed := append([]byte(nil), four...)
	changed[21]++ // the outer source port
	for _, c := range []struct {
		name       string
		family     uint8
		message    []byte
		ok         bool
		mtu        int
		instance   lisp.InstanceID
		consistent bool
	}{
		{"fragmentation needed", 4, icmpAbout(3, 4, 1400, four, 576), true, 1400, 0, true},
		{"fragmentation needed, no MTU", 4, icmpAbout(3, 4, 0, four, 576), false, 0, 0, false},
		{"fragmentation needed of what fits", 4, icmpAbout(3, 4, uint32(len(four)), four, 576), true, len(four), 0, false},
		{"host unreachable", 4, icmpAbout(3, 1, 0, four, 576), true, 0, 0, true},
		{"time exceeded", 4, icmpAbout(11, 0, 0, four, 576), true, 0, 0, true},
		{"redirect", 4, icmpAbout(5, 0, 0, four, 576), false, 0, 0, false},
		{"echo reply", 4, icmpAbout(0, 0, 0, four, 576), false, 0, 0, false},
		{"a short quote", 4, icmpAbout(3, 4, 1400, four, 28), true, 1400, 0, false},
		{"no ports in the quote", 4, icmpAbout(3, 4, 1400, four, 36+20+3), true, 1400, 0, false},
		{"ports in the quote", 4, icmpAbout(3, 4, 1400, four, 36+20+4), true, 1400, 0, true},
		{"no UDP header in the quote", 4, icmpAbout(3, 4, 1400, four, 27), false, 0, 0, false},
		{"another source port", 4, icmpAbout(3, 4, 1400, changed, 576), true, 1400, 0, false},
		{"of the other family", 4, icmpAbout(3, 4, 1400, six, 576), false, 0, 0, false},
		{"packet too big", 6, icmpAbout(2, 0, 1300, six, 1232), true, 1300, 7, true},
		{"packet too big beyond all", 6, icmpAbout(2, 0, 1<<31, six, 1232), true, 1 << 16, 7, false},
		{"packet too big for what IPv6 asks of any link", 6, icmpAbout(2, 0, 1280, six, 1232), true, 1280, 7, true},
		{"packet too big below that", 6, icmpAbout(2, 0, 1279, six, 1232), false, 0, 0, false},
		{"packet too big, no MTU", 6, icmpAbout(2, 0, 0, six, 1232), false, 0, 0, false},
		{"no route", 6, icmpAbout(1, 0, 0, six, 1232), true, 0, 7, true},
		{"hop limit exceeded", 6, icmpAbout(3, 0, 0, six, 1232), true, 0, 7, true},
		{"parameter problem", 6, icmpAbout(4, 0, 0, six, 1232), false, 0, 0, false},
		{"IPv4 type at IPv6", 6, icmpAbout(11, 0, 0, six, 1232), false, 0, 0, false},
		{"nothing", 4, nil, false, 0, 0, false},
	} {
		e, ok := ParseOuterError(c.message, c.family)
		if ok != c.ok || ok && (e.MTU != c.mtu || e.LeftFor(0) != c.consistent || c.consistent && e.Instance != c.instance) {
			t.Errorf("%s: %v, %+v", c.name, ok, e)
		}
		if ok && (e.Port != DataPort || !e.Source.IsValid() || !e.Destination.IsValid()) {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

// A loop speaks against a locator, a traceroute does not.
func TestErrorsAgainstThePath(t *testing.T) {
	four := outerPacket(t, "10.1.0.5", "10.2.0.9", "192.0.2.1", "192.0.2.2", 0)
	mixed := outerPacket(t, "2001:db8:1::5", "2001:db8:2::9", "192.0.2.1", "192.0.2.2", 0)
	six := outerPacket(t, "10.1.0.5", "10.2.0.9", "2001:db8:f::1", "2001:db8:f::2", 7)
	near := func(packet []byte, at int, ttl byte) []byte { // at is where the inner TTL is
		packet = append([]byte(nil), packet...)
		packet[at] = ttl
		return packet
	}
	const inner4, inner6 = 36, 56 // octets in front of the inner packet
	for _, c := range []struct {
		name    string
		family  uint8
		message []byte
		against bool
	}{
		{"host unreachable", 4, icmpAbout(3, 1, 0, four, 576), true},
		{"no route", 6, icmpAbout(1, 0, 0, six, 1232), true},
		{"unreachable at the end of a traceroute", 4, icmpAbout(3, 1, 0, near(four, inner4+8, 1), 576), true},
		{"a loop", 4, icmpAbout(11, 0, 0, four, 576), true},
		{"a loop, IPv6", 6, icmpAbout(3, 0, 0, six, 1232), true},
		{"a traceroute", 4, icmpAbout(11, 0, 0, near(four, inner4+8, 30), 576), false},
		{"a traceroute of IPv6", 4, icmpAbout(11, 0, 0, near(mixed, inner4+7, 1), 576), false},
		{"a traceroute, IPv6", 6, icmpAbout(3, 0, 0, near(six, inner6+8, 1), 1232), false},
		{"fragmentation needed", 4, icmpAbout(3, 4, 1400, four, 576), false},
	} {
		e, ok := ParseOuterError(c.message, c.family)
		if !ok || !e.Consistent || e.AgainstPath() != c.against {
			t.Errorf("%s: %v, %v, %+v", c.name, ok, e.AgainstPath(), e)
		}
	}
}

// TestErrorsAboutASourcePort: of packets to a locator with a source port an error has to quote that port, of others
// that of the flow.
func TestErrorsAboutASourcePort(t *testing.T) {
	for _, ends := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8:f::1", "2001:db8:f::2"}} {
		family, kind := uint8(4), uint8(3)
		if ends[0] != "192.0.2.1" {
			family, kind = 6, 1
		}
		packet := outerPacket(t, "10.1.0.5", "10.2.0.9", ends[0], ends[1], 0)
		ofFlow, ok := ParseOuterError(icmpAbout(kind, 1, 0, packet, 576), family)
		if !ok || !ofFlow.LeftFor(0) || ofFlow.LeftFor(DataPort) {
			t.Errorf("of the flow's port: %v, %+v", ok, ofFlow)
		}
		binary.BigEndian.PutUint16(packet[len(packet)-1420-16:], DataPort)
		ofPort, ok := ParseOuterError(icmpAbout(kind, 1, 0, packet, 576), family)
		if !ok || ofPort.LeftFor(0) || !ofPort.LeftFor(DataPort) || ofPort.LeftFor(4342) {
			t.Errorf("of the data port: %v, %+v", ok, ofPort)
		}
		short, _ := ParseOuterError(icmpAbout(kind, 1, 0, packet, len(packet)-1420), family)
		if short.LeftFor(DataPort) {
			t.Errorf("it quotes no inner packet, and is consistent: %+v", short)
		}
	}
}

func FuzzParseOuterError(f *testing.F) {
	f.Add([]byte{3, 4, 0, 0, 0, 0, 5, 0x78, 0x45}, true)
	f.Fuzz(func(t *testing.T, message []byte, six bool) {
		family := uint8(4)
		if six {
			family = 6
		}
		if e, ok := ParseOuterError(message, family); ok && (e.MTU < 0 || e.MTU > 1<<16) {
			t.Errorf("MTU %d", e.MTU)
		}
	})
}
