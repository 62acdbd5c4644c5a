// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net/netip"
	"testing"

	"loci/lisp"
)

// ownOf are tables that know own RLOCs alone.
type ownOf struct {
	Tables
	own []string
}

func (t ownOf) IsLocalRLOC(a netip.Addr) bool {
	for _, own := range t.own {
		if netip.MustParseAddr(own) == a {
			return true
		}
	}
	return false
}

func locatorBy(t *testing.T, next uint8, hops ...string) lisp.Locator {
	t.Helper()
	rlocs := make([]lisp.RLOC, len(hops))
	for i, hop := range hops {
		rlocs[i] = rlocFrom(hop)
	}
	p, err := lisp.NewPath(rlocs...)
	if err != nil {
		t.Fatal(err)
	}
	return lisp.Locator{RLOC: p.RLOC, Behind: p.Behind, Next: next, Priority: 1, Weight: 1, Reachable: true}
}

// TestIdentify: which path a packet is on, by its number and by its outer source, and when that is counted.
func TestIdentify(t *testing.T) {
	const me, me6 = "192.0.2.1", "2001:db8::1"
	set, err := lisp.NewLocatorSet(
		locatorBy(t, 0, "192.0.2.10"),                                        // 1: plain
		locatorBy(t, 2, "192.0.2.10", me, "192.0.2.20", "192.0.2.30"),        // 2
		locatorBy(t, 1, me, "192.0.2.21", "192.0.2.30"),                      // 0, the lowest: it begins here
		locatorBy(t, 3, "192.0.2.11", me, me6, "2001:db8::20", "192.0.2.30"), // 3
		locatorBy(t, 1, "192.0.2.12", "192.0.2.22", me),                      // 4: we stand behind the next hop
		locatorBy(t, 2, "2001:db8::13", me6, "2001:db8::23", "2001:db8::30"), // 5
		locatorBy(t, 2, "2001:db8::14", me6, "2001:db8::24", "2001:db8::30"), // 6: not usable
		locatorBy(t, 0, "2001:db8::15", "2001:db8::25", "2001:db8::30"),      // 7: we are not on it
	)
	if err != nil {
		t.Fatal(err)
	}
	entry := &Entry{Locators: set, Usable: UsableLocators(set, nil) &^ (1 << 6)}
	for _, c := range []struct {
		by           PathIdentification
		number       uint8
		source       string
		want         int // -1: none
		unidentified bool
	}{
		{PathsByNumber, 1, "192.0.2.77", 0, false}, {PathsByNumber, 3, "192.0.2.77", 2, false}, {PathsByNumber, 6, "192.0.2.77", 5, false},
		{PathsByNumber, 0, "192.0.2.10", -1, true}, {PathsByNumber, 2, "192.0.2.10", -1, true}, {PathsByNumber, 5, "192.0.2.10", -1, true},
		{PathsByNumber, 7, "192.0.2.10", -1, true}, {PathsByNumber, 8, "192.0.2.10", -1, true}, {PathsByNumber, 9, "192.0.2.10", -1, true},
		{PathsBySource, 0, "192.0.2.10", 2, false}, {PathsBySource, 0, "192.0.2.11", 3, false}, {PathsBySource, 0, "2001:db8::13", 5, false},
		{PathsBySource, 0, "192.0.2.12", 0, false}, {PathsBySource, 0, "2001:db8::15", 0, false}, {PathsBySource, 0, "203.0.113.1", 0, false},
		{PathsBySource, 0, "2001:db8::14", -1, true},
		{PathsNumbered, 1, "192.0.2.10", -1, false}, {PathsUnidentified, 1, "192.0.2.10", -1, false},
	} {
		tables := ownOf{own: []string{me, me6}}
		o := Outcome{Entry: entry}
		l, ok := o.identify(tables, c.by, Ingress{Relayed: true, On: OnPath{c.number, netip.MustParseAddr(c.source)}})
		if ok != (c.want >= 0) || ok && !l.IsSame(&set[c.want]) {
			t.Errorf("%d, number %d, source %s: %s %t, want locator %d", c.by, c.number, c.source, &l, ok, c.want)
		}
		if got := o.Notes&NotePathUnidentified != 0; got != c.unidentified {
			t.Errorf("%d, number %d, source %s: counted %t, want %t", c.by, c.number, c.source, got, c.unidentified)
		}
		for _, in := range []Ingress{{On: OnPath{c.number, netip.MustParseAddr(c.source)}}, {Relayed: true}} {
			if o := (Outcome{Entry: entry}); c.want >= 0 {
				if _, ok := o.identify(tables, c.by, in); ok || o.Notes != 0 {
					t.Errorf("%d: %+v is on a path", c.by, in)
				}
			}
		}
	}
}

// TestNamedSource: an RTR sends from the address by which the path names it, of the family of the next hop.
func TestNamedSource(t *testing.T) {
	const first, second, me6 = "192.0.2.1", "192.0.2.2", "2001:db8::1"
	tables := ownOf{own: []string{first, second, me6}}
	for _, c := range []struct {
		by   PathIdentification
		path lisp.Locator
		want string
	}{
		{PathsBySource, locatorBy(t, 2, "192.0.2.10", second, "192.0.2.20"), second},
		{PathsByNumber, locatorBy(t, 2, "192.0.2.10", second, "192.0.2.20"), second},
		{PathsNumbered, locatorBy(t, 2, "192.0.2.10", second, "192.0.2.20"), first},
		{PathsBySource, locatorBy(t, 3, "192.0.2.10", second, me6, "192.0.2.20"), second},
		{PathsBySource, locatorBy(t, 2, "192.0.2.10", me6, "192.0.2.20"), first},
		{PathsBySource, locatorBy(t, 1, "192.0.2.10", "192.0.2.20", second), first},
		{PathsBySource, locatorBy(t, 0, "192.0.2.20"), first},
	} {
		if got := c.by.namedSource(tables, &c.path, rlocFrom(first)); got != rlocFrom(c.want) {
			t.Errorf("%d, %s: from %s, want %s", c.by, &c.path, got, c.want)
		}
	}
	to := locatorBy(t, 2, "192.0.2.10", second, "192.0.2.20")
	if got := PathsBySource.namedSource(tables, &to, lisp.RLOC{}); !got.IsZero() {
		t.Errorf("from %s where there is no own RLOC of the family", got)
	}
}
