// SPDX-License-Identifier: Apache-2.0

package lisp

import (
	"slices"
	"strings"
	"testing"
)

func pathTo(t *testing.T, texts ...string) Path {
	t.Helper()
	hops := make([]RLOC, len(texts))
	for i, text := range texts {
		r, err := ParseRLOCPort(text)
		if err != nil {
			t.Fatal(err)
		}
		hops[i] = r
	}
	p, err := NewPath(hops...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPathKeepsItsHops(t *testing.T) {
	for _, hops := range [][]string{
		{"192.0.2.1"}, {"192.0.2.1:4343"}, {"192.0.2.1", "2001:db8::2"}, {"2001:db8::1", "[2001:db8::2]:65535", "192.0.2.3"},
		{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "192.0.2.5", "192.0.2.6", "192.0.2.7", "192.0.2.8"},
	} {
		p := pathTo(t, hops...)
		if got := p.String(); got != strings.Join(hops, " -> ") || p.Len() != len(hops) || p.IsPlain() != (len(hops) == 1) {
			t.Errorf("%q of %d hops, want %q", got, p.Len(), hops)
		}
		for i, hop := range p.Hops() {
			if p.Hop(i) != hop || hop.String() != hops[i] || p.Index(hop.WithPort(0)) != i {
				t.Errorf("hop %d of %s is %s, found at %d", i, p, hop, p.Index(hop))
			}
		}
	}
}

// Shows RFC 8060 s.4.6: paths that a packet cannot take.
func TestPathsThatAreRefused(t *testing.T) {
	r := func(text string) RLOC { r, _ := ParseRLOCPort(text); return r }
	nine := make([]RLOC, 9)
	for i := range nine {
		nine[i] = r("192.0.2." + string(rune('1'+i)))
	}
	for _, c := range []struct {
		hops []RLOC
		want string
	}{
		{nil, "path of 0 hops"},
		{nine, "path of 9 hops"},
		{[]RLOC{r("192.0.2.1"), {}}, "hop 2: RLOC is missing"},
		{[]RLOC{r("192.0.2.1"), r("192.0.2.2"), r("192.0.2.1")}, "hop 3: 192.0.2.1 is hop 1 already"},
		{[]RLOC{r("192.0.2.1"), r("192.0.2.1:5000")}, "hop 2: 192.0.2.1:5000 is hop 1 already"},
		{[]RLOC{RLOCFromAddr(r("192.0.2.1").Addr().Next()), RLOCFromAddr(r("2001:db8::1").Addr()), {family: 4, raw: [16]byte{127, 0, 0, 1}}}, "hop 3: RLOC 127.0.0.1"},
	} {
		if _, err := NewPath(c.hops...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.hops, err, c.want)
		}
	}
}

// Locators are told apart by their whole path, port included, and by nothing else.
func TestIdentityOfLocatorsIsTheirPath(t *testing.T) {
	locator := func(hops ...string) Locator {
		p := pathTo(t, hops...)
		return Locator{RLOC: p.RLOC, Behind: p.Behind, Reachable: true}
	}
	set, err := NewLocatorSet(
		locator("192.0.2.1", "192.0.2.3"), locator("192.0.2.1"), locator("192.0.2.1:5001"), locator("192.0.2.1:5000"), locator("192.0.2.1", "192.0.2.2"))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, l := range set {
		order = append(order, l.Path().String())
	}
	want := []string{"192.0.2.1", "192.0.2.1 -> 192.0.2.2", "192.0.2.1 -> 192.0.2.3", "192.0.2.1:5000", "192.0.2.1:5001"}
	if !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	strict := set[1]
	strict.Bits[1] |= HopStrict
	if !strict.IsSame(&set[1]) {
		t.Error("the bits of a hop make another locator")
	}
	if _, err := NewLocatorSet(set[1], strict); err == nil || !strings.Contains(err.Error(), "192.0.2.1 -> 192.0.2.2 stands twice") {
		t.Errorf("a path that stands twice: %v", err)
	}
}

func TestNextHop(t *testing.T) {
	p := pathTo(t, "192.0.2.1", "192.0.2.2:5000")
	for next, want := range map[uint8]string{0: "192.0.2.1", 1: "192.0.2.2:5000", 7: "192.0.2.2:5000"} {
		l := Locator{RLOC: p.RLOC, Behind: p.Behind, Next: next}
		if got := l.NextHop().String(); got != want {
			t.Errorf("next hop %d is %s, want %s", next, got, want)
		}
	}
}

func TestRLOCWithPort(t *testing.T) {
	for text, ok := range map[string]bool{
		"192.0.2.1:4341": true, "[2001:db8::1]:1": true, "192.0.2.1": true, "192.0.2.1:0": false, "192.0.2.1:65536": false, "192.0.2.1:": false,
		"[2001:db8::1%eth0]:1": false, "127.0.0.1:5000": false,
	} {
		r, err := ParseRLOCPort(text)
		if (err == nil) != ok || ok && r.String() != text {
			t.Errorf("%q is %s, %v", text, r, err)
		}
		var back RLOC
		if octets, _ := r.MarshalText(); ok && (back.UnmarshalText(octets) != nil || back != r) {
			t.Errorf("%q comes back as %s", text, back)
		}
	}
	if _, err := ParseRLOC("192.0.2.1:4341"); err == nil {
		t.Error("a port where none may be")
	}
}
