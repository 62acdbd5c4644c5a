// SPDX-License-Identifier: Apache-2.0

package sim

// Links whose carrier comes and goes, and what the tunnel routers make of it: control.HoldDown
// chooses between links that are up. It never leaves a router without one while there is one.

import (
	"fmt"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
)

const (
	flapStream = 5
	// flapShare is in how many seeds links flap.
	flapShare = 0.3
	// flapSite is how often all links of a site flap together, and not those of one router.
	flapSite = 0.4
)

// planFlaps puts the losses of carrier of those seeds that have them into the queue.
func (w *world) planFlaps(end time.Duration) {
	w.flapper = newRandom(w.options.Seed, flapStream)
	if w.flapper.chance(flapShare) {
		w.planFaultsOf(w.flapper, []fault{{"carrier-flaps", 40 * time.Second, (*world).flapCarrier}}, end)
	}
}

// flapCarrier lets some links of a site lose their carrier again and again, for a moment each time.
func (w *world) flapCarrier() (string, func()) {
	x := pick(w.flapper, w.xtrs)
	hit, one := []*router{x}, w.flapper.IntN(len(x.links)+1) // none of them: all
	if w.flapper.chance(flapSite) {
		hit, one = x.site.xtrs, len(x.links)
	}
	over := false
	var flap func()
	flap = func() {
		if over {
			return
		}
		w.turnCarriers(hit, one, 1)
		w.after(w.flapper.between(200*time.Millisecond, 600*time.Millisecond), func() {
			w.turnCarriers(hit, one, -1)
			w.after(w.flapper.between(100*time.Millisecond, 5*time.Second), flap)
		})
	}
	flap()
	return fmt.Sprintf("%s and %d more, link %d of %d", x.name, len(hit)-1, one+1, len(x.links)), func() { over = true }
}

// turnCarriers takes carriers, or gives them back: of one link of each router, or of all. Each router notices by itself.
func (w *world) turnCarriers(hit []*router, one, by int) {
	for _, r := range hit {
		links := r.links
		if one < len(links) {
			links = links[one : one+1]
		}
		for i := range links {
			links[i].cut += by
		}
		w.after(w.flapper.between(0, 30*time.Millisecond), func() {
			for i := range links {
				links[i].noticed += by
			}
			r.site.configure()
		})
	}
}

// judgeLinks says which of the links that are up are used, now and when one of them need not be held down any more.
func (r *router) judgeLinks() {
	var paths []control.OwnPath
	for i := range r.links {
		paths = append(paths, control.OwnPath{RLOC: lisp.RLOCFromAddr(r.links[i].addr), Usable: r.links[i].noticed == 0})
	}
	now := epoch.Add(r.w.now)
	_, again := r.hold.Judge(now, paths, r.choices())
	for i := range r.links {
		up, _ := r.hold.IsUp(paths[i].RLOC)
		r.links[i].held = paths[i].Usable && !up
	}
	if again.IsZero() || again.Equal(r.holdUntil) {
		return
	}
	r.holdUntil = again
	r.w.after(again.Sub(now), func() {
		r.holdUntil = time.Time{}
		r.site.configure()
	})
}

// choices are the router's own RLOCs, by family: those of all its links, and those that each EID-Prefix is reached by.
func (r *router) choices() (choices [][]lisp.RLOC) {
	for _, v4 := range []bool{true, false} {
		choices = append(choices, r.rlocsFor(nil, v4))
		for _, p := range r.site.prefixes {
			choices = append(choices, r.rlocsFor(p, v4))
		}
	}
	return choices
}

// rlocsFor are the own RLOCs of a family by which an EID-Prefix is reached, all of them for none.
func (r *router) rlocsFor(p *sitePrefix, v4 bool) (rlocs []lisp.RLOC) {
	at := 0
	for _, x := range r.site.xtrs {
		for i := range x.links {
			rloc := lisp.RLOCFromAddr(x.links[i].addr)
			if x == r && rloc.Is4() == v4 && (p == nil || p.policy[at].priority != lisp.PriorityUnused) {
				rlocs = append(rlocs, rloc)
			}
			at++
		}
	}
	return rlocs
}

// checkLastPath: a router whose links are up says of one of them at least that it is reachable, for each EID-Prefix and family,
// unless nobody in the core answers.
func (r *router) checkLastPath() {
	if r.node == nil || r.site == nil || r.node.SiblingPath().Why == control.SiblingPathNoCore {
		return
	}
	for _, m := range r.config.ETR.Database {
		for _, v4 := range []bool{true, false} {
			r.checkLastPathOf(m, v4)
		}
	}
}

func (r *router) checkLastPathOf(m control.DatabaseMapping, v4 bool) {
	up := ""
	for _, l := range r.saying(m) {
		switch own := l.RLOC.Is4() == v4 && l.Priority != lisp.PriorityUnused && slices.Contains(r.linksUp, l.RLOC); {
		case own && l.Reachable:
			return
		case own:
			up = l.RLOC.String()
		}
	}
	if up != "" {
		r.w.fail(r, invariantLastPath, "it says of %s that none of its RLOCs is reachable, though the link of %s is up", m.Prefix, up)
	}
}
