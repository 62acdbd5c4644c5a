// SPDX-License-Identifier: Apache-2.0

package datapath

// What is remembered of a router that answered checks, whatever became since of the mappings that led to it: a path
// that is lost when it is used again is known to be one that passed.

import (
	"cmp"
	"net/netip"
	"time"

	"loci/lisp"
)

// maxRemembered bounds the routers that are remembered; the one that was checked longest ago is forgotten.
const maxRemembered = 4096

// place is where a router answers: behind a locator, for EIDs of one family.
type place struct {
	locator lisp.Path
	is4     bool
}

// remembered is what is known of the router there.
type remembered struct {
	at          time.Time // when it was checked
	small, full leg
	hops        int
	passedFull  int
	from        netip.Addr
}

// kept is what stays true of a leg while nothing is checked: that it was answered, and that it was lost then.
func (l *leg) kept() leg {
	lostBefore := cmp.Or(l.lostSince, l.lostBefore)
	return leg{answeredAt: l.answeredAt, lostBefore: lostBefore, unsure: !l.answeredAt.IsZero()}
}

// placeOf is where the path's router answers; false where it is not known which locator the checks take. Where packets
// of a mapping take several locators, each is a path, and a place, of its own.
func (p *path) placeOf() (at place, ok bool) {
	if len(p.facts.Taken) != 1 {
		return at, false
	}
	return place{p.facts.Taken[0], p.key.is4}, true
}

// remember notes what is known of a router that has answered.
func (w *Watch) remember(now time.Time, p *path) {
	at, ok := p.placeOf()
	if !ok || p.small.answeredAt.IsZero() {
		return
	}
	if _, known := w.remembered[at]; !known && len(w.remembered) >= maxRemembered {
		w.forgetOldest()
	}
	w.remembered[at] = remembered{now, p.small.kept(), p.full.kept(), p.hops, p.passedFull, p.from}
}

func (w *Watch) forgetOldest() {
	var oldest place
	var since time.Time
	for at, r := range w.remembered {
		if since.IsZero() || r.at.Before(since) {
			oldest, since = at, r.at
		}
	}
	delete(w.remembered, oldest)
}

// recall has a path begin with what is remembered of its router, if what that answered is an answer of this path as
// well: behind one relay there may be routers of several sites.
func (w *Watch) recall(p *path) {
	at, ok := p.placeOf()
	if r, known := w.remembered[at]; ok && known && p.isFar(r.from) {
		p.small, p.full, p.hops, p.passedFull, p.from = r.small, r.full, r.hops, r.passedFull, r.from
	}
}
