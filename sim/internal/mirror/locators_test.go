// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	"loci/lisp"
)

func rloc(t *testing.T, text string) lisp.RLOC {
	t.Helper()
	r, err := lisp.ParseRLOC(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHopsThatARouterMaySendTo: behind its own, past no strict one, and as a relay by paths on which it stands alone.
func TestHopsThatARouterMaySendTo(t *testing.T) {
	a, b, etr := rloc(t, "192.0.2.1"), rloc(t, "192.0.2.2"), rloc(t, "192.0.2.3")
	path, err := lisp.NewPath(a, b, etr)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		own     string
		next    uint8
		strict  bool
		relayed bool
		want    bool
	}{
		{"an ITR, the first hop", "192.0.2.9", 0, false, false, true},
		{"an ITR, past the first hop", "192.0.2.9", 1, false, false, true},
		{"an ITR, past a strict hop", "192.0.2.9", 1, true, false, false},
		{"a relay on no path", "192.0.2.9", 0, false, true, false},
		{"the first relay", "192.0.2.1", 1, true, true, true},
		{"the first relay, to itself", "192.0.2.1", 0, false, true, false},
		{"the second relay, backwards", "192.0.2.2", 0, false, true, false},
		{"the second relay", "192.0.2.2", 2, true, true, true},
	} {
		l := lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: c.next, Priority: 1, Weight: 1, Reachable: true}
		if c.strict {
			l.Bits[0] = lisp.HopStrict
		}
		v := View{Own: []lisp.RLOC{rloc(t, c.own)}}
		if got := v.MayTake(lisp.LocatorSet{l}, l.NextHop(), c.relayed); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
		aliveButB := func(r lisp.RLOC) bool { return r != b }
		if _, wrong := v.WrongHop(lisp.LocatorSet{l}, aliveButB); c.name == "an ITR, past the first hop" && !wrong {
			t.Error("a hop that is alive was left out, and nothing is said")
		}
	}
}
