// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"slices"
	"testing"

	"loci/internal/golden"
)

// seed gives a fuzz target all golden packets.
func seed(f *testing.F) {
	f.Helper()
	table, err := golden.Load("..")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range table.Cases {
		f.Add([]byte(c.Input))
		f.Add([]byte(c.Output))
	}
	f.Add([]byte(nil))
}

// FuzzEncapsulate: what is encapsulated comes out as it was, but for TTL and ECN
// (which RFC 6040 keeps when no router on the path marks it).
func FuzzEncapsulate(f *testing.F) {
	seed(f)
	rlocs := [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}}
	f.Fuzz(func(t *testing.T, packet []byte) {
		h, err := ParseHeader(packet)
		if err != nil || h.TTL == 0 || h.Length > 65000 {
			return
		}
		kept := bytes.Clone(packet)
		for _, pair := range rlocs {
			tunnel := Tunnel{Source: rlocFrom(pair[0]), Destination: rlocFrom(pair[1]), Header: DataHeader(5, 1), Forwarded: true}
			sent, reason := Encapsulate(nil, packet, &h, &tunnel)
			if reason != DropNone || !bytes.Equal(packet, kept) {
				t.Fatalf("%s, packet changed: %t", reason, !bytes.Equal(packet, kept))
			}
			e, reason := unwrapped(sent, Marking{})
			if reason != DropNone && !(reason == DropECN) {
				t.Fatalf("back: %s", reason)
			}
			want := bytes.Clone(packet[:h.Length])
			header := h
			DecrementTTL(want, &header)
			if e.Instance != 5 || !bytes.Equal(e.Inner, want) {
				t.Fatalf("back\n%x, want\n%x", e.Inner, want)
			}
			outer := mustHeader(t, sent)
			if outer.Length != len(sent) || outer.Family == 4 && Checksum(sent[:ipv4HeaderOctets]) != 0 {
				t.Fatalf("outer header %x", sent[:40])
			}
		}
	})
}

// FuzzDecapsulate: any octets give a reason or an inner packet that is part of
// them, and nothing else of them changes.
func FuzzDecapsulate(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, packet []byte) {
		changed := bytes.Clone(packet)
		e, reason := unwrapped(changed, Marking{})
		if reason != DropNone {
			if !bytes.Equal(changed, packet) {
				t.Fatalf("%s, and the packet changed", reason)
			}
			return
		}
		if e.isControl() {
			return // of whatever form
		}
		h := mustHeader(t, e.Inner)
		if h != e.Header || h.Length != len(e.Inner) || h.TTL > e.Outer.TTL {
			t.Fatalf("header %+v, said to be %+v; outer TTL %d", h, e.Header, e.Outer.TTL)
		}
		at := bytes.Index(changed, e.Inner)
		if at < 0 || !bytes.Equal(changed[:at], packet[:at]) && !slices.Equal(changed[:28], packet[:28]) {
			t.Fatal("the outer header changed")
		}
	})
}

// FuzzICMP: every answer is valid and answers nothing that must not be answered.
func FuzzICMP(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, packet []byte) {
		source := router4
		if isIPv6(packet) {
			source = router6
		}
		if answer, ok := PacketTooBig(nil, source, packet, 1400); ok {
			checkICMP(t, answer, packet, 1400)
			if _, again := TimeExceeded(nil, source, answer); again {
				t.Fatal("an error about an error")
			}
		}
		if answer, ok := TimeExceeded(nil, source, packet); ok {
			checkICMP(t, answer, packet, 0)
		}
		if answer, ok := Unreachable(nil, source, packet, UnreachableNoRoute); ok {
			checkICMP(t, answer, packet, 0)
		}
	})
}

// FuzzFragment: the parts fit and make up the packet.
func FuzzFragment(f *testing.F) {
	table, err := golden.Load("..")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range table.Cases {
		f.Add([]byte(c.Input), 64)
	}
	f.Fuzz(func(t *testing.T, packet []byte, largest int) {
		parts, reason := Fragment(nil, packet, largest)
		if reason != DropNone {
			return
		}
		h := mustHeader(t, packet)
		var payload []byte
		for _, p := range parts {
			part := mustHeader(t, p)
			if len(p) > largest || part.FragmentOctets != h.FragmentOctets+len(payload) {
				t.Fatalf("part of %d octets at %d, after %d", len(p), part.FragmentOctets, len(payload))
			}
			payload = append(payload, p[part.PayloadOffset:]...)
		}
		if len(parts) > 1<<maxFragmentHalvings || !bytes.Equal(payload, packet[h.PayloadOffset:h.Length]) {
			t.Fatalf("%d parts do not make up the packet", len(parts))
		}
	})
}

// FuzzRouter: any octets from either side give a verdict.
func FuzzRouter(f *testing.F) {
	seed(f)
	table, err := golden.Load("..")
	if err != nil {
		f.Fatal(err)
	}
	x := &XTR{Tables: newGoldenTables(f, table.Router), Memory: &Memory{}, Trusted: Trusted{
		StatusBits: true, MapVersions: true, EchoNonce: true, Source: SourceLoose,
	}}
	f.Fuzz(func(t *testing.T, packet []byte) {
		for _, in := range []Ingress{{}, {Own: true}, {Own: true, Routed: true}, {Released: true}, {Segment: 1000}} {
			x.Outbound(nil, packet, in)
		}
		x.Inbound(nil, bytes.Clone(packet), Ingress{Now: goldenNow})
	})
}

func BenchmarkEncapsulate(b *testing.B) {
	packet, buffer := udpPacket(b, host4, remote4, 100), make([]byte, 0, 2048)
	tunnel := Tunnel{Source: rlocOf(0), Destination: rlocOf(1), Header: DataHeader(7, 1), Forwarded: true}
	b.ReportAllocs()
	for b.Loop() {
		h, _ := ParseHeader(packet)
		buffer, _ = Encapsulate(buffer[:0], packet, &h, &tunnel)
	}
}

func BenchmarkDecapsulate(b *testing.B) {
	packet := udpPacket(b, host4, remote4, 100)
	h := mustHeader(b, packet)
	sent, _ := Encapsulate(nil, packet, &h, &Tunnel{Source: rlocOf(0), Destination: rlocOf(1), Header: DataHeader(7, 1)})
	b.ReportAllocs()
	for b.Loop() {
		unwrapped(sent, Marking{})
	}
}
