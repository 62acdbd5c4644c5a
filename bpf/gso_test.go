// SPDX-License-Identifier: Apache-2.0

// What tc alone does by the flow cache: GSO packets.

package bpf_test

import (
	"encoding/binary"
	"testing"
)

// gsoPacket is a TCP packet with so many octets of payload, as a host hands it over before it is cut.
func gsoPacket(p pair, from, to int, octets int) []byte {
	h := ip{from: p.inner(from, 10), to: p.inner(to, 10), tos: 0xB9, ttl: 64, payload: make([]byte, 12+octets)}.serialize()
	l4 := 20
	if h[0]>>4 == 6 {
		h[6], l4 = 6, 40
	} else {
		h[9] = 6
		binary.BigEndian.PutUint16(h[10:], 0)
		binary.BigEndian.PutUint16(h[10:], onesComplement(h[:20]))
	}
	h[l4+12] = 5 << 4 // the TCP header's length in words
	return h
}

// onesComplement is the Internet checksum (RFC 1071).
func onesComplement(octets []byte) uint16 {
	var sum uint32
	for i := 0; i < len(octets); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(octets[i:]))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}

// TestFailedDecapsulation: a packet whose outer headers the kernel does not remove is dropped, and counts nowhere else. It removes
// none of GSO packets of test runs.
func TestFailedDecapsulation(t *testing.T) {
	b := newBench(t)
	g := &goldenBench{bench: b}
	p := pairs[0]
	own := b.database(0, "10.1.0.0/24")
	inner := gsoPacket(p, 1, 0, 3000)
	frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0xB9, 64, [8]byte{0x80, 1, 2, 3}, inner))
	answer, _ := g.runSegmented(t, "core_ingress", b.core, true, frame, 1400)
	if answer != actShot || b.dropped("LISP_DROP_DECAPSULATION_FAILED") != 1 {
		t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
	}
	if packets, _ := b.countedBy(t, 0, own); packets != 0 {
		t.Errorf("%d packets are counted at the entry of the Database", packets)
	}
	if from := g.sources(); len(from) != 0 {
		t.Errorf("packets are said to have come from %v", from)
	}
}

// TestWhatFitsByFlow says which TCP packets go by the entry that a short one left. The kernel makes no room in GSO packets of test
// runs: that those which fit arrive is what transfers between hosts show.
func TestWhatFitsByFlow(t *testing.T) {
	b := newBench(t)
	g := &goldenBench{bench: b}
	p := pairs[0]
	b.mapCacheIn(0, p)
	for name, c := range map[string]struct {
		octets, segment int
		hit, drops      bool
	}{
		"a packet":              {1000, 0, true, false},
		"too long a packet":     {1450, 0, false, false},
		"segments that fit":     {3000, 1400, false, true},
		"segments too long":     {3000, 1450, false, false},
		"segments beyond a MTU": {3000, 1600, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			frame := func(octets int) []byte {
				return ethernet(b.site.Attrs().HardwareAddr, hostMAC, gsoPacket(p, 0, 1, octets))
			}
			b.emptyCaches()
			b.toSite(t, frame(100))
			if b.markFlows(nil) == 0 {
				t.Fatal("nothing is kept")
			}
			hits := b.flowHits(t)
			before := b.dropped("LISP_DROP_ENCAPSULATION_FAILED")
			answer, got := g.runSegmented(t, "site_ingress", b.site, true, frame(c.octets), c.segment)
			failed := b.dropped("LISP_DROP_ENCAPSULATION_FAILED") > before
			if hit := b.flowHits(t) > hits; hit != c.hit || failed != c.drops {
				t.Errorf("answer %d, to %x, by the flow cache: %t, want %t; %s", answer, got[:6], hit, c.hit, b.allDrops())
			}
		})
	}
}
