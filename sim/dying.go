// SPDX-License-Identifier: Apache-2.0

package sim

// A control plane that dies for good and leaves its data plane behind: in some seeds, when
// all has been quiet, the tunnel routers of one site are killed, and two flows go on between
// it and another site, one each way. No packet of theirs may be lost, long past the expiry of
// the site's registration, as long as the TTLs of the mappings run (RFC 9300 s.10). Nothing
// comes after that in a run.

import (
	"slices"
	"time"

	"loci/lisp"
)

const (
	dyingStream = 6
	// dyingShare is in how many seeds a site's control planes die.
	dyingShare = 0.25
	// dyingTTLMinutes is the TTL of both sites' mappings then. It is asked for again a minute before its end:
	// after the registration has expired, and before the run ends.
	dyingTTLMinutes = 6
	// dyingPrepares is how long the new TTL may take to reach all caches.
	dyingPrepares = maxTTLMinutes*time.Minute + 10*time.Second
	// dyingLasts ends before the first TTL does.
	dyingLasts    = dyingTTLMinutes*time.Minute - dyingPrepares - 10*time.Second
	dyingInterval = 2 * time.Second
)

// dying is the death of one site's control planes; site is nil where nobody dies.
type dying struct {
	site    *site
	diesAt  time.Duration // 0 before it is known who dies
	toSite  *flow
	toOther *flow
}

// drawDying says whether control planes die in this run, which lasts longer then.
func (w *world) drawDying() {
	w.deaths = newRandom(w.options.Seed, dyingStream)
	w.flavour.dying = w.options.faultsEnd() > 0 && !w.flavour.tight && w.deaths.chance(dyingShare)
}

// endsAt is when the run is over.
func (w *world) endsAt() time.Duration {
	if w.flavour.dying {
		return w.options.Duration + dyingPrepares + dyingLasts
	}
	return w.options.Duration
}

// startDying puts it into the queue.
func (w *world) startDying() {
	if w.flavour.dying {
		w.after(w.options.Duration-time.Second, w.prepareDeath)
	}
}

// prepareDeath chooses the two sites, and gives their mappings a TTL that outlives what follows, and those of sites whose
// EID-Prefixes overlap theirs: all records of a Map-Reply have the shortest of their TTLs (RFC 9301 s.5.5). What goes to the
// other site must come back by the same tunnel router: another one would not know that it did.
func (w *world) prepareDeath() {
	for range 50 {
		p := pick(w.deaths, pick(w.deaths, w.sites).prefixes)
		to := w.flowTo(p)
		if to == nil || !w.mayDie(p.site) || !w.mayDie(to.from.site) || len(to.from.site.xtrs) > 1 {
			continue
		}
		w.dying = dying{site: p.site, toSite: to, toOther: &flow{from: p.site.xtrs[0], source: to.to, to: to.source, destination: to.from.site}}
		for _, s := range w.sites {
			if s.overlaps(p.site) || s.overlaps(to.from.site) {
				s.ttlMinutes = dyingTTLMinutes
				s.configure()
			}
		}
		w.every(dyingInterval, w.speak)
		w.after(dyingPrepares, w.die)
		return
	}
}

// overlaps reports whether an EID-Prefix of one site covers one of the other, or is the same.
func (s *site) overlaps(other *site) bool {
	within := func(a, b *site) bool {
		return slices.ContainsFunc(a.prefixes, func(p *sitePrefix) bool { return b.contains(p.prefix) })
	}
	return within(s, other) || within(other, s)
}

// mayDie leaves sites with siblings to siblings.go.
func (w *world) mayDie(s *site) bool { return !s.siblings && s.barred == 0 && s.withdrawn == 0 }

// die kills the control planes of the site, and nothing else.
func (w *world) die() {
	w.dying.diesAt = w.now
	w.stats.Faults["control-planes-dead-for-good"]++
	w.trace.note(w.now, w.dying.site.xtrs[0].index, nil, func() string { return "FAULT the control planes of " + w.dying.site.name + " die for good" })
	for _, x := range w.dying.site.xtrs {
		x.kill()
	}
}

// speak sends a packet each way.
func (w *world) speak() {
	for _, f := range []*flow{w.dying.toSite, w.dying.toOther} {
		w.transmit(f, false)
	}
}

// isDead reports whether the control planes are dead by now.
func (w *world) isDead() bool { return w.dying.diesAt > 0 }

// isOfTheDead reports whether a packet is of the two flows.
func (w *world) isOfTheDead(p payload) bool {
	d := &w.dying
	return w.isDead() && (p.site == uint32(d.site.index) && p.from == uint32(d.toSite.from.index) ||
		p.site == uint32(d.toOther.destination.index) && p.from == uint32(d.site.xtrs[0].index))
}

// checkForwarded judges a packet of the two flows that a tunnel router did something else with than to encapsulate it.
func (w *world) checkForwarded(by *router, f *flow, verdict string) {
	d := &w.dying
	if !w.isDead() || f != d.toSite && f != d.toOther || verdict == "encapsulate" {
		return
	}
	e, _ := by.mirror.longest(by.site.instance, lisp.EIDFromAddr(f.to))
	w.fail(by, invariantDeadControl, "%s after the control planes of %s died a packet from %s to %s was not encapsulated but: %s; the map-cache has %s",
		w.now-d.diesAt, d.site.name, f.source, f.to, verdict, e.Mapping)
}
