// SPDX-License-Identifier: Apache-2.0

package itr

// Where packets of locators that are explicit locator paths are sent (RFC 8060 s.4.6). The map-cache keeps what the site said; the data
// plane gets the next hop with it, and a mapping anew when that is another hop. Nothing here judges a hop.

import (
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/system"
	"loci/lisp"
)

// withNextHops is a locator-set as the data plane gets it: with the next hop of each path. A locator that no packet may take, whatever
// its hops do, has the priority of those that are not used. Where only locators that lead back to this router are left, they stay as
// they are: the data plane drops packets for that reason, and counts them. So it is at an RTR with paths that it does not stand on.
func (c *mapCache) withNextHops(instance lisp.InstanceID, set lisp.LocatorSet) lisp.LocatorSet {
	if !slices.ContainsFunc(set, c.isChosen) {
		return set
	}
	set = slices.Clone(set)
	var own []int
	usable := false
	for i := range set {
		l := &set[i]
		choice := c.prober.Table.Paths.Choose(l)
		l.Next = choice.Next
		switch {
		case effect.LocatorReason(choice.Reason) == effect.PathOwnNextHop:
			own = append(own, i)
		case choice.Reason.IsRule():
			l.Priority = lisp.PriorityUnused
		default:
			usable = usable || l.Usable()
		}
	}
	for _, i := range own {
		if usable {
			set[i].Priority = lisp.PriorityUnused
		}
	}
	if alone, relays := c.h.Relaying[instance]; relays {
		c.leaveOffPath(set, alone)
	}
	return set
}

// leaveOffPath leaves out the paths that an RTR does not stand on, which relayed packets cannot take (the data plane has one choice
// for all packets), where they can take other locators. A router that has EIDs, too, does so where one of the paths is by it: the
// packets of its own site can take all of them.
func (c *mapCache) leaveOffPath(set lisp.LocatorSet, alone bool) {
	var off []int
	stands, others := false, false
	for i := range set {
		switch l := &set[i]; {
		case !l.Usable():
		case c.isOffPath(l):
			off = append(off, i)
		default:
			others, stands = true, stands || l.Behind != ""
		}
	}
	for _, i := range off {
		if others && (alone || stands) {
			set[i].Priority = lisp.PriorityUnused
		}
	}
}

// isOffPath reports whether a locator is a path on which we do not stand.
func (c *mapCache) isOffPath(l *lisp.Locator) bool {
	return l.Behind != "" && !slices.ContainsFunc(l.Path().Hops(), c.prober.Table.IsOwn)
}

// ambiguousPaths notes mappings of which an RTR that cannot tell which path a packet is on stands on several, and would
// send to different routers.
type ambiguousPaths struct {
	Prefix    lisp.Prefix // of the one that came last; zero for none
	Since     time.Time   // when it came
	hasLogged bool        // an event named one
}

// note looks at a mapping that goes to the data plane, with this set. It counts one that is not noted yet, and logs the
// first.
func (u *ambiguousPaths) note(h *system.System, e *mapcache.Entry, set lisp.LocatorSet, isOwn func(lisp.RLOC) bool) {
	prefix := e.Mapping.Prefix
	if _, relays := h.Relaying[prefix.Instance()]; !relays || !haveSeveralNextHops(set, isOwn) {
		if u.Prefix == prefix {
			u.Prefix = lisp.Prefix{}
		}
		return
	}
	if u.Prefix == prefix {
		return
	}
	u.Prefix, u.Since = prefix, h.Time(h.Now)
	h.Count(counter.PathsAmbiguous)
	if !u.hasLogged {
		u.hasLogged = true
		h.Notice(effect.Notice{Kind: effect.NoticePathsAmbiguous, Prefix: prefix, Remote: e.From,
			Detail: "this router is on several of its paths, with different next hops, and cannot tell which one a packet is on"})
	}
}

// haveSeveralNextHops reports whether the paths of a set that we stand on have different next hops.
func haveSeveralNextHops(set lisp.LocatorSet, isOwn func(lisp.RLOC) bool) bool {
	var next lisp.RLOC
	for i := range set {
		l := &set[i]
		if !l.Usable() || !slices.ContainsFunc(l.Path().Hops()[:l.Next], isOwn) {
			continue
		}
		if !next.IsZero() && l.NextHop() != next {
			return true
		}
		next = l.NextHop()
	}
	return false
}

// isChosen reports whether anything is to be chosen: the locator is a path, has to be looked up, or is our own RLOC.
func (c *mapCache) isChosen(l lisp.Locator) bool { return hasHops(l) || c.prober.Table.IsOwn(l.RLOC) }

// countUnusable counts the locators of a set that no packet may take, whatever their hops do.
func (c *mapCache) countUnusable(set lisp.LocatorSet) {
	for i := range set {
		if l := &set[i]; l.Usable() && c.prober.Table.Paths.Choose(l).Reason.IsRule() {
			c.h.Count(counter.LocatorUnusable)
		}
	}
}

// hasHops reports whether anything is to be chosen: there are several hops, or the one has to be looked up.
func hasHops(l lisp.Locator) bool { return l.Behind != "" || l.Bits.Has(0, lisp.HopLookup) }

// withoutNextHops is a locator-set of the data plane without what it was given.
func withoutNextHops(set lisp.LocatorSet) lisp.LocatorSet {
	if !slices.ContainsFunc(set, func(l lisp.Locator) bool { return l.Next != 0 }) {
		return set
	}
	set = slices.Clone(set)
	for i := range set {
		set[i].Next = 0
	}
	return set
}

// moves gives the data plane the mappings anew whose packets go to another hop.
type moves struct {
	h       *system.System
	cache   *mapCache
	done    uint64 // of the changes that the table of paths counts
	through uint64
	cursor  uint32
	Work    batch.Work
}

// start begins a pass, unless one is under way.
func (w *moves) start() {
	if !w.Work.Waits() {
		w.Work.At(w.h.Now)
	}
}

// Handle does one batch.
func (w *moves) Handle() { w.Work.Run(w.h.Now, SweepBatch, w.step) }

func (w *moves) step() (cost int, more bool) {
	table := &w.cache.prober.Table
	if w.cursor == 0 {
		w.through = table.Paths.Moves
	}
	cost = 1
	if rows := uint32(w.cache.Entries.Len()); w.cursor < rows {
		if e := w.cache.Entries.At(w.cursor); !e.Mapping.Prefix.IsZero() && table.Paths.MovedSince(&e.Mapping, w.done) {
			w.cache.emitInstall(w.cursor)
			cost = SweptChangeCost
		}
		w.cursor++
		return cost, true
	}
	w.done, w.cursor = w.through, 0
	return cost, table.Paths.Moves > w.done
}

// adoptNextHops takes over where the data plane sends packets of an entry, and tells it where it should. What priority a locator has that
// was left out is not known any more: the mapping is asked for again, for what kept the locator out may be gone.
func (r *ITR) adoptNextHops(id uint32, kept lisp.LocatorSet) {
	if !slices.ContainsFunc(kept, r.Cache.isChosen) {
		return
	}
	if slices.ContainsFunc(kept, func(l lisp.Locator) bool { return l.Priority == lisp.PriorityUnused && hasHops(l) }) {
		r.Requester.Ask(maprequest.Request{Prefix: r.Cache.Entries.At(id).Mapping.Prefix})
	}
	for i := range kept {
		r.Prober.Table.Paths.AdoptNext(&kept[i], kept[i].Next)
	}
	if e := r.Cache.Entries.At(id); !r.Cache.Entry(e).Mapping.Locators.Equal(kept) {
		r.Cache.emitInstall(id)
	}
}
