// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/forward"
	"loci/lisp"
)

// mptcpSYN is a TCP packet with SYN and the option of Multipath TCP.
func mptcpSYN(from, to string, port uint16) []byte {
	packet := append([]byte{0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 6, 0, 0}, netip.MustParseAddr(from).AsSlice()...)
	packet = append(packet, netip.MustParseAddr(to).AsSlice()...)
	packet = append(packet, byte(port>>8), byte(port), 1, 0xbb, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, 0x02, 0, 100, 0, 0, 0,
		0)
	return append(packet, 30, 4, 1, 0x81)
}

// subflowRouter is an engine with a mapping of two locators, whose settings ask for subflows.
func subflowRouter(t *testing.T) *harness {
	t.Helper()
	h := newHarness(t).(*harness)
	s := h.Settings()
	s.Subflows = true
	locator := func(a netip.Addr) lisp.Locator {
		return lisp.Locator{RLOC: lisp.RLOCFromAddr(a), Priority: 1, Weight: 1, Reachable: true}
	}
	own := lisp.LocatorSet{locator(conformance.OwnRLOC4)}
	two := lisp.LocatorSet{locator(conformance.PeerRLOCs[0]), locator(conformance.PeerRLOCs[1])}
	mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/16"), Locators: two, TTLMinutes: 1440}
	for i, err := range h.engine.Apply(dataplane.SetSettings{Settings: s},
		dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: lisp.MustParsePrefix("10.1.0.0/16"),
			Locators: own}},
		dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: mapping, Static: true}}) {
		if err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
	}
	return h
}

// subflowsBySource counts the events that wait.
func (h *harness) subflowsBySource() map[string]int {
	told := map[string]int{}
	for len(h.engine.Events()) > 0 {
		if e, ok := (<-h.engine.Events()).(dataplane.Subflow); ok {
			told[e.Flow.Source.String()]++
		}
	}
	return told
}

// TestSubflowsAreLimited: a burst of each source, then one for each interval; so many of all sources in a second.
// Packets go on in any case.
func TestSubflowsAreLimited(t *testing.T) {
	h := subflowRouter(t)
	sent := 0
	send := func(source string, count int) {
		for range count {
			h.engine.Send("site0", mptcpSYN(source, "10.2.0.1", uint16(1000+sent)))
			sent++
		}
	}
	send("10.1.0.1", 2*dataplane.SubflowBurst)
	send("10.1.0.2", 3)
	if got := h.subflowsBySource(); got["10.1.0.1"] != dataplane.SubflowBurst || got["10.1.0.2"] != 3 {
		t.Errorf("told of %v, want %d of the first source and 3 of the second", got, dataplane.SubflowBurst)
	}
	h.Pass(3 * dataplane.SubflowInterval)
	send("10.1.0.1", 10)
	if got := h.subflowsBySource(); got["10.1.0.1"] != 3 {
		t.Errorf("told of %v after three intervals, want 3", got)
	}
	told := dataplane.SubflowBurst + 3 + 3
	for i := 0; i < 2*dataplane.MaxSubflows; i += dataplane.SubflowBurst {
		send(fmt.Sprintf("10.1.%d.%d", 1+i>>8, i&0xff), dataplane.SubflowBurst)
		for _, n := range h.subflowsBySource() {
			told += n
		}
	}
	if told != dataplane.MaxSubflows {
		t.Errorf("told of %d within a second, want %d", told, dataplane.MaxSubflows)
	}
	h.Pass(time.Second)
	send("10.1.0.1", 1)
	if got := h.subflowsBySource(); got["10.1.0.1"] != 1 {
		t.Errorf("told of %v a second later, want one", got)
	}
	counters := h.engine.Counters()
	limited := counters.Other["subflows_limited"]
	if counters.EncapsulatedPackets != uint64(sent) || limited != uint64(sent-told-1) || counters.EventsLost != 0 {
		t.Errorf("%d packets left, %d events were limited, %d lost; want %d, %d, 0",
			counters.EncapsulatedPackets, limited, counters.EventsLost, sent, sent-told-1)
	}
}

// TestSubflowsLeaveRoomForMisses: what a reader leaves unread of them takes half of the places.
func TestSubflowsLeaveRoomForMisses(t *testing.T) {
	h := subflowRouter(t)
	for i := range 2 * cap(h.engine.Events()) {
		h.engine.Send("site0", mptcpSYN(fmt.Sprintf("10.1.%d.%d", i>>8, i&0xff), "10.2.0.1", 1))
	}
	if waiting := len(h.engine.Events()); waiting != cap(h.engine.Events())/2 {
		t.Errorf("%d events wait, want half of %d", waiting, cap(h.engine.Events()))
	}
	lost := h.engine.Counters().EventsLost
	h.engine.Send("site0", mptcpSYN("10.1.0.1", "10.3.0.1", 1))
	if now := h.engine.Counters().EventsLost; now != lost || lost == 0 {
		t.Errorf("%d events lost, %d after a miss: want some, and not the miss", lost, now)
	}
}

// TestUnreadableSubflows: options and headers that lie raise nothing, and the packets go on.
func TestUnreadableSubflows(t *testing.T) {
	h := subflowRouter(t)
	whole := mptcpSYN("10.1.0.1", "10.2.0.1", 1)
	for at, values := range map[int][]byte{32: {0x00, 0x40, 0x70, 0xf0}, 41: {0, 1, 5, 255}} {
		for _, value := range values {
			packet := bytes.Clone(whole)
			packet[at] = value
			if o := h.engine.Send("site0", packet); o.What != forward.DoEncapsulate ||
				len(h.engine.Events()) > 0 {
				t.Errorf("octet %d is %#x: %s, %d events", at, value, o.What, len(h.engine.Events()))
			}
		}
	}
	for octets := 20; octets < len(whole); octets++ {
		packet := bytes.Clone(whole[:octets])
		packet[3] = byte(octets)
		h.engine.Send("site0", packet)
		if len(h.engine.Events()) > 0 {
			t.Fatalf("a packet of %d octets raises %+v", octets, <-h.engine.Events())
		}
	}
	h.engine.Send("site0", whole)
	if got := h.subflowsBySource(); got["10.1.0.1"] != 1 {
		t.Errorf("told of %v, want one", got)
	}
}
