// SPDX-License-Identifier: Apache-2.0

package hops

import (
	"math/rand/v2"
	"strings"
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

// pathOf reads hops like "192.0.2.1/PS!silent": address, bits, state.
func pathOf(t *testing.T, text string) (p lisp.Path, bits lisp.PathBits, states map[lisp.RLOC]State) {
	t.Helper()
	var hops []lisp.RLOC
	states = map[lisp.RLOC]State{}
	for i, word := range strings.Fields(text) {
		word, state, _ := strings.Cut(word, "!")
		address, letters, _ := strings.Cut(word, "/")
		hop := rloc(t, address)
		hops, bits[i] = append(hops, hop), lisp.HopExplicit
		for letter, bit := range map[string]lisp.HopBits{"L": lisp.HopLookup, "P": lisp.HopProbe, "S": lisp.HopStrict} {
			if strings.Contains(letters, letter) {
				bits[i] |= bit
			}
		}
		states[hop] = map[string]State{"": Good, "heard": Heard, "unconfirmed": Unconfirmed, "silent": Silent, "down": Down}[state]
	}
	p, err := lisp.NewPath(hops...)
	if err != nil {
		t.Fatal(err)
	}
	return p, bits, states
}

// Shows RFC 8060 s.4.6 (2), (5), (6): L, P and S decide which hop of a path is next.
func TestChoose(t *testing.T) {
	const me, me6 = "192.0.2.9", "2001:db8::9"
	for _, c := range []struct {
		path   string
		own    string
		depth  uint8
		next   uint8
		state  State
		reason Reason
	}{
		{"192.0.2.1 192.0.2.2", me, 1, 0, Good, ""},
		{"192.0.2.1 192.0.2.9 192.0.2.2 192.0.2.3", me, 1, 2, Good, ""},
		{"192.0.2.1!down 192.0.2.9 192.0.2.2", me, 1, 2, Good, ""},
		{"192.0.2.9 2001:db8::9 192.0.2.2", me + " " + me6, 1, 2, Good, ""},
		// The end of the path is here, or nothing can be sent to.
		{"192.0.2.1 192.0.2.9", me, 1, 1, Down, OwnNextHop},
		{"192.0.2.9", me, 1, 0, Down, OwnNextHop},
		{"192.0.2.1/L 192.0.2.2/L", me, 1, 0, Down, AllHopsLookup},
		{"192.0.2.1/L 192.0.2.2/L", me, 2, 0, Down, AllHopsLookup},
		{"192.0.2.1/L", me, 2, 0, Down, AllHopsLookup},
		// L: skipped, unless two layers are allowed.
		{"192.0.2.1/L 192.0.2.2", me, 1, 1, Good, ""},
		{"192.0.2.1/L 192.0.2.2", me, 2, 0, Good, ""},
		{"192.0.2.1/LS 192.0.2.2", me, 1, 0, Down, HopNotUsable},
		{"192.0.2.1 192.0.2.9 192.0.2.2/L", me, 1, 2, Down, NoHopUsable},
		// A family that we cannot send in.
		{"2001:db8::1 192.0.2.2", me, 1, 1, Good, ""},
		{"2001:db8::1/S 192.0.2.2", me, 1, 0, Down, HopNotUsable},
		{"2001:db8::1/S 192.0.2.2", me + " " + me6, 1, 0, Good, ""},
		{"192.0.2.1 2001:db8::1/PS!down", me, 1, 0, Good, ""},
		// Hops that are gone are skipped.
		{"192.0.2.1!down 192.0.2.2", me, 1, 1, Good, ""},
		{"192.0.2.1!silent 192.0.2.2", me, 1, 1, Good, ""},
		{"192.0.2.1!unconfirmed 192.0.2.2 192.0.2.3", me, 1, 1, Good, ""},
		{"192.0.2.1!silent 192.0.2.2!unconfirmed", me, 1, 0, Unconfirmed, ""},
		{"192.0.2.1!unconfirmed 192.0.2.2!heard", me, 1, 1, Heard, ""},
		{"192.0.2.1!heard 192.0.2.2", me, 1, 1, Good, ""},
		{"192.0.2.1!down 192.0.2.2!down", me, 1, 0, Down, AllHopsDown},
		{"192.0.2.1!down 192.0.2.2!silent", me, 1, 1, Unconfirmed, ""},
		// Strict ones are not.
		{"192.0.2.1/S!down 192.0.2.2", me, 1, 0, Down, StrictHopDown},
		{"192.0.2.1/S!silent 192.0.2.2", me, 1, 0, Down, StrictHopDown},
		{"192.0.2.1/S!unconfirmed 192.0.2.2", me, 1, 0, Unconfirmed, ""},
		{"192.0.2.1/PS!unconfirmed 192.0.2.2", me, 1, 0, Down, StrictHopDown},
		{"192.0.2.1/S!heard 192.0.2.2", me, 1, 0, Heard, ""},
		{"192.0.2.1!down 192.0.2.2/S!down 192.0.2.3", me, 1, 1, Down, StrictHopDown},
		{"192.0.2.1!silent 192.0.2.2/S!silent 192.0.2.3", me, 1, 0, Down, StrictHopDown},
		// Later hops are the next router's, but for strict ones that are probed directly.
		{"192.0.2.1 192.0.2.2/S!down 192.0.2.3", me, 1, 0, Good, ""},
		{"192.0.2.1 192.0.2.2/PS!down 192.0.2.3", me, 1, 0, Down, StrictHopDown},
		{"192.0.2.1 192.0.2.2/PS!unconfirmed 192.0.2.3", me, 1, 0, Down, StrictHopDown},
		{"192.0.2.1 192.0.2.2/P!down 192.0.2.3", me, 1, 0, Good, ""},
		{"192.0.2.1 192.0.2.2 192.0.2.3/PS!silent", me, 1, 0, Down, StrictHopDown},
		{"192.0.2.1!down 192.0.2.9 192.0.2.3/PS", me, 1, 2, Good, ""},
	} {
		p, bits, states := pathOf(t, c.path)
		r := Router{Depth: c.depth, State: func(hop lisp.RLOC) State { return states[hop] }}
		for _, own := range strings.Fields(c.own) {
			r.Own = append(r.Own, rloc(t, own))
		}
		got := r.Choose(p, &bits)
		if got.Next != c.next || got.State != c.state || got.Reason != c.reason {
			t.Errorf("%s, depth %d: hop %d, state %d, %q; want hop %d, state %d, %q", c.path, c.depth, got.Next, got.State, got.Reason, c.next, c.state, c.reason)
		}
	}
}

// Whatever a path and its bits are, the choice is a hop of it, behind our own address, and no strict hop is skipped.
func TestChoiceOfAnyPath(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	own := rloc(t, "192.0.2.1")
	for range 20000 {
		var hops []lisp.RLOC
		var bits lisp.PathBits
		states := map[lisp.RLOC]State{}
		for i, n := range random.Perm(9)[:1+random.IntN(lisp.MaxHops)] {
			hop := rloc(t, "192.0.2."+string(rune('1'+n)))
			if random.IntN(4) == 0 {
				hop = rloc(t, "2001:db8::"+string(rune('1'+n)))
			}
			hops, states[hop] = append(hops, hop), State(random.IntN(5))
			bits[i] = lisp.HopBits(random.IntN(8)) | lisp.HopExplicit
		}
		p, err := lisp.NewPath(hops...)
		if err != nil {
			t.Fatal(err)
		}
		r := Router{Own: []lisp.RLOC{own}, Depth: uint8(1 + random.IntN(2)), State: func(hop lisp.RLOC) State { return states[hop] }}
		c := r.Choose(p, &bits)
		at := p.Index(own)
		switch {
		case int(c.Next) >= p.Len() || int(c.First) >= p.Len() || c.First > c.Next && c.Usable():
			t.Fatalf("%s: %+v", p, c)
		case c.Usable() != (c.State != Down):
			t.Fatalf("%s: %+v", p, c)
		case !c.Usable():
			continue
		case int(c.Next) <= at:
			t.Fatalf("%s: hop %d is not behind our own", p, c.Next)
		}
		for i := at + 1; i < int(c.Next); i++ {
			if bits.Has(i, lisp.HopStrict) {
				t.Fatalf("%s: strict hop %d was skipped: %+v", p, i, c)
			}
		}
	}
}
