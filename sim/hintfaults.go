// SPDX-License-Identifier: Apache-2.0

package sim

// Faults of what data packets and ICMP say about locators (RFC 9300 s.10): status bits that a
// site lowers and raises again, nonces that are not echoed, and forged ICMP.

import (
	"loci/sim/internal/checks"
	"slices"
	"time"

	"loci/dataplane"
	"loci/lisp"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

// pickMapping draws a tunnel router and one of its positive mappings with so many locators
// or more; false when it has none.
func pickMapping(w *world.World, locators int) (*world.Router, lisp.Mapping, bool) {
	x := w.Router(virtual.Pick(w.Random, w.XTRs))
	if x.Node == nil || x.Plane == nil {
		return nil, lisp.Mapping{}, false
	}
	var list []lisp.Mapping
	for _, e := range x.Mirror.Entries {
		if len(e.Mapping.Locators) >= locators && !e.Static && e.Mapping.Action != lisp.ActionNativelyForward {
			list = append(list, e.Mapping)
		}
	}
	if len(list) == 0 {
		return nil, lisp.Mapping{}, false
	}
	slices.SortFunc(list, func(a, b lisp.Mapping) int { return a.Prefix.Compare(b.Prefix) })
	return x, virtual.Pick(w.Random, list), true
}

// allUp are the status bits of a site with every locator up.
const allUp = 1<<32 - 1

// lowerStatusBit lets the packets of a site say that one of its locators is down.
func lowerStatusBit(w *world.World) (string, func()) {
	x, m, ok := pickMapping(w, 2)
	if !ok {
		return "", nil
	}
	i := w.Random.IntN(len(m.Locators))
	path := m.Locators[i].Path()
	say := func(bits uint32) {
		if x.Plane == nil || x.Node == nil {
			return
		}
		x.Plane.Raise(dataplane.StatusBitsChanged{Prefix: m.Prefix, From: path.Last(), Bits: bits, Count: lisp.MaxLocators})
		x.RaiseMisses()
	}
	say(allUp &^ (1 << i))
	if knows(x, path) && m.Locators[i].Usable() && !x.IsDown(path) {
		w.Fail(x, checks.InvariantLocator, "%s of %s is used, and its status bit is 0", path, m.Prefix)
	}
	return x.Name + " about " + path.String(), func() { say(allUp) }
}

// forgeUnreachable lets ICMP, or a nonce that is not echoed, say of a locator that it is
// gone, which is not true.
func forgeUnreachable(w *world.World) (string, func()) {
	x, m, ok := pickMapping(w, 1)
	if !ok {
		return "", nil
	}
	locator := virtual.Pick(w.Random, m.Locators)
	rloc := locator.NextHop()
	nonce := w.Random.Chance(0.5)
	say := func() {
		if x.Plane == nil || x.Node == nil {
			return
		}
		was := x.IsDown(lisp.PathTo(rloc))
		if nonce {
			x.Plane.Raise(dataplane.NonceMismatch{RLOC: rloc, Sent: 1})
		} else {
			x.Plane.Raise(dataplane.LocatorUnreachable{RLOC: rloc, Type: 3, Code: 1})
		}
		x.RaiseMisses()
		if !was {
			checkNoneCutOff(x, rloc)
		}
	}
	say()
	w.After(time.Second, say)
	return x.Name + " about " + rloc.String(), say
}

// checkNoneCutOff: a hint that anybody can forge takes no mapping its only locator.
func checkNoneCutOff(r *world.Router, rloc lisp.RLOC) {
	if !r.IsDown(lisp.PathTo(rloc)) {
		return
	}
	for p, e := range r.Mirror.Entries {
		usable := 0
		for _, l := range e.Mapping.Locators {
			if l.Usable() {
				usable++
			}
		}
		if l, has := e.Mapping.Locators.Find(rloc); has && l.Usable() && usable == 1 && !e.Gleaned {
			r.W.Fail(r, checks.InvariantLocator, "a hint took %s its only locator, %s", p, rloc)
		}
	}
}

// knows reports whether the Node has a state for a locator.
func knows(r *world.Router, path lisp.Path) bool {
	for s := range r.Node.Locators() {
		if s.RLOC == path.RLOC && s.Behind == path.Behind {
			return true
		}
	}
	return false
}
