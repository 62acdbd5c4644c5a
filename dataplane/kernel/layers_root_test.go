// SPDX-License-Identifier: Apache-2.0

// Two layers of encapsulation: what a trace tells of them, and that a restart keeps them. The tests need root.

package kernel

import (
	"net/netip"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/observe"
	"loci/forward"
	"loci/lisp"
)

// eidRLOC is an RLOC that is an EID.
const eidRLOC = "172.20.0.5"

// oneLocator is a mapping of Instance-ID 0 with one locator.
func oneLocator(t *testing.T, prefix string, locator lisp.Locator) dataplane.PutMapping {
	t.Helper()
	set, err := lisp.NewLocatorSet(locator)
	must(t, err)
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: set, TTLMinutes: 10},
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}}
}

// twoLayers allows two layers, and has the packets of site B go to an RLOC that is an EID, whose mapping is not there yet.
func (r *router) twoLayers(t *testing.T) {
	t.Helper()
	settings := r.Settings()
	settings.RecursionDepth = 2
	r.apply(t, dataplane.SetSettings{Settings: settings})
	for _, prefix := range sitePrefixes(1) {
		locator := lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(eidRLOC)), Priority: 1, Weight: 100, Reachable: true}
		locator.Bits[0] = lisp.HopLookup | lisp.HopExplicit // with one layer it could not be used
		r.apply(t, oneLocator(t, prefix.String(), locator))
	}
}

func TestTraceTwoLayers(t *testing.T) {
	t.Parallel()
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			n := newLinks(t)
			a := n.open(t, 0, Options{})
			a.twoLayers(t)
			tracer, err := a.tracer(t)
			must(t, err)
			out := udpPacket(t, p, 0, 1, 10)
			text, _ := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: out})
			wantAll(t, text, "wait miss of the RLOC", "locator: "+eidRLOC, "layer: with two layers allowed, the RLOC is looked up as an EID", "map-cache: nothing covers it")

			a.apply(t, oneLocator(t, "172.20.0.0/24", lisp.Locator{RLOC: lisp.RLOCFromAddr(p.outer(1)), Priority: 1, Weight: 100, Reachable: true}))
			n.expectPings(t, a.ns, p.outer(0), p.outer(1)) // the neighbour is known from now on
			text, sent := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: out})
			wantAll(t, text, "encapsulate", "map-cache: 172.20.0.0/24", "locator: "+eidRLOC, "locator: "+p.outer(1).String(), "route: next hop known by core0")
			e, reason := forward.ParseEncapsulated(sent)
			if reason != forward.DropNone || e.Outer.Destination != p.outer(1) || e.Header.Destination.String() != eidRLOC {
				t.Fatalf("sent as %+v, %s", e, reason)
			}
			if inside, reason := forward.ParseEncapsulated(e.Inner); reason != forward.DropNone || inside.Header.Destination != p.inner(1, 10) {
				t.Errorf("inside is %+v, %s", inside, reason)
			}
			text, _ = a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, p, 0, 1, 1440)})
			wantAll(t, text, "wait too-big")

			back := encapsulatedFor(t, encapsulatedFor(t, udpPacket(t, p, 1, 0, 10), eidRLOC, rloc4(0)), p.outer(1).String(), p.outer(0))
			text, _ = a.expectTrace(t, tracer, "core0", observe.TracedPacket{Packet: back})
			wantAll(t, text, "drop eid-not-in-database") // the own RLOC is no EID of ours
			a.wantUntouched(t)
		})
	}
}

// encapsulatedFor is a LISP packet from an RLOC.
func encapsulatedFor(t *testing.T, inner []byte, from string, to netip.Addr) []byte {
	t.Helper()
	h, err := forward.ParseHeader(inner)
	must(t, err)
	packet, reason := forward.Encapsulate(nil, inner, &h, &forward.Tunnel{
		Source: lisp.RLOCFromAddr(netip.MustParseAddr(from)), Destination: lisp.RLOCFromAddr(to), Header: forward.DataHeader(0, 1),
	})
	if reason != forward.DropNone {
		t.Fatal(reason)
	}
	return packet
}

// TestTwoLayersAfterRestart: an engine that is opened anew uses hops to be looked up as before.
func TestTwoLayersAfterRestart(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	a := n.open(t, 0, Options{})
	a.twoLayers(t)
	a.apply(t, oneLocator(t, "172.20.0.0/24", lisp.Locator{RLOC: lisp.RLOCFromAddr(rloc4(1)), Priority: 1, Weight: 100, Reachable: true}))
	n.expectPings(t, a.ns, rloc4(0), rloc4(1))
	must(t, a.Close())
	a.open(t, Options{})
	if depth := a.Settings().RecursionDepth; depth != 2 {
		t.Fatalf("recursion depth %d, want 2", depth)
	}
	tracer, err := a.tracer(t)
	must(t, err)
	text, sent := a.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: udpPacket(t, pairs[0], 0, 1, 10)})
	wantAll(t, text, "encapsulate", "map-cache: 172.20.0.0/24")
	if e, reason := forward.ParseEncapsulated(sent); reason != forward.DropNone || e.Outer.Destination != rloc4(1) {
		t.Errorf("sent as %+v, %s", e, reason)
	}
}
