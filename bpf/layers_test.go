// SPDX-License-Identifier: Apache-2.0

// Two layers of encapsulation, packet by packet at both hooks, octet by octet as package forward makes them.

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"loci/forward"
	"loci/lisp"
)

// eidRLOC4 and eidRLOC6 are RLOCs that are EIDs themselves.
func eidRLOC4(i int) netip.Addr { return netip.AddrFrom4([4]byte{172, 20, 0, byte(i + 1)}) }
func eidRLOC6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0x20, 15: byte(i + 1)})
}

// layered is a pair whose RLOCs are EIDs, which are reached by RLOCs of another family or the same.
type layered struct {
	pair
	outer2 func(i int) netip.Addr
}

func allLayered() (all []layered) {
	for _, p := range pairs {
		for _, outer := range []func(int) netip.Addr{rloc4, rloc6} {
			one := layered{p, outer}
			one.outer = eidRLOC4
			if p.outer(0).Is6() {
				one.outer = eidRLOC6
			}
			all = append(all, one)
		}
	}
	return all
}

func (l layered) String() string {
	return fmt.Sprintf("%s in IPv%d", l.name, familyOf(l.outer2(0)))
}

// twoLayers has the packets of site B go to an RLOC that is an EID.
func (b *bench) twoLayers(l layered) {
	b.leafs = map[rootKey][]leaf{}
	for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
		b.database(0, own)
	}
	own := rloc4(0)
	if l.outer(0).Is6() {
		own = rloc6(0)
	}
	set := b.locatorSet(fields{}, l.outer(1).String(), own.String())
	b.mapCacheTo(0, "10.2.0.0/24", set)
	b.mapCacheTo(0, "2001:db8:2::/64", set)
	second := b.locatorSet(fields{}, l.outer2(1).String(), l.outer2(0).String())
	b.mapCacheTo(0, "172.20.0.0/24", second)
	b.mapCacheTo(0, "2001:db8:2000::/48", second)
	b.settings(fields{"flags": b.constant("LISP_SETTING_TWO_LAYERS")})
}

// wrap encapsulates a packet; the nonce is that of the frame that came out, whose outer headers end at an octet.
func wrap(t *testing.T, packet []byte, from, to netip.Addr, forwarded bool, got []byte, end int) []byte {
	t.Helper()
	h, err := forward.ParseHeader(packet)
	must(t, err)
	tunnel := forward.Tunnel{Source: lisp.RLOCFromAddr(from), Destination: lisp.RLOCFromAddr(to), Forwarded: forwarded}
	if len(got) >= end {
		tunnel.Header.NoncePresent, tunnel.Header.Nonce = true, binary.BigEndian.Uint32(got[end-8:])&0xFFFFFF
	}
	outer, reason := forward.Encapsulate(nil, packet, &h, &tunnel)
	if reason != forward.DropNone {
		t.Fatal(reason)
	}
	return outer
}

// wrapped is the frame that should leave.
func (b *bench) wrapped(t *testing.T, l layered, packet, got []byte) []byte {
	t.Helper()
	own := rloc4(0)
	if l.outer(0).Is6() {
		own = rloc6(0)
	}
	outer := etherLength + forward.Overhead(lisp.RLOCFromAddr(l.outer2(1)))
	first := wrap(t, packet, own, l.outer(1), true, got, outer+forward.Overhead(lisp.RLOCFromAddr(l.outer(1))))
	second := wrap(t, first, l.outer2(0), l.outer2(1), false, got, outer)
	return ethernet(peerMAC, b.core.Attrs().HardwareAddr, second)
}

func TestEncapsulateTwice(t *testing.T) {
	for _, decapFlags := range []bool{true, false} {
		if decapFlags && !kernelHasDecapFlags(t) {
			continue
		}
		b := newBenchOf(t, loadPlane(t, decapFlags))
		b.takeFrames(t)
		for _, l := range allLayered() {
			b.twoLayers(l)
			packet := l.toRemote(0xB9, 64)
			frame := append(b.fromHost(packet), "padding"...)
			for i := range 2 { // the second packet finds records of actions
				before := b.counter("LISP_COUNTER_ENCAPSULATED_TWICE")
				if answer, got := b.toSite(t, frame); answer != actRedirect || !bytes.Equal(got, b.wrapped(t, l, packet, got)) {
					t.Errorf("tc, flags %t, %s, %d: answer %d, got\n%x\nwant\n%x; %s", decapFlags, l, i, int32(answer), got, b.wrapped(t, l, packet, got), b.allDrops())
				}
				if verdict, got := b.frameXDP(t, b.site, frame); verdict != xdpRedirect || !bytes.Equal(got, b.wrapped(t, l, packet, got)) {
					t.Errorf("XDP, %s, %d: verdict %d, got\n%x\nwant\n%x; %s", l, i, verdict, got, b.wrapped(t, l, packet, got), b.allDrops())
				}
				if n := b.counter("LISP_COUNTER_ENCAPSULATED_TWICE") - before; n != 2 {
					t.Errorf("%s: %d counted, want 2", l, n)
				}
			}
			if n := b.markFlows(nil); n != 0 {
				t.Errorf("%s: %d entries of the flow cache, want none", l, n)
			}
		}
	}
}

// TestOneLayerOfTwo: with two layers allowed, an RLOC that is no EID gets packets as they are.
func TestOneLayerOfTwo(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		b.mapCacheIn(7, p)
		b.negative(0, netip.PrefixFrom(p.outer(1), p.outer(1).BitLen()).String(), "LISP_ACTION_NATIVELY_FORWARD")
		b.settings(fields{"flags": b.constant("LISP_SETTING_TWO_LAYERS")})
		packet := p.toRemote(0xB9, 64)
		frame := b.fromHost(packet)
		if _, got := b.toSite(t, frame); !bytes.Equal(got, b.encapsulated(t, p, 7, packet, got)) {
			t.Errorf("tc, %s: got %x; %s", p.name, got, b.allDrops())
		}
		if _, got := b.frameXDP(t, b.site, frame); !bytes.Equal(got, b.encapsulated(t, p, 7, packet, got)) {
			t.Errorf("XDP, %s: got %x; %s", p.name, got, b.allDrops())
		}
	}
}

// TestDecapsulateTwice has packets whose both layers are for this router, and the same with one layer allowed.
func TestDecapsulateTwice(t *testing.T) {
	for _, decapFlags := range []bool{true, false} {
		if decapFlags && !kernelHasDecapFlags(t) {
			continue
		}
		b := newBenchOf(t, loadPlane(t, decapFlags))
		b.takeFrames(t)
		for _, own := range []string{eidRLOC4(0).String() + "/32", eidRLOC6(0).String() + "/128"} {
			b.database(0, own)
		}
		b.localRLOC(eidRLOC4(0), 0)
		b.localRLOC(eidRLOC6(0), 0)
		for _, l := range allLayered() {
			inner := lispPacket(l.outer, 0x29, 50, [8]byte{0x80, 1, 2, 3}, l.toLocal(0x11, 64))
			packet := append(lispPacket(l.outer2, 0xB9, 40, [8]byte{0x80, 4, 5, 6}, inner), "padding"...)
			frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, packet)
			want := ethernet(hostMAC, b.site.Attrs().HardwareAddr, l.toLocal(0xB9, 39))
			b.settings(fields{"flags": b.constant("LISP_SETTING_TWO_LAYERS")})
			before := b.counter("LISP_COUNTER_DECAPSULATED_TWICE")
			for range 2 {
				if answer, got := b.toCore(t, frame); answer != actRedirect || !bytes.Equal(got, want) {
					t.Errorf("tc, flags %t, %s: answer %d, got\n%x\nwant\n%x; %s", decapFlags, l, int32(answer), got, want, b.allDrops())
				}
				if verdict, got := b.frameXDP(t, b.core, frame); verdict != xdpRedirect || !bytes.Equal(got, want) {
					t.Errorf("XDP, %s: verdict %d, got\n%x\nwant\n%x; %s", l, verdict, got, want, b.allDrops())
				}
			}
			if n := b.counter("LISP_COUNTER_DECAPSULATED_TWICE") - before; n != 4 {
				t.Errorf("%s: %d counted, want 4", l, n)
			}
			b.settings(fields{})
			before = b.dropped("LISP_DROP_RECURSION_DEPTH")
			b.toCore(t, frame)
			b.frameXDP(t, b.core, frame)
			if n := b.dropped("LISP_DROP_RECURSION_DEPTH") - before; n != 2 {
				t.Errorf("%s, one layer allowed: %d dropped, want 2", l, n)
			}
		}
	}
}

// TestThreeLayers are dropped, both ways.
func TestThreeLayers(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	l := allLayered()[0]
	b.twoLayers(l)
	b.localRLOC(eidRLOC4(0), 0)
	b.database(0, eidRLOC4(0).String()+"/32")
	b.settings(fields{"flags": b.constant("LISP_SETTING_TWO_LAYERS")})
	for _, port := range []uint16{4341, 4342} {
		before := b.dropped("LISP_DROP_RECURSION_DEPTH")
		frame := b.fromHost(ip{from: l.inner(0, 10), to: l.inner(1, 10), ttl: 64, port: port, payload: make([]byte, 40)}.serialize())
		b.toSite(t, frame)
		if n := b.dropped("LISP_DROP_RECURSION_DEPTH") - before; n != 1 {
			t.Errorf("port %d: %d dropped at tc, want 1; %s", port, n, b.allDrops())
		}
	}
	packet := l.toLocal(0, 64)
	for range 2 {
		packet = lispPacket(l.outer, 0, 64, [8]byte{0x80}, packet)
	}
	frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(l.outer2, 0, 64, [8]byte{0x80}, packet))
	before := b.dropped("LISP_DROP_RECURSION_DEPTH")
	b.toCore(t, frame)
	b.frameXDP(t, b.core, frame)
	if n := b.dropped("LISP_DROP_RECURSION_DEPTH") - before; n != 2 {
		t.Errorf("from the core: %d dropped, want 2; %s", n, b.allDrops())
	}
}
