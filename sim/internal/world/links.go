// SPDX-License-Identifier: Apache-2.0

package world

// Which of its links a router uses: control.HoldDown chooses between those that are up. A
// router with a link that is up says of at least one RLOC that it is reachable.

import (
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/virtual"
)

// judgeLinks says which of the links that are up are used, now and when one of them need not be held down any more.
func (r *Router) judgeLinks() {
	var paths []control.OwnPath
	for i := range r.Station.Links {
		paths = append(paths, control.OwnPath{RLOC: lisp.RLOCFromAddr(r.Station.Links[i].Addr), Usable: r.Station.Links[i].Noticed == 0})
	}
	now := virtual.Epoch.Add(r.W.Now)
	_, again := r.hold.Judge(now, paths, choices(r))
	for i := range r.Station.Links {
		up, _ := r.hold.IsUp(paths[i].RLOC)
		r.Station.Links[i].Held = paths[i].Usable && !up
	}
	if again.IsZero() || again.Equal(r.holdUntil) {
		return
	}
	r.holdUntil = again
	r.W.After(again.Sub(now), func() {
		r.holdUntil = time.Time{}
		r.Site.Configure()
	})
}

// choices are the router's own RLOCs, by family: those of all its links, and those that each EID-Prefix is reached by.
func choices(r *Router) (choices [][]lisp.RLOC) {
	for _, v4 := range []bool{true, false} {
		choices = append(choices, rlocsFor(r, nil, v4))
		for _, p := range r.Site.Prefixes {
			choices = append(choices, rlocsFor(r, p, v4))
		}
	}
	return choices
}

// rlocsFor are the own RLOCs of a family by which an EID-Prefix is reached, all of them for none.
func rlocsFor(r *Router, p *SitePrefix, v4 bool) (rlocs []lisp.RLOC) {
	at := 0
	for _, x := range r.Site.XTRs {
		for i := range x.Station.Links {
			rloc := lisp.RLOCFromAddr(x.Station.Links[i].Addr)
			if x == r && rloc.Is4() == v4 && (p == nil || p.policy[at].priority != lisp.PriorityUnused) {
				rlocs = append(rlocs, rloc)
			}
			at++
		}
	}
	return rlocs
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
			checkLastPathOf(r, m, v4)
		}
	}
}

func checkLastPathOf(r *Router, m control.DatabaseMapping, v4 bool) {
	up := ""
	for _, l := range r.saying(m) {
		switch own := l.Path().Last().Is4() == v4 && l.Priority != lisp.PriorityUnused && slices.Contains(r.linksUp, l.Path().Last()); {
		case own && l.Reachable:
			return
		case own:
			up = l.Path().String()
		}
	}
	if up != "" {
		r.W.Fail(r, invariantLastPath, "it says of %s that none of its RLOCs is reachable, though the link of %s is up", m.Prefix, up)
	}
}
