// SPDX-License-Identifier: Apache-2.0

package world

// A control plane that dies for good and leaves its data plane behind: in some seeds, when
// all has been quiet, the tunnel routers of one site are killed, and two flows go on between
// it and another site, one each way. No packet of theirs may be lost, long past the expiry of
// the site's registration, as long as the TTLs of the mappings run (RFC 9300 s.10). Nothing
// comes after that in a run.

import (
	"slices"
	"time"

	"loci/lisp"
	"loci/sim/internal/packets"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

const (
	dyingStream = 6
	// dyingShare is in how many seeds a site's control planes die.
	dyingShare = 0.25
	// dyingTTLMinutes is the TTL of both sites' mappings then. It is asked for again a minute before its end:
	// after the registration has expired, and before the run ends.
	dyingTTLMinutes = 6
	// dyingPrepares is how long the new TTL may take to reach all caches.
	dyingPrepares = report.MaxTTLMinutes*time.Minute + 10*time.Second
	// dyingLasts ends before the first TTL does.
	dyingLasts    = dyingTTLMinutes*time.Minute - dyingPrepares - 10*time.Second
	dyingInterval = 2 * time.Second
)

// drawDying says whether control planes die in this run, which lasts longer then.
func drawDying(w *World) {
	w.deaths = virtual.NewRandom(w.Options.Seed, dyingStream)
	w.Flavour.dying = w.Options.FaultsEnd() > 0 && !w.Flavour.tight && w.deaths.Chance(dyingShare)
}

// endsAt is when the run is over.
func (w *World) endsAt() time.Duration {
	if w.Flavour.dying || w.Flavour.ControlCut {
		return w.Options.Duration + dyingPrepares + dyingLasts
	}
	return w.Options.Duration
}

// startDying puts it into the queue.
func startDying(w *World) {
	if w.Flavour.dying {
		w.After(w.Options.Duration-time.Second, func() { prepareDeath(w) })
	}
}

// prepareDeath chooses the two sites, and gives their mappings a TTL that outlives what follows, and those of sites whose
// EID-Prefixes overlap theirs: all records of a Map-Reply have the shortest of their TTLs (RFC 9301 s.5.5). What goes to the
// other site must come back by the same tunnel router: another one would not know that it did.
func prepareDeath(w *World) {
	for range 50 {
		p := virtual.Pick(w.deaths, virtual.Pick(w.deaths, w.Sites).Prefixes)
		to := flowTo(w, p)
		if to == nil || !mayDie(w, p.Site) || !mayDie(w, to.from.Site) || len(to.from.Site.XTRs) > 1 {
			continue
		}
		w.dying = dying{site: p.Site, toSite: to, toOther: &Flow{from: p.Site.XTRs[0], source: to.to, to: to.source, Destination: to.from.Site}}
		w.outlive(p.Site, to.from.Site)
		w.every(dyingInterval, w.speak)
		w.After(dyingPrepares, w.die)
		return
	}
}

// outlive gives the mappings of two sites, and of those that overlap them, a TTL that outlives what follows.
func (w *World) outlive(a, b *Site) {
	for _, s := range w.Sites {
		if s.overlaps(a) || s.overlaps(b) {
			s.ttlMinutes = dyingTTLMinutes
			s.Configure()
		}
	}
}

// overlaps reports whether an EID-Prefix of one site covers one of the other, or is the same.
func (s *Site) overlaps(other *Site) bool {
	within := func(a, b *Site) bool {
		return slices.ContainsFunc(a.Prefixes, func(p *SitePrefix) bool { return b.contains(p.Prefix) })
	}
	return within(s, other) || within(other, s)
}

// mayDie leaves sites with siblings to siblings.go.
func mayDie(w *World, s *Site) bool {
	return !s.Siblings && s.Via.none() && s.Barred == 0 && s.Withdrawn == 0
}

// die kills the control planes of the site, and nothing else.
func (w *World) die() {
	w.dying.diesAt = w.Now
	w.Stats.Faults["control-planes-dead-for-good"]++
	w.Trace.Note(w.Now, w.dying.site.XTRs[0].Index, nil, func() string { return "FAULT the control planes of " + w.dying.site.Name + " die for good" })
	for _, x := range w.dying.site.XTRs {
		x.Kill()
	}
}

// speak sends a packet each way.
func (w *World) speak() {
	for _, f := range []*Flow{w.dying.toSite, w.dying.toOther} {
		w.transmit(f, false)
	}
}

// isDead reports whether the control planes are dead by now.
func (w *World) isDead() bool { return w.dying.diesAt > 0 }

// isOfTheDead reports whether a packet is of the two flows.
func (w *World) isOfTheDead(p packets.Payload) bool {
	d := &w.dying
	return w.isDead() && (p.Site == uint32(d.site.Index) && p.From == uint32(d.toSite.from.Index) ||
		p.Site == uint32(d.toOther.Destination.Index) && p.From == uint32(d.site.XTRs[0].Index))
}

// isEnding reports whether something has begun that nothing comes after, and to which convergence does not apply.
func (w *World) isEnding() bool { return w.dying.site != nil || len(w.cut.flows) > 0 }

// checkForwarded judges a packet of the two flows that a tunnel router did something else with than to encapsulate it.
func checkForwarded(w *World, by *Router, f *Flow, verdict string) {
	checkDuringCut(w, by, f, verdict)
	d := &w.dying
	if !w.isDead() || f != d.toSite && f != d.toOther || verdict == "encapsulate" {
		return
	}
	e, _ := by.Mirror.Longest(f.instance(), lisp.EIDFromAddr(f.to))
	w.Fail(by, invariantDeadControl, "%s after the control planes of %s died a packet from %s to %s was not encapsulated but: %s; the map-cache has %s",
		w.Now-d.diesAt, d.site.Name, f.source, f.to, verdict, e.Mapping)
}
