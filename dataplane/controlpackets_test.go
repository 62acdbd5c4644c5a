// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/lisp"
)

// TestControlMeter: so many a second, so many of one address, none too long, and as before after a second, also when the
// clock was set back.
func TestControlMeter(t *testing.T) {
	var m ControlMeter
	now := time.Unix(1_700_000_000, 0)
	address := func(n int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 4341)
	}
	if m.Allow(now, address(0), MaxControlOctets+1) || !m.Allow(now, address(0), MaxControlOctets) {
		t.Error("the length is not bounded")
	}
	for _, at := range []time.Time{now.Add(time.Second), now.Add(2 * time.Second), now.Add(-time.Hour)} {
		for from := range 5 {
			allowed := 0
			for range MaxControlPackets {
				if m.Allow(at, address(from), 100) {
					allowed++
				}
			}
			want := MaxControlPacketsFrom
			if from >= MaxControlPacketsUnknown/MaxControlPacketsFrom { // the others had all
				want = 0
			}
			if allowed != want {
				t.Errorf("%d in a second from the address %d, want %d", allowed, from, want)
			}
		}
	}
}

// behindNATs puts mappings of routers behind NATs, and returns where they send from.
func behindNATs(m *ControlMeter, count int) (sources []netip.AddrPort) {
	for i := range count {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i / 100)}), uint16(40000+i))
		l := lisp.NewLocator(lisp.RLOCFromAddr(at.Addr()).WithPort(at.Port()))
		l.SourcePort = dataPort
		m.Note(PutMapping{MapCacheEntry{Mapping: lisp.Mapping{Prefix: numberedPrefix(i),
			Locators: lisp.LocatorSet{l}}}})
		sources = append(sources, at)
	}
	return sources
}

func numberedPrefix(i int) lisp.Prefix {
	return lisp.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255))
}

// TestFloodLeavesRoomForRoutersInUse: a hundred times as many messages from forged sources take none of those of 400
// routers in use, which send one each second, also where the sources are the addresses of these with other ports.
func TestFloodLeavesRoomForRoutersInUse(t *testing.T) {
	var m ControlMeter
	sources := behindNATs(&m, 400)
	now := time.Unix(1_700_000_000, 0)
	allowed, floods := 0, 0
	for second := range 10 {
		for i := range 40_000 {
			at := now.Add(time.Duration(second)*time.Second + time.Duration(i)*25*time.Microsecond)
			forged := netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, byte(second), byte(i >> 8), byte(i)}),
				uint16(i))
			if i%2 == 0 {
				forged = netip.AddrPortFrom(sources[i%400].Addr(), uint16(i%40_000))
			}
			if m.Allow(at, forged, 60) {
				floods++
			}
			if i%100 == 99 && m.Allow(at, sources[i/100], 60) {
				allowed++
			}
		}
	}
	if allowed < 4000*95/100 || floods > 10*MaxControlPacketsUnknown {
		t.Errorf("%d of 4000 of routers in use, %d of the flood", allowed, floods)
	}
}

// TestForgedSourceInUseIsNotSilent: who forges the address and port of a router in use, and sends more than its own
// allowance, uses up that. The router still has what unknown sources have, until that of its address is used up.
func TestForgedSourceInUseIsNotSilent(t *testing.T) {
	var m ControlMeter
	at := behindNATs(&m, 1)[0]
	now := time.Unix(1_700_000_000, 0)
	for range MaxControlPacketsKnown {
		m.Allow(now, at, 60)
	}
	if !m.Allow(now, at, 60) {
		t.Error("a router in use is silent after the messages of a forger")
	}
	count := MaxControlPacketsKnown + 1
	for m.Allow(now, at, 60) {
		count++
	}
	if want := MaxControlPacketsKnown + MaxControlPacketsFrom; count != want {
		t.Errorf("%d are allowed, want %d", count, want)
	}
}

// TestSourcesThatAreUsedNoMoreAreUnknown: another mapping, none, or an emptied map-cache; and one that stands in two
// mappings is known as long as one of them is there. Each source has a limit of its own.
func TestSourcesThatAreUsedNoMoreAreUnknown(t *testing.T) {
	var m ControlMeter
	now := time.Unix(1_700_000_000, 0)
	at := behindNATs(&m, 1)[0]
	isKnown := func(when string, want bool) {
		t.Helper()
		now = now.Add(time.Second)
		for i := range MaxControlPacketsUnknown {
			m.Allow(now, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 1), 60)
		}
		count := 0
		for m.Allow(now, at, 60) {
			count++
		}
		if want != (count > 0) || want && count != MaxControlPacketsKnown {
			t.Errorf("%s: %d are allowed", when, count)
		}
	}
	isKnown("at first", true)
	l := lisp.NewLocator(lisp.RLOCFromAddr(at.Addr()).WithPort(at.Port()))
	l.SourcePort = dataPort
	second := MapCacheEntry{Mapping: lisp.Mapping{Prefix: numberedPrefix(7), Locators: lisp.LocatorSet{l}}}
	m.Note(PutMapping{second})
	m.Note(DeleteMapping{numberedPrefix(0)})
	isKnown("in another mapping", true)
	m.Note(PutMapping{second})
	isKnown("put again", true)
	second.Mapping.Locators = nil
	m.Note(PutMapping{second})
	isKnown("replaced", false)
	behindNATs(&m, 1)
	m.Note(Flush{MapCache: true})
	isKnown("flushed", false)
	l.SourcePort = 0
	second.Mapping.Locators = lisp.LocatorSet{l}
	m.Note(PutMapping{second})
	isKnown("not from a port of its own", false)
	if len(m.byPrefix)+len(m.destination) != 0 {
		t.Errorf("%d prefixes and %d sources are kept", len(m.byPrefix), len(m.destination))
	}
	at = netip.AddrPortFrom(at.Addr(), dataPort)
	l = lisp.NewLocator(lisp.RLOCFromAddr(at.Addr()))
	l.SourcePort = dataPort
	second.Mapping.Locators = lisp.LocatorSet{l}
	m.Note(PutMapping{second})
	isKnown("a NAT that keeps ports", true)
}
