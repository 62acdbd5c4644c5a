// SPDX-License-Identifier: Apache-2.0

package conformance

// Locators that are paths of several hops, and RLOCs behind a port (RFC 8060 s.4.6).

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"

	"loci/dataplane"
	"loci/lisp"
)

// WithoutPaths is a Harness whose engine refuses paths of several hops and RLOC ports.
type WithoutPaths interface{ WithoutPaths() }

// pathTo is a path; it need not be one that a packet can take.
func pathTo(hops ...string) lisp.Path {
	rlocs := make([]lisp.RLOC, len(hops))
	for i, text := range hops {
		if at, err := netip.ParseAddrPort(text); err == nil {
			rlocs[i] = lisp.RLOCFromAddr(at.Addr()).WithPort(at.Port())
			continue
		}
		rlocs[i] = lisp.RLOCFromAddr(netip.MustParseAddr(text))
	}
	path, _ := lisp.NewPath(rlocs...)
	return path
}

// by is a locator of that path whose packets go to one of the hops.
func by(path lisp.Path, next, priority uint8) lisp.Locator {
	l := lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: next, Priority: priority, Weight: 100, Reachable: true}
	for i := range path.Len() {
		l.Bits[i] = lisp.HopExplicit
	}
	return l
}

// keepsPaths demands of an engine that refuses paths that it says so.
func (b *bench) keepsPaths() bool {
	b.Helper()
	if _, refuses := b.Harness.(WithoutPaths); !refuses {
		return true
	}
	path := pathTo(PeerRLOCs[0].String(), PeerRLOCs[1].String())
	for i, err := range b.plane.Apply(
		b.mapping("10.2.0.0/24", by(path, 0, 1)), b.mapping("10.2.0.0/24", by(pathTo("192.0.2.2:40001"), 0, 1)),
		dataplane.PutLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: dataplane.LocatorDown},
	) {
		if !errors.Is(err, dataplane.ErrUnsupported) {
			b.Errorf("operation %d: %v, want %v", i, err, dataplane.ErrUnsupported)
		}
	}
	return false
}

func pathsReadBack(b *bench) {
	if !b.keepsPaths() {
		return
	}
	longest := by(pathTo("192.0.2.2", "192.0.2.3:40001", "2001:db8:ff00::2", "[2001:db8:ff00::3]:65535", "192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.14"), 7, 1)
	longest.Bits[1], longest.Bits[7] = lisp.HopExplicit|lisp.HopStrict|lisp.HopProbe, lisp.HopLookup
	explicit := by(pathTo("192.0.2.2"), 0, 2)
	want := b.mapping("10.2.0.0/24", longest, explicit, by(pathTo("192.0.2.2", "192.0.2.3"), 1, 3), by(pathTo("192.0.2.2:4343"), 0, 4))
	b.apply(want)
	got, ok := b.plane.Mapping(want.Entry.Mapping.Prefix)
	if !ok {
		b.Fatal("the mapping is not there")
	}
	b.sameEntry(got, want.Entry)
	for got := range b.plane.Mappings() {
		b.sameEntry(got, want.Entry)
	}
	own := b.database("10.1.4.0/24")
	own.Entry.Locators = b.locators(by(pathTo(PeerRLOCs[0].String(), OwnRLOC4.String()), 0, 1))
	b.apply(own)
	for entry := range b.plane.Database() {
		if entry.Prefix == own.Entry.Prefix && !entry.Locators.Equal(own.Entry.Locators) {
			b.Errorf("reads back as %+v, want %+v", entry, own.Entry)
		}
	}
}

func pathsThatAreRefused(b *bench) {
	if !b.keepsPaths() {
		return
	}
	twice := pathTo("192.0.2.2", "192.0.2.3", "192.0.2.2")
	beyond := by(pathTo("192.0.2.2", "192.0.2.3"), 2, 1)
	foreign := b.database("10.1.4.0/24")
	foreign.Entry.Locators = b.locators(by(pathTo("192.0.2.2", "192.0.2.3"), 0, 1))
	own := b.database("10.1.4.0/24")
	own.Entry.Locators = b.locators(by(pathTo("192.0.2.2", "192.0.2.2", OwnRLOC4.String()), 0, 1))
	results := b.plane.Apply(
		b.mapping("10.2.0.0/24", by(twice, 0, 1)), b.mapping("10.2.0.0/24", beyond), own,
		dataplane.PutLocatorState{RLOC: twice.RLOC, Behind: twice.Behind, State: dataplane.LocatorDown}, foreign,
	)
	if len(results) != 5 {
		b.Fatalf("results %v", results)
	}
	for i, err := range results {
		want := dataplane.ErrInvalid
		if i == 4 {
			want = dataplane.ErrNoLocalLocator
		}
		if !errors.Is(err, want) {
			b.Errorf("operation %d: %v, want %v", i, err, want)
		}
	}
	if _, ok := b.plane.Mapping(lisp.MustParsePrefix("10.2.0.0/24")); ok {
		b.Error("a mapping was refused and is there")
	}
}

// pathsGoToTheNextHop: packets go to the hop that the control plane chose, of whichever family and port.
func pathsGoToTheNextHop(b *bench) {
	if !b.keepsPaths() {
		return
	}
	path := pathTo("192.0.2.2", "[2001:db8:ff00::2]:40001", "2001:db8:ff00::3", "192.0.2.3")
	for next := range path.Len() {
		b.apply(b.mapping("10.2.0.0/24", by(path, uint8(next), 1)), b.mapping("2001:db8:2::/64", by(path, uint8(next), 1)))
		want := path.Hop(next)
		for _, p := range []packet{from4("10.2.0.1"), from6("2001:db8:2::1")} {
			if s := b.expectTo(want.Addr().String(), p); s.port != cmp.Or(want.Port(), dataPort) {
				b.Errorf("hop %d: %s at port %d, want %s", next, s, s.port, want)
			}
		}
	}
	b.eventuallyUsed("10.2.0.0/24", uint64(path.Len()))
}

func (b *bench) eventuallyUsed(prefix string, packets uint64) {
	b.Helper()
	b.eventually("the packets are counted", func() bool { return b.usage(prefix).Packets == packets })
}

// pathsHaveStatesOfTheirOwn: paths through the same first hop, and that hop as a plain locator, are different locators.
func pathsHaveStatesOfTheirOwn(b *bench) {
	if !b.keepsPaths() {
		return
	}
	first, second := by(pathTo("192.0.2.2", "192.0.2.3"), 1, 1), by(pathTo("192.0.2.2", "2001:db8:ff00::2"), 1, 2)
	plain := by(pathTo("192.0.2.2"), 0, 3)
	b.apply(b.mapping("10.2.0.0/24", first, second, plain))
	p := from4("10.2.0.1")
	state := func(l lisp.Locator, s dataplane.LocatorState) {
		b.apply(dataplane.PutLocatorState{RLOC: l.RLOC, Behind: l.Behind, State: s})
	}
	b.expectTo("192.0.2.3", p)
	state(plain, dataplane.LocatorDown)
	b.expectTo("192.0.2.3", p)
	state(first, dataplane.LocatorDown)
	b.expectTo("2001:db8:ff00::2", p)
	state(plain, dataplane.LocatorUp)
	b.expectTo("2001:db8:ff00::2", p)
	state(second, dataplane.LocatorUnconfirmed)
	b.expectTo("192.0.2.2", p)
	states := maps.Collect(b.plane.LocatorStates())
	for _, want := range []struct {
		l     lisp.Locator
		state dataplane.LocatorState
	}{{first, dataplane.LocatorDown}, {second, dataplane.LocatorUnconfirmed}, {plain, dataplane.LocatorUp}} {
		if got := states[want.l.Path()]; got != want.state {
			b.Errorf("%s is %s, want %s", want.l.Path(), got, want.state)
		}
	}
	// That the same hops lead elsewhere, or other bits are said of them, makes no other locator.
	first.Next, first.Bits[0] = 0, lisp.HopExplicit|lisp.HopStrict
	b.apply(b.mapping("10.2.0.0/24", first, second))
	b.expectTo("2001:db8:ff00::2", p)
	b.eventuallyUsed("10.2.0.0/24", 6)
	state(first, dataplane.LocatorUp)
	b.expectTo("192.0.2.2", p)
}

// locatorsChangeTheirKind: a mapping's plain RLOC becomes a path, the path none at all, and back; the state of the one is never that of
// the other, and use is counted on.
func locatorsChangeTheirKind(b *bench) {
	if !b.keepsPaths() {
		return
	}
	plain, path := by(pathTo("192.0.2.2"), 0, 1), by(pathTo("192.0.2.2", "192.0.2.3"), 1, 1)
	p := from4("10.2.0.1")
	b.apply(b.mapping("10.2.0.0/24", plain), dataplane.PutLocatorState{RLOC: plain.RLOC, State: dataplane.LocatorDown})
	b.send(p)
	b.eventuallyDropped("no-locator", 1)
	b.apply(b.mapping("10.2.0.0/24", path))
	b.expectTo("192.0.2.3", p)
	b.apply(dataplane.PutLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: dataplane.LocatorDown})
	b.send(p)
	b.eventuallyDropped("no-locator", 2)
	b.apply(dataplane.PutLocatorState{RLOC: plain.RLOC, State: dataplane.LocatorUp})
	b.send(p)
	b.eventuallyDropped("no-locator", 3)
	b.apply(negative("10.2.0.0/24", lisp.ActionNoAction)) // no locator of it can be used
	b.send(p)
	b.eventuallyDropped("no-action", 1)
	b.apply(b.mapping("10.2.0.0/24", plain))
	b.expectTo("192.0.2.2", p)
	b.apply(b.mapping("10.2.0.0/24", path))
	b.send(p)
	b.eventuallyDropped("no-locator", 4)
	b.apply(dataplane.PutLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: dataplane.LocatorUp})
	b.expectTo("192.0.2.3", p)
	b.eventuallyUsed("10.2.0.0/24", 4) // by three that were sent, and the one that it dropped without a locator
}

// portsTellLocatorsApart: behind one address of a NAT are several locators.
func portsTellLocatorsApart(b *bench) {
	if !b.keepsPaths() {
		return
	}
	at := func(port uint16) lisp.Locator {
		return by(lisp.PathTo(lisp.RLOCFromAddr(PeerRLOCs[0]).WithPort(port)), 0, 1)
	}
	b.apply(b.mapping("10.2.0.0/24", at(0), at(40001), at(40002)))
	ports := func() map[uint16]int {
		seen := map[uint16]int{}
		for i := range 60 {
			seen[b.expectTo(PeerRLOCs[0].String(), from4("10.2.0.1").flow(uint16(1000+i))).port]++
		}
		return seen
	}
	if got := ports(); len(got) != 3 || got[dataPort] == 0 || got[40001] == 0 || got[40002] == 0 {
		b.Errorf("flows by port: %v, want all three", got)
	}
	b.apply(dataplane.PutLocatorState{RLOC: at(40001).RLOC, State: dataplane.LocatorDown}, dataplane.PutLocatorState{RLOC: at(0).RLOC, State: dataplane.LocatorDown})
	if got := ports(); len(got) != 1 || got[40002] == 0 {
		b.Errorf("flows by port: %v, want those to 40002 alone", got)
	}
}
