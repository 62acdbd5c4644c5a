// SPDX-License-Identifier: Apache-2.0

package mirror

// Which locators packets may take: of those that are neither 255, nor unreachable, nor down the best state, and of these
// the lowest priority; of a path a hop behind the router's own address, past no strict one.

import (
	"slices"

	"loci/dataplane"
	"loci/lisp"
)

// View is what a router knows of locators.
type View struct {
	States map[lisp.Path]dataplane.LocatorState // of those that the Node called anything but up
	Own    []lisp.RLOC
	Relays bool // it is an RTR
}

// worstPreference is that of a locator which is not used.
const worstPreference = 1 << 16

// MayTake reports whether a packet may be sent to an RLOC by a locator-set; relayed says that it came from the core.
func (v *View) MayTake(set lisp.LocatorSet, to lisp.RLOC, relayed bool) bool {
	best := worstPreference
	for i := range set {
		best = min(best, v.preference(&set[i]))
	}
	return best < worstPreference && slices.ContainsFunc(set, func(l lisp.Locator) bool {
		return l.NextHop() == to && v.preference(&l) == best && v.mayFollow(&l, relayed)
	})
}

// preference orders locators by their states, then by their priorities.
func (v *View) preference(l *lisp.Locator) int {
	rank, usable := v.States[l.Path()].Rank()
	allowed := l.Reachable && l.Priority < 255 // not l.Usable(): that is what is judged
	family := func(own lisp.RLOC) bool { return own.Is4() == l.NextHop().Is4() }
	if !usable || !allowed || !slices.ContainsFunc(v.Own, family) {
		return worstPreference
	}
	return rank<<8 + int(l.Priority)
}

// mayFollow reports whether the next hop of a locator is one that this router may send to.
func (v *View) mayFollow(l *lisp.Locator, relayed bool) bool {
	path := l.Path()
	at := v.Place(path)
	if path.IsPlain() {
		return at < 0
	}
	if next := int(l.Next); next <= at || relayed && at < 0 {
		return false
	}
	for hop := at + 1; hop < int(l.Next); hop++ {
		if l.Bits.Has(hop, lisp.HopStrict) {
			return false
		}
	}
	return true
}

// Place is where the router stands in a path, -1 for nowhere.
func (v *View) Place(path lisp.Path) int {
	for i := path.Len() - 1; i >= 0; i-- {
		if slices.ContainsFunc(v.Own, func(own lisp.RLOC) bool { return own.Addr() == path.Hop(i).Addr() }) {
			return i
		}
	}
	return -1
}

// LeavesOut reports whether no packet of the router can take a locator: it leads back to it, or it is a path that others relay by.
func (v *View) LeavesOut(p lisp.Path) bool {
	at := v.Place(p)
	return at == p.Len()-1 || at < 0 && v.Relays
}

// Uses reports whether a locator-set is the one that a site has, but for what the router leaves out.
func (v *View) Uses(told, has lisp.LocatorSet) bool {
	has = slices.Clone(has)
	for i := range min(len(has), len(told)) {
		if told[i].Priority == lisp.PriorityUnused && v.LeavesOut(has[i].Path()) {
			has[i].Priority = lisp.PriorityUnused
		}
	}
	return Same(told, has)
}

// WrongHop finds a path whose packets are sent to another hop than the first one behind the router that is alive. Of paths with hops that
// must not be skipped it says nothing.
func (v *View) WrongHop(set lisp.LocatorSet, alive func(lisp.RLOC) bool) (wrong lisp.Locator, found bool) {
	for _, l := range set {
		path := l.Path()
		isStrict := slices.ContainsFunc(l.Bits[:], func(bits lisp.HopBits) bool { return bits&lisp.HopStrict != 0 })
		if path.IsPlain() || isStrict || !l.Usable() {
			continue
		}
		next := v.Place(path) + 1
		for next < path.Len()-1 && !alive(path.Hop(next)) {
			next++
		}
		if alive(path.Hop(next)) && int(l.Next) != next {
			return l, true
		}
	}
	return lisp.Locator{}, false
}
