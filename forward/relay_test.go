// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net/netip"
	"testing"

	"loci/internal/golden"
	"loci/lisp"
)

// relay is the golden router with roles for all EIDs.
func relay(t testing.TB, depth int) *XTR {
	t.Helper()
	table, err := golden.Load("..")
	if err != nil {
		t.Fatal(err)
	}
	all := func(netip.Addr) bool { return true }
	return &XTR{Tables: newGoldenTables(t, table.Router), Memory: &Memory{}, RecursionDepth: depth, Roles: func(lisp.InstanceID) Roles {
		return Roles{RTR: all, PETR: all, PITR: func(_, _ netip.Addr) bool { return true }}
	}}
}

// wrapped is an inner packet from a peer, with that class and TTL outside.
func wrapped(t testing.TB, inner []byte, class, ttl uint8) []byte {
	t.Helper()
	h := mustHeader(t, inner)
	sent, reason := Encapsulate(nil, inner, &h, &Tunnel{Source: rlocFrom("192.0.2.9"), Destination: rlocFrom("192.0.2.1"), Header: DataHeader(0, 1)})
	if reason != DropNone {
		t.Fatal(reason)
	}
	outer := mustHeader(t, sent)
	setMarks(sent, &outer, ttl, class)
	return sent
}

// TestRelayedMarks: the smaller TTL less one; DSCP and ECN of the outer header, by RFC 6040, then outside again. What is at its
// end is the stack's, what RFC 6040 drops is dropped.
func TestRelayedMarks(t *testing.T) {
	x := relay(t, 1)
	for _, c := range []struct {
		inner, outer   [2]uint8 // class, TTL
		what           What
		class, leaving uint8
	}{
		{[2]uint8{0x02, 200}, [2]uint8{0x02, 64}, DoRelay, 0x02, 63}, {[2]uint8{0x02, 10}, [2]uint8{0x2B, 64}, DoRelay, 0x2B, 9},
		{[2]uint8{0x00, 64}, [2]uint8{0x03, 64}, DoDrop, 0, 0}, {[2]uint8{0, 64}, [2]uint8{0, 2}, DoRelay, 0, 1},
		{[2]uint8{0, 64}, [2]uint8{0, 1}, DoLocal, 0, 0}, {[2]uint8{0, 1}, [2]uint8{0, 64}, DoLocal, 0, 0},
	} {
		inner := udpPacket(t, netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.2.0.10"), 100)
		h := mustHeader(t, inner)
		setMarks(inner, &h, c.inner[1], c.inner[0])
		o := x.Inbound(nil, wrapped(t, inner, c.outer[0], c.outer[1]), Ingress{Now: goldenNow})
		if o.What != c.what {
			t.Fatalf("%+v: %s %s, want %s", c, o.What, o.Reason, c.what)
		}
		if o.What != DoRelay {
			continue
		}
		e, reason := ParseEncapsulated(o.Packet)
		if reason != DropNone || e.Outer.TTL != c.leaving || e.Header.TTL != c.leaving || e.Outer.TrafficClass != c.class || e.Header.TrafficClass != c.class {
			t.Errorf("%+v: %s, outside %d %#x, inside %d %#x", c, reason, e.Outer.TTL, e.Outer.TrafficClass, e.Header.TTL, e.Header.TrafficClass)
		}
	}
}

// TestRelayedPacketThatWaited: it waits as it left the tunnel, and is the same afterwards as one that did not wait.
func TestRelayedPacketThatWaited(t *testing.T) {
	x := relay(t, 1)
	tables := x.Tables.(*goldenTables)
	prefix := lisp.MustParsePrefix("10.2.0.0/24")
	entry := tables.entries[prefix]
	packet := wrapped(t, udpPacket(t, netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.2.0.10"), 100), 0, 40)
	straight := x.Inbound(nil, append([]byte(nil), packet...), Ingress{Now: goldenNow})
	delete(tables.entries, prefix)
	o := x.Inbound(nil, append([]byte(nil), packet...), Ingress{Now: goldenNow})
	if o.What != DoWait || !o.Miss || !o.Relayed || mustHeader(t, o.Packet).TTL != 40 {
		t.Fatalf("%s, miss %t, relayed %t, want one that waits with TTL 40", o.What, o.Miss, o.Relayed)
	}
	again := Ingress{Relayed: true, Released: true, Now: goldenNow}
	if gone := x.Outbound(nil, o.Packet, again); gone.Reason != DropReleasedWithoutMapping {
		t.Errorf("%s %s without a mapping", gone.What, gone.Reason)
	}
	tables.entries[prefix] = entry
	if after := x.Outbound(nil, o.Packet, again); after.What != DoRelay || string(after.Packet) != string(straight.Packet) {
		t.Errorf("%s %s\n%x, want\n%x", after.What, after.Reason, after.Packet, straight.Packet)
	}
	x.Roles = nil
	if after := x.Outbound(nil, o.Packet, again); after.Reason != DropNotInPolicy {
		t.Errorf("%s %s when the policy is gone", after.What, after.Reason)
	}
}

// TestGSOWithTwoLayers: a GSO packet gets one layer whole, and is cut before it gets two.
func TestGSOWithTwoLayers(t *testing.T) {
	for depth, want := range map[int]What{1: DoEncapsulate, 2: DoSegment} {
		x := relay(t, depth)
		set, _ := lisp.NewLocatorSet(lisp.Locator{RLOC: rlocFrom("2001:db8:ff00::2"), Priority: 1, Weight: 1, Reachable: true})
		prefix := lisp.MustParsePrefix("192.0.2.2/32")
		x.Tables.(*goldenTables).entries[prefix] = &Entry{Locators: set, Buckets: Buckets(set, nil), Prefix: prefix.Netip()}
		x.Miss = func(lisp.InstanceID) MissPolicy { return MissNative }
		packet := udpPacket(t, netip.MustParseAddr("10.1.0.10"), netip.MustParseAddr("10.2.0.10"), 3000)
		if o := x.Outbound(nil, packet, Ingress{Segment: 1000, Now: goldenNow}); o.What != want {
			t.Errorf("depth %d: %s %s, want %s", depth, o.What, o.Reason, want)
		}
	}
}

// FuzzRelay: any octets from either side give a verdict, with all roles and two layers.
func FuzzRelay(f *testing.F) {
	seed(f)
	x := relay(f, 2)
	f.Fuzz(func(t *testing.T, packet []byte) {
		for _, in := range []Ingress{{}, {Core: true}, {Relayed: true}, {Relayed: true, Released: true, Resolved: true}, {Segment: 1000}} {
			x.Outbound(nil, packet, in)
		}
		o := x.Inbound(nil, append([]byte(nil), packet...), Ingress{Now: goldenNow})
		if o.What == DoRelay {
			if e, reason := ParseEncapsulated(o.Packet); reason != DropNone {
				t.Fatalf("relayed %x, which is %s", o.Packet, reason)
			} else if o.Outer == nil && e.Outer.TTL != o.Header.TTL-1 && e.Outer.TTL != o.Header.TTL {
				t.Fatalf("TTL %d of a packet that had %d", e.Outer.TTL, o.Header.TTL)
			}
		}
	})
}
