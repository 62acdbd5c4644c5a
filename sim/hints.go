// SPDX-License-Identifier: Apache-2.0

package sim

// Faults of what data packets and ICMP say about locators (RFC 9300 s.10, RFC 9301 s.7):
// Locator-Status-Bits that a site lowers and raises again, nonces that are not echoed, and
// forged ICMP. The data plane tells; what the Node makes of it is held against what may be
// believed.

import (
	"slices"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/lisp"
)

// handleEvent hands one event of the engine to the Node, as the daemon does.
func (r *router) handleEvent(e dataplane.Event) {
	now := r.time()
	switch e := e.(type) {
	case dataplane.Miss:
		r.w.stats.Misses++
		r.node.HandleMiss(now, control.Miss{Instance: e.Instance, Source: e.Source, Destination: e.Destination})
	case dataplane.StatusBitsChanged:
		r.node.HandleStatusBits(now, control.StatusBits{Prefix: e.Prefix, From: e.From, Bits: e.Bits, Count: e.Count})
	case dataplane.LocalVersionStale:
		r.node.HandleMapVersions(now, versionsOf(e.PacketVersions))
	case dataplane.RemoteVersionStale:
		r.node.HandleMapVersions(now, versionsOf(e.PacketVersions))
	case dataplane.Gleaned:
		r.node.HandleGleaned(now, control.Gleaned{Instance: e.Instance, Source: e.Source, Destination: e.Destination, From: e.From})
	case dataplane.NonceMismatch:
		r.node.HandleNonceMismatch(now, e.RLOC)
	case dataplane.LocatorUnreachable:
		r.node.HandleUnreachable(now, e.RLOC)
	}
	r.drain()
}

// pickMapping draws a tunnel router and one of its positive mappings with so many locators
// or more; false when it has none.
func (w *world) pickMapping(locators int) (*router, lisp.Mapping, bool) {
	x := pick(w.random, w.xtrs)
	if x.node == nil || x.plane == nil {
		return nil, lisp.Mapping{}, false
	}
	var list []lisp.Mapping
	for _, e := range x.mirror.entries {
		if len(e.Mapping.Locators) >= locators {
			list = append(list, e.Mapping)
		}
	}
	if len(list) == 0 {
		return nil, lisp.Mapping{}, false
	}
	slices.SortFunc(list, func(a, b lisp.Mapping) int { return a.Prefix.Compare(b.Prefix) })
	return x, pick(w.random, list), true
}

// allUp are the status bits of a site with every locator up.
const allUp = 1<<32 - 1

// lowerStatusBit lets the packets of a site say that one of its locators is down.
func (w *world) lowerStatusBit() (string, func()) {
	x, m, ok := w.pickMapping(2)
	if !ok {
		return "", nil
	}
	i := w.random.IntN(len(m.Locators))
	rloc := m.Locators[i].RLOC
	say := func(bits uint32) {
		if x.plane == nil || x.node == nil {
			return
		}
		x.plane.Raise(dataplane.StatusBitsChanged{Prefix: m.Prefix, From: rloc, Bits: bits, Count: lisp.MaxLocators})
		x.raiseMisses()
	}
	say(allUp &^ (1 << i))
	if _, known := x.locator(rloc); known && m.Locators[i].Usable() && !x.isDown(rloc) {
		w.fail(x, invariantLocator, "%s of %s is used, and its status bit is 0", rloc, m.Prefix)
	}
	return x.name + " about " + rloc.String(), func() { say(allUp) }
}

// forgeUnreachable lets ICMP, or a nonce that nobody echoes, say of a locator that it is
// gone, which is not true.
func (w *world) forgeUnreachable() (string, func()) {
	x, m, ok := w.pickMapping(1)
	if !ok {
		return "", nil
	}
	rloc := pick(w.random, m.Locators).RLOC
	nonce := w.random.chance(0.5)
	say := func() {
		if x.plane == nil || x.node == nil {
			return
		}
		was := x.isDown(rloc)
		if nonce {
			x.plane.Raise(dataplane.NonceMismatch{RLOC: rloc, Sent: 1})
		} else {
			x.plane.Raise(dataplane.LocatorUnreachable{RLOC: rloc, Type: 3, Code: 1})
		}
		x.raiseMisses()
		if !was {
			x.checkNobodyCutOff(rloc)
		}
	}
	say()
	w.after(time.Second, say)
	return x.name + " about " + rloc.String(), say
}

// checkNobodyCutOff: a hint that anybody can forge takes no mapping its only locator.
func (r *router) checkNobodyCutOff(rloc lisp.RLOC) {
	if !r.isDown(rloc) {
		return
	}
	for p, e := range r.mirror.entries {
		usable := 0
		for _, l := range e.Mapping.Locators {
			if l.Usable() {
				usable++
			}
		}
		if l, has := e.Mapping.Locators.Find(rloc); has && l.Usable() && usable == 1 && !e.Gleaned {
			r.w.fail(r, invariantLocator, "a hint took %s its only locator, %s", p, rloc)
		}
	}
}

// locator is what the Node says of an RLOC.
func (r *router) locator(rloc lisp.RLOC) (control.LocatorStatus, bool) {
	for s := range r.node.Locators() {
		if s.RLOC == rloc {
			return s, true
		}
	}
	return control.LocatorStatus{}, false
}

// heldByStatusBit is a locator that is down by a status bit though no fault says so any
// more, and is not held because it flapped.
func (r *router) heldByStatusBit() (lisp.RLOC, bool) {
	if r.node == nil || len(r.states) == 0 {
		return lisp.RLOC{}, false
	}
	for s := range r.node.Locators() {
		if s.State == control.LocatorDown && s.Reason == control.LocatorStatusBit && s.HeldUntil.IsZero() {
			return s.RLOC, true
		}
	}
	return lisp.RLOC{}, false
}
