// SPDX-License-Identifier: Apache-2.0

package sim

// A control plane that dies for good and leaves its data plane behind: in some seeds, when
// all has been quiet, the tunnel routers of one site are killed, and two flows go on between
// it and another site, one each way. No packet of theirs may be lost, long past the expiry of
// the site's registration, as long as the TTLs of the mappings run (RFC 9300 s.10). Nothing
// comes after that in a run.

import (
	"loci/sim/internal/checks"
	"net/netip"
	"time"

	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	dyingStream = 6
	// dyingShare is in how many seeds a site's control planes die.
	dyingShare = 0.25
)

// dying is the death of one site's control planes; site is nil where none dies.
type dying struct {
	w       *world.World
	random  virtual.Random
	site    *sites.Site
	diesAt  time.Duration // 0 before
	toSite  *sites.Flow
	toOther *sites.Flow
}

// drawDying says whether control planes die in this run, nil where they do not.
func drawDying(w *world.World) *dying {
	d := &dying{w: w, random: virtual.NewRandom(w.Options.Seed, dyingStream)}
	if !w.MayEnd() || !d.random.Chance(dyingShare) {
		return nil
	}
	return d
}

// Start puts it into the queue.
func (d *dying) Start() { d.w.After(d.w.Options.Duration-time.Second, d.prepare) }

// Lasts is how much longer the run is.
func (d *dying) Lasts() time.Duration { return world.LastPrepares + world.LastFor }

// Begun reports whether it is known who dies.
func (d *dying) Begun() bool { return d.site != nil }

// prepare chooses the two sites. What goes to the other site must come back by the same tunnel router: another one
// would not know that it did.
func (d *dying) prepare() {
	w := d.w
	for range 50 {
		p := virtual.Pick(d.random, virtual.Pick(d.random, w.Sites).Prefixes)
		to := w.FlowTo(p)
		if to == nil || !p.Site.MayEnd() || !to.From.Site.MayEnd() || len(to.From.Site.XTRs) > 1 {
			continue
		}
		d.site, d.toSite, d.toOther = p.Site, to, to.Back()
		w.Outlive(p.Site, to.From.Site)
		w.Every(world.LastInterval, func() {
			w.Transmit(d.toSite, false)
			w.Transmit(d.toOther, false)
		})
		w.After(world.LastPrepares, d.die)
		return
	}
}

// die kills the control planes of the site, and nothing else.
func (d *dying) die() {
	w := d.w
	d.diesAt = w.Now
	w.Stats.Faults["control-planes-dead-for-good"]++
	w.Trace.Note(w.Now, d.site.XTRs[0].Index, nil, func() string { return "FAULT the control planes of " + d.site.Name + " die for good" })
	for _, x := range d.site.XTRs {
		w.Router(x).Kill()
	}
}

// Lost judges a packet that was lost.
func (d *dying) Lost(r *world.Router, p packets.Payload, to netip.Addr, why string) {
	if d.diesAt > 0 && (p.Site == uint32(d.site.Index) && p.From == uint32(d.toSite.From.Index) ||
		p.Site == uint32(d.toOther.Destination.Index) && p.From == uint32(d.site.XTRs[0].Index)) {
		d.w.Fail(r, checks.InvariantDeadControl, "packet %d to %s was lost: %s", p.Number, to, why)
	}
}

// Forwarded judges a packet of the two flows that a tunnel router did something else with than to encapsulate it.
func (d *dying) Forwarded(by *world.Router, f *sites.Flow, verdict string) {
	if d.diesAt == 0 || f != d.toSite && f != d.toOther || verdict == "encapsulate" {
		return
	}
	e, _ := by.MappingFor(f)
	d.w.Fail(by, checks.InvariantDeadControl, "%s after the control planes of %s died a packet from %s, by %s, was not encapsulated but: %s; the map-cache has %s",
		d.w.Now-d.diesAt, d.site.Name, f, f.From.Name, verdict, e.Mapping)
}

// Sent judges nothing: what leaves a tunnel router is judged by Forwarded.
func (d *dying) Sent(*sites.Flow, uint32) {}

// HandedOver judges nothing: the sites have no siblings, or they are not judged.
func (d *dying) HandedOver(_, _ *world.Router) {}
