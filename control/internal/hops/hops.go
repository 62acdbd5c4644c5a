// SPDX-License-Identifier: Apache-2.0

package hops

// Which hop of a path is next. A router of the path sends to a hop behind its own address, any other router to one from the first on.
// A hop that cannot be used is skipped unless it is strict (S); then the path cannot be used.

import (
	"slices"

	"loci/lisp"
)

// State is what is known of a hop, the best first; of a path, what its packets may expect.
type State uint8

// The states. One that was never heard of is Good: nothing speaks against it.
const (
	Good        State = iota
	Heard             // it answers no RLOC-probes, but packets came from it lately
	Unconfirmed       // it never answered an RLOC-probe: perhaps they are filtered
	Silent            // it did, and does no more
	Down              // something says that it is gone
)

// Reason says why no packet can take a path. The zero Reason is that one can.
type Reason string

// The reasons. Those for which IsRule holds follow from the path and this router's settings, whatever the hops do.
const (
	OwnNextHop    Reason = "own-next-hop"        // our own address is the last hop: we are its ETR
	AllHopsLookup Reason = "all-hops-lookup"     // every hop has to be looked up, none can be sent to
	HopLookup     Reason = "lookup-hop"          // of a hop that is skipped: it is an EID, and a second layer is not allowed
	HopFamily     Reason = "no-rloc-of-family"   // of a hop that is skipped: there is no RLOC of ours to send to it from
	HopNotUsable  Reason = "strict-hop-unusable" // a strict hop has to be looked up at a recursion-depth of 1, or is of a family without an RLOC of ours
	NoHopUsable   Reason = "no-usable-hop"       // that holds for all hops that are left
	StrictHopDown Reason = "strict-hop-down"     // a hop that must not be skipped is gone
	AllHopsDown   Reason = "all-hops-down"       // all that are left are gone
)

// lookupDepth is how many layers of encapsulation a hop needs that is an EID.
const lookupDepth = 2

// IsRule reports whether the hops' states have no part in it.
func (r Reason) IsRule() bool {
	return r == OwnNextHop || r == AllHopsLookup || r == HopNotUsable || r == NoHopUsable
}

// Router is what a router knows that chooses.
type Router struct {
	Own   []lisp.RLOC
	Depth uint8 // layers of encapsulation: 2 where hops are looked up that are EIDs
	State func(lisp.RLOC) State
}

// Choice is the hop that packets are sent to.
type Choice struct {
	Next   uint8 // in bounds, whatever Reason says
	First  uint8 // the first hop that could be it
	State  State // Down where Reason says why
	Reason Reason
}

// Usable reports whether packets may take the path.
func (c Choice) Usable() bool { return c.Reason == "" }

// Choose chooses the next hop of a path.
func (r *Router) Choose(p lisp.Path, bits *lisp.PathBits) Choice {
	first := r.behindOwn(p)
	switch {
	case first == p.Len():
		return never(first-1, OwnNextHop)
	case allLookup(p, bits):
		return never(first, AllHopsLookup)
	}
	c := Choice{Next: uint8(first), First: uint8(p.Len()), State: Down, Reason: NoHopUsable}
	for i := first; i < p.Len(); i++ {
		strict := bits.Has(i, lisp.HopStrict)
		switch usable := r.canUse(p.Hop(i), bits[i]); {
		case !usable && strict && c.First == uint8(p.Len()):
			return never(i, HopNotUsable)
		case !usable && strict:
			return r.checked(p, bits, c)
		case !usable:
			continue
		}
		c.First = min(c.First, uint8(i))
		if state := r.stateOf(p.Hop(i), bits[i]); strict && state >= dead(bits[i]) {
			if !c.Usable() {
				c.Next = uint8(i)
			}
			c.State, c.Reason = Down, StrictHopDown
			return c
		} else if c.offer(i, state); strict || state == Good {
			return r.checked(p, bits, c)
		}
	}
	return r.checked(p, bits, c)
}

// behindOwn is the first hop behind the last own RLOC of the path.
func (r *Router) behindOwn(p lisp.Path) int {
	for i := p.Len() - 1; i >= 0; i-- {
		if r.isOwn(p.Hop(i)) {
			return i + 1
		}
	}
	return 0
}

// Skipped are the hops of a path that a choice leaves out, from the first one behind our own RLOC on; the reason of one that could be
// sent to is empty.
func (r *Router) Skipped(p lisp.Path, bits *lisp.PathBits, c Choice) (reasons []Reason, from int) {
	from = r.behindOwn(p)
	for i := from; c.Usable() && i < int(c.Next); i++ {
		switch {
		case r.canUse(p.Hop(i), bits[i]):
			reasons = append(reasons, "")
		case bits[i]&lisp.HopLookup != 0:
			reasons = append(reasons, HopLookup)
		default:
			reasons = append(reasons, HopFamily)
		}
	}
	return reasons, from
}

func (r *Router) isOwn(hop lisp.RLOC) bool {
	return slices.ContainsFunc(r.Own, func(o lisp.RLOC) bool { return o.Addr() == hop.Addr() })
}

func never(next int, why Reason) Choice {
	return Choice{Next: uint8(next), First: uint8(next), State: Down, Reason: why}
}

func allLookup(p lisp.Path, bits *lisp.PathBits) bool {
	for i := range p.Len() {
		if !bits.Has(i, lisp.HopLookup) {
			return false
		}
	}
	return true
}

// canUse reports whether we can send to a hop at all.
func (r *Router) canUse(hop lisp.RLOC, bits lisp.HopBits) bool {
	if bits&lisp.HopLookup != 0 {
		return r.Depth >= lookupDepth
	}
	return slices.ContainsFunc(r.Own, func(o lisp.RLOC) bool { return o.Is4() == hop.Is4() })
}

// stateOf is the state of a hop; one that is looked up has the states of its locators.
func (r *Router) stateOf(hop lisp.RLOC, bits lisp.HopBits) State {
	if bits&lisp.HopLookup != 0 {
		return Good
	}
	return r.State(hop)
}

// dead is the state from which on a strict hop counts as gone. One that never answered may forward all the same, unless its P bit
// says that RLOC-probes reach it.
func dead(bits lisp.HopBits) State {
	if bits&lisp.HopProbe != 0 {
		return Unconfirmed
	}
	return Silent
}

// offer takes a hop that is better than those before it.
func (c *Choice) offer(hop int, state State) {
	if state == Down {
		if c.State == Down {
			c.Reason = AllHopsDown
		}
		return
	}
	if state = min(state, Unconfirmed); state < c.State { // that it answered once makes it no worse than one that never did
		c.Next, c.State, c.Reason = uint8(hop), state, ""
	}
}

// checked is a choice, unless a strict hop further on that is probed directly is gone.
func (r *Router) checked(p lisp.Path, bits *lisp.PathBits, c Choice) Choice {
	c.First = min(c.First, uint8(p.Len()-1))
	if !c.Usable() {
		return c
	}
	for i := int(c.Next) + 1; i < p.Len(); i++ {
		if b := bits[i]; IsProbed(b) && b&lisp.HopStrict != 0 && r.canUse(p.Hop(i), b) && r.State(p.Hop(i)) >= dead(b) {
			c.State, c.Reason = Down, StrictHopDown
			return c
		}
	}
	return c
}

// IsProbed reports whether a hop behind the next one gets RLOC-probes from us directly.
func IsProbed(bits lisp.HopBits) bool {
	return bits&lisp.HopProbe != 0 && bits&lisp.HopLookup == 0
}
