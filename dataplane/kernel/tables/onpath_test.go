// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"net/netip"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/lisp"
)

// TestWhereOnPaths: what programs go by to tell the path that a packet is on follows own RLOCs, and a process that adopts the tables
// writes it anew; so does the address that packets leave from.
func TestWhereOnPaths(t *testing.T) {
	rloc := func(text string) lisp.RLOC { return lisp.RLOCFromAddr(netip.MustParseAddr(text)) }
	by := func(next uint8, hops ...string) lisp.Locator {
		rlocs := make([]lisp.RLOC, len(hops))
		for i, hop := range hops {
			rlocs[i] = rloc(hop)
		}
		path, err := lisp.NewPath(rlocs...)
		must(t, err)
		return lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: next, Priority: 1, Weight: 1, Reachable: true}
	}
	set, err := lisp.NewLocatorSet(
		by(0, "192.0.2.1"), by(2, "192.0.2.2", "198.51.100.2", "192.0.2.3", "192.0.2.4"), by(2, "192.0.2.5", "198.51.100.1", "192.0.2.4"),
		by(1, "192.0.2.6", "192.0.2.7", "198.51.100.1"),
	)
	must(t, err)
	p := newPlainTables(t, 16, 16, 1<<10)
	must(t, p.putPrefix(t, abi.RootMapCache, "10.2.0.0/16", set))
	expect := func(when string, places, sources []string) {
		t.Helper()
		record := &p.Sets.Records[p.Records[0].LocatorSet]
		for i, want := range []struct{ number, sent, place uint8 }{{}, {2, 2, 2}, {3, 0, 2}, {4, 4, 0}} {
			l := &p.Sets.locators[int(record.First)+i]
			if places[i] == "" {
				want.place = 0
			}
			if l.Number != want.number || l.SentNumber != want.sent || l.Place != want.place {
				t.Errorf("%s: locator %d has number %d, sends %d, place %d, want %+v", when, i, l.Number, l.SentNumber, l.Place, want)
			}
			if got := abi.Addr(l.Family, l.Source).String(); got != sources[i] {
				t.Errorf("%s: locator %d is sent to from %s, want %s", when, i, got, sources[i])
			}
		}
	}
	const own, other = "198.51.100.1", "198.51.100.2"
	must(t, p.SetSources(rloc(own), lisp.RLOC{}))
	none, all := []string{"", "", "", ""}, []string{"", "2", "2", ""}
	expect("no own RLOC", none, []string{own, own, own, own})
	p.Sets.SetOwn([]lisp.RLOC{rloc(own), rloc(other)})
	expect("two own RLOCs", all, []string{own, own, own, own})
	p.Sets.SetNamed(true)
	must(t, p.SetSources(rloc(own), lisp.RLOC{}))
	expect("by the path's name", all, []string{own, other, own, own})
	for i := range p.Sets.locators {
		l := &p.Sets.locators[i]
		l.Number, l.SentNumber, l.Place = 0, 0, 0 // as in older tables
	}
	p.reopen(t)
	p.Sets.SetOwn([]lisp.RLOC{rloc(own), rloc(other)})
	expect("adopted", all, []string{own, other, own, own})
	p.Sets.SetNamed(false)
	must(t, p.SetSources(rloc(own), lisp.RLOC{}))
	expect("from the first again", all, []string{own, own, own, own})
}
