// SPDX-License-Identifier: Apache-2.0

package world

// Which of its links a router uses: control.HoldDown chooses between those that are up. A
// router with a link that is up says of at least one RLOC that it is reachable.

import (
	"loci/sim/internal/sites"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/virtual"
)

// uplinks is which links of a router are used, and were up when its Node was configured.
type uplinks struct {
	hold  control.HoldDown
	until time.Time // when one need not be held down any more
	up    []lisp.RLOC
}

// note notes which links are up, for what the router says of them.
func (u *uplinks) note(links []Link) {
	u.up = u.up[:0]
	for _, l := range links {
		if l.Noticed == 0 {
			u.up = append(u.up, lisp.RLOCFromAddr(l.Addr))
		}
	}
}

// judgeLinks says which of the links that are up are used, now and when one of them need not be held down any more.
func (r *Router) judgeLinks() {
	var paths []control.OwnPath
	for i := range r.Station.Links {
		paths = append(paths, control.OwnPath{RLOC: lisp.RLOCFromAddr(r.Station.Links[i].Addr), Usable: r.Station.Links[i].Noticed == 0})
	}
	now := virtual.Epoch.Add(r.W.Now)
	_, again := r.uplinks.hold.Judge(now, paths, sites.Choices(r.Router))
	for i := range r.Station.Links {
		up, _ := r.uplinks.hold.IsUp(paths[i].RLOC)
		r.Station.Links[i].Held = paths[i].Usable && !up
	}
	if again.IsZero() || again.Equal(r.uplinks.until) {
		return
	}
	r.uplinks.until = again
	r.W.After(again.Sub(now), func() {
		r.uplinks.until = time.Time{}
		r.W.Configure(r.Site)
	})
}

// checkLastPath: a router whose links are up says of one of them at least that it is reachable, for each EID-Prefix and family,
// unless a sibling has its packets because the core does not answer it, or has not yet since the links are up, or, where it answers none
// of them, because data packets come to that sibling only. Whether that is true, checkHandover and checkComeback judge.
func checkLastPath(r *Router) {
	if r.Node == nil || r.Site == nil {
		return
	}
	if why := r.Node.SiblingPath().Why; r.Sibling.Path.IsValid() && why != control.SiblingPathNone && why != control.SiblingPathRLOCsDown {
		return
	}
	for _, m := range r.config.ETR.Database {
		for _, v4 := range []bool{true, false} {
			if l := r.uplinks.unsaid(r.Sibling.saying(m), v4); l != nil {
				r.W.Fail(r, invariantLastPath, "it says of %s that none of its RLOCs is reachable, though the link of %s is up", m.Prefix, l.Path())
			}
		}
	}
}

// unsaid is a locator of a family that is of a link that is up, where all such locators are said to be unreachable; nil where one is not.
func (u *uplinks) unsaid(said lisp.LocatorSet, v4 bool) (last *lisp.Locator) {
	for i := range said {
		l := &said[i]
		rloc := l.Path().Last()
		if rloc.Is4() != v4 || l.Priority == lisp.PriorityUnused || !slices.Contains(u.up, rloc) {
			continue
		}
		if l.Reachable {
			return nil
		}
		last = l
	}
	return last
}
