// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"loci/lisp"
)

// heldHost is own RLOCs of a host, by name: those of capital letters are IPv6.
type heldHost struct {
	t       *testing.T
	hold    HoldDown
	now     time.Time
	choices [][]lisp.RLOC
	names   string
	again   time.Time
}

func ownNamed(name rune) lisp.RLOC {
	if name >= 'a' {
		return rloc(fmt.Sprintf("192.0.2.%d", name))
	}
	return rloc(fmt.Sprintf("2001:db8::%d", name))
}

// newHeldHost has the RLOCs of these names, and choices of some of them.
func newHeldHost(t *testing.T, names string, choices ...string) *heldHost {
	h := &heldHost{t: t, now: time.Unix(1_700_000_000, 0), names: names}
	for _, choice := range choices {
		var list []lisp.RLOC
		for _, name := range choice {
			list = append(list, ownNamed(name))
		}
		h.choices = append(h.choices, list)
	}
	return h
}

// expect says which RLOCs are usable now and which must be up then.
func (h *heldHost) expect(usable, up string) {
	h.t.Helper()
	var paths []OwnPath
	for _, name := range h.names {
		paths = append(paths, OwnPath{RLOC: ownNamed(name), Usable: slices.Contains([]rune(usable), name)})
	}
	before, known := map[rune]bool{}, map[rune]bool{}
	for _, name := range h.names {
		was, since := h.hold.IsUp(ownNamed(name))
		before[name], known[name] = was, !since.IsZero()
	}
	changed, again := h.hold.Judge(h.now, paths, h.choices)
	h.again = again
	got := ""
	for _, name := range h.names {
		is, since := h.hold.IsUp(ownNamed(name))
		if is {
			got += string(name)
		}
		told := slices.Contains(changed, ownNamed(name))
		if known[name] && told != (is != before[name]) || told && !since.Equal(h.now) {
			h.t.Errorf("%s usable: %c is up %v, was %v since %s, changed %v", usable, name, is, before[name], since, told)
		}
	}
	if got != up {
		h.t.Errorf("%q usable: %q up, want %q", usable, got, up)
	}
}

// flap lets RLOCs fall, and be usable again, so many times, and each time waits until they are up.
func (h *heldHost) flap(names string, times int) {
	h.t.Helper()
	others := ""
	for _, name := range h.names {
		if !slices.Contains([]rune(names), name) {
			others += string(name)
		}
	}
	for range times {
		h.expect(others, others)
		h.expect(h.names, others)
		h.now = h.again
		h.expect(h.names, h.names)
	}
}

// TestLastPathIsNeverHeld: a router with one RLOC of a family, however often it fell.
func TestLastPathIsNeverHeld(t *testing.T) {
	for _, c := range []struct{ names, choices string }{{"a", "a"}, {"A", "A"}, {"aA", "aA"}} {
		h := newHeldHost(t, c.names)
		for _, name := range c.choices { // each family is a choice of its own
			h.choices = append(h.choices, []lisp.RLOC{ownNamed(name)})
		}
		h.expect(c.names, c.names)
		for range 20 {
			h.now = h.now.Add(300 * time.Millisecond)
			h.expect("", "")
			h.now = h.now.Add(300 * time.Millisecond)
			h.expect(c.names, c.names)
			if !h.again.IsZero() {
				t.Fatalf("%s: looked at again at %s", c.names, h.again)
			}
		}
	}
}

// TestFlappingPathIsHeldLonger beside another, double each time, and less after a quiet time.
func TestFlappingPathIsHeldLonger(t *testing.T) {
	h := newHeldHost(t, "ab", "ab")
	h.expect("ab", "ab")
	for fall, hold := 1, holdFirst; fall <= 8; fall++ {
		h.expect("b", "b")
		h.expect("ab", "b")
		if h.again.Sub(h.now) != hold {
			t.Fatalf("fall %d: held for %s, want %s", fall, h.again.Sub(h.now), hold)
		}
		h.now = h.again.Add(-time.Millisecond)
		h.expect("ab", "b")
		h.now = h.again
		h.expect("ab", "ab")
		hold = min(2*hold, holdMost)
	}
	h.now = h.now.Add(holdMemory + time.Second)
	h.expect("b", "b")
	if h.expect("ab", "b"); h.again.Sub(h.now) != holdFirst {
		t.Errorf("flaps are remembered for ever: %s", h.again.Sub(h.now))
	}
}

// TestHeldPathIsUsedWhenTheOtherFalls, at the same moment, and is not held again when that one returns.
func TestHeldPathIsUsedWhenTheOtherFalls(t *testing.T) {
	h := newHeldHost(t, "ab", "ab")
	h.expect("ab", "ab")
	h.flap("a", 5)
	h.expect("b", "b")
	h.expect("ab", "b") // a is held
	h.expect("a", "a")
	h.expect("ab", "a") // b is held, for having fallen once
	if h.again.Sub(h.now) != holdFirst {
		t.Errorf("b is held for %s", h.again.Sub(h.now))
	}
	h.now = h.again
	h.expect("ab", "ab")
}

// TestOneOfSeveralIsEnough: where none is up, the one that is due first is used, and the others are held.
func TestOneOfSeveralIsEnough(t *testing.T) {
	h := newHeldHost(t, "abc", "abc")
	h.expect("abc", "abc")
	h.flap("a", 3)
	h.flap("b", 1)
	h.expect("", "")
	h.expect("ab", "b") // b flapped less
	h.expect("abc", "b")
	h.expect("ac", "c") // c less than a
	h.expect("a", "a")
}

// TestHoldsOfOneFamilyAreNotTheOthers: who has IPv6 alone is not reached by IPv4.
func TestHoldsOfOneFamilyAreNotTheOthers(t *testing.T) {
	h := newHeldHost(t, "abA", "ab", "A")
	h.expect("abA", "abA")
	h.expect("b", "b")
	h.expect("abA", "bA") // a is held beside b, A beside nothing
}

// TestLastPathOfALocatorSetIsNotHeld, though the router has another one.
func TestLastPathOfALocatorSetIsNotHeld(t *testing.T) {
	h := newHeldHost(t, "abc", "abc", "ab", "c")
	h.expect("abc", "abc")
	h.expect("b", "b")
	h.expect("abc", "bc") // c is alone in a locator-set
	h = newHeldHost(t, "abc", "abc", "ab", "ac")
	h.expect("abc", "abc")
	h.expect("b", "b")
	h.expect("ab", "ab") // b does not stand in for a where c would have to
}

// TestPathThatWasNeverUpIsNotHeld: its interface came up after the start.
func TestPathThatWasNeverUpIsNotHeld(t *testing.T) {
	h := newHeldHost(t, "ab", "ab")
	h.expect("b", "b")
	h.expect("ab", "ab")
}

// TestForgottenPath: an RLOC that left is new when it comes back.
func TestForgottenPath(t *testing.T) {
	h := newHeldHost(t, "ab", "ab")
	h.expect("ab", "ab")
	h.flap("a", 4)
	h.names = "b"
	h.expect("b", "b")
	if up, since := h.hold.IsUp(ownNamed('a')); up || !since.IsZero() {
		t.Errorf("still known: %v since %s", up, since)
	}
	h.names = "ab"
	h.expect("ab", "ab")
}

// TestSteadyPathReturnsAtOnce: the fall of one that was up for long is a move, and not held against it; one that flaps
// is held down, also with Steady.
func TestSteadyPathReturnsAtOnce(t *testing.T) {
	h := newHeldHost(t, "ab", "ab")
	h.hold.Steady = 3 * time.Second
	h.expect("ab", "ab")
	for range 31 {
		h.now = h.now.Add(4 * time.Second)
		h.expect("b", "b")
		h.now = h.now.Add(4 * time.Second)
		h.expect("ab", "ab")
	}
	for i := range 4 { // now it flaps
		h.now = h.now.Add(time.Second)
		h.expect("b", "b")
		h.expect("ab", "b")
		if want := h.now.Add(time.Second << i); !h.again.Equal(want) {
			t.Fatalf("flap %d: held until %s, want %s", i+1, h.again.Sub(h.now), want.Sub(h.now))
		}
		h.now = h.again
		h.expect("ab", "ab")
	}
}
