// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/model/packets"
	"loci/forward"
	"loci/lisp"
)

// answerInterval is how often a source is answered at most.
const answerInterval = 100 * time.Millisecond

// udpOf is a UDP datagram.
func udpOf(from, to netip.AddrPort, ttl uint8, payload []byte) (packet []byte) {
	octets := uint16(8 + len(payload))
	if from.Addr().Is4() {
		packet = append(binary.BigEndian.AppendUint16([]byte{0x45, 0}, 20+octets), 0, 0, 0x40, 0, ttl, 17, 0, 0)
	} else {
		packet = append(binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, octets), 17, ttl)
	}
	packet = append(append(packet, from.Addr().AsSlice()...), to.Addr().AsSlice()...)
	if from.Addr().Is4() {
		binary.BigEndian.PutUint16(packet[10:], forward.Checksum(packet))
	}
	for _, field := range []uint16{from.Port(), to.Port(), octets, 0} {
		packet = binary.BigEndian.AppendUint16(packet, field)
	}
	return append(packet, payload...)
}

// TestTTLEndsWithAHostAround: a packet that is decapsulated for a host of the site at the end of its TTL is answered
// through LISP, not too often, and one for the host around goes to that.
func TestTTLEndsWithAHostAround(t *testing.T) {
	for _, f := range []struct{ own, peer, site, remote, router, host, far string }{
		{"192.0.2.1", "192.0.2.2", "10.1.0.0/24", "10.2.0.0/24", "10.1.0.1", "10.1.0.10", "10.2.0.10"},
		{"2001:db8:f::1", "2001:db8:f::2", "2001:db8:1::/64", "2001:db8:2::/64", "2001:db8:1::1", "2001:db8:1::10", "2001:db8:2::10"},
	} {
		own, peer := netip.MustParseAddr(f.own), netip.MustParseAddr(f.peer)
		now := time.Now()
		var sent []packets.Emission
		e := Hosted{New(Options{
			Now: func() time.Time { return now }, Routed: true, Emit: func(m packets.Emission) { sent = append(sent, m) },
			AnswerFrom: func(netip.Addr) netip.Addr { return own }, IsHost: func(a netip.Addr) bool { return a == netip.MustParseAddr(f.router) },
		})}
		locators := func(a netip.Addr) lisp.LocatorSet {
			set, err := lisp.NewLocatorSet(lisp.Locator{RLOC: lisp.RLOCFromAddr(a), Priority: 1, Weight: 100, Reachable: true})
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
		for _, err := range e.Apply(
			dataplane.SetSettings{Settings: dataplane.Settings{
				Interfaces: []dataplane.Interface{{Name: "site0"}, {Name: "core0", Side: dataplane.SideCore}}, LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(own)},
			}},
			dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: lisp.MustParsePrefix(f.site), Locators: locators(own)}},
			dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix(f.remote), Locators: locators(peer)}}},
		) {
			t.Fatal(err)
		}
		receive := func(to string, ttl uint8) []packets.Emission {
			sent = nil
			inner := udpOf(netip.AddrPortFrom(netip.MustParseAddr(f.far), 7), netip.AddrPortFrom(netip.MustParseAddr(to), 9), ttl, []byte("how far"))
			e.Receive(udpOf(netip.AddrPortFrom(peer, 50000), netip.AddrPortFrom(own, forward.DataPort), 64, append(make([]byte, 8), inner...)))
			return sent
		}
		answers := receive(f.host, 1)
		if len(answers) != 1 || answers[0].Way != packets.ToCore || answers[0].Destination.Addr() != peer {
			t.Fatalf("%s: %+v, want an answer to the far site; %+v", f.host, answers, e.Counters())
		}
		packet := answers[0].Packet
		if h, err := forward.ParseHeader(packet); err != nil || h.Source != own || h.Destination != peer {
			t.Errorf("from %s to %s, %v", h.Source, h.Destination, err)
		} else if inner, err := forward.ParseHeader(packet[h.PayloadOffset+16:]); err != nil || inner.Source != own || inner.Destination.String() != f.far {
			t.Errorf("the answer is from %s to %s, %v", inner.Source, inner.Destination, err)
		} else if kind, want := packet[h.PayloadOffset+16+inner.PayloadOffset], map[bool]uint8{true: 11, false: 3}[own.Is4()]; kind != want {
			t.Errorf("ICMP of type %d, want %d", kind, want)
		}
		if again := receive(f.host, 1); len(again) != 0 {
			t.Errorf("the next one is answered at once: %+v", again)
		}
		now = now.Add(answerInterval)
		if later := receive(f.host, 1); len(later) != 1 {
			t.Errorf("later: %+v", later)
		}
		for to, ttl := range map[string]uint8{f.router: 1, f.host: 2} {
			if given := receive(to, ttl); len(given) != 1 || given[0].Way != packets.ToStack {
				t.Errorf("%s with TTL %d: %+v, want it at the host's stack", to, ttl, given)
			}
		}
		if c := e.Counters(); c.DecapsulatedPackets != 5 || c.EncapsulatedPackets != 2 {
			t.Errorf("%d packets were decapsulated, %d encapsulated", c.DecapsulatedPackets, c.EncapsulatedPackets)
		}
	}
}
