// SPDX-License-Identifier: Apache-2.0

package sim

// Control messages that are lost while data packets pass: in some seeds with siblings, when all has been quiet,
// everywhere, or to or from one router, and nothing else happens. Flows between a site with siblings and another one,
// both ways, whose mappings were in the map-caches, lose no packet meanwhile, nor afterwards (RFC 9300 s.10). TTLs
// outlive the cut, and the siblings probe often enough to find it. In some of these seeds one of the siblings loses
// its path as well, before the cut or after it began; in others all routers follow the first one, before it knows
// that the core does not answer it.

import (
	"fmt"
	"loci/sim/internal/checks"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	lastControlCutStream = 8
	// lastControlCutShare is in how many seeds with siblings control messages are lost at the end, unless control
	// planes die.
	lastControlCutShare = 0.9
	// controlCutShortest and controlCutLongest are how long; the run goes on for a minute at least.
	controlCutShortest = 30 * time.Second
	controlCutLongest  = world.LastFor - time.Minute - controlCutHandover
	// controlCutPathLost is how often a router has lost its path before, controlCutHandover how long before.
	controlCutPathLost = 0.3
	controlCutHandover = time.Minute
	// controlCutPathDead is how often a router loses its path during the cut, unless one has lost it before:
	// after controlCutSoon at the most. controlCutGiven is how long its packets may be lost then: it finds out by
	// data packets that come no more.
	controlCutPathDead = 0.4
	controlCutSoon     = 10 * time.Second
	controlCutGiven    = 35 * time.Second
	// controlCutDeadLasts is how long control messages are lost in that case, at least.
	controlCutDeadLasts = controlCutSoon + controlCutGiven + 20*time.Second
	// controlCutSpreads is how often the loss at one router spreads to all, controlCutSpread after so long at the
	// most.
	controlCutSpreads = 0.4
	controlCutSpread  = 12 * time.Second
	// controlCutOver is when all have their packets back after the end, whose path is whole.
	controlCutOver = 30 * time.Second
	// controlCutProbing is how the siblings probe then.
	controlCutProbing = 5 * time.Second
)

// controlCut is the loss of control messages at the end of a run; flows are empty before they are chosen.
type controlCut struct {
	w      *world.World
	random virtual.Random
	flows  []*sites.Flow
	judged []*sites.Flow // those that must not lose a packet
	from   time.Duration // when it began, 0 before
	where  string

	lostBefore, lostMeanwhile bool // a router loses its path before, or while all are deaf
}

// drawControlCut says whether control messages are lost at the end of this run, nil where they are not.
func drawControlCut(w *world.World) *controlCut {
	c := &controlCut{w: w, random: virtual.NewRandom(w.Options.Seed, lastControlCutStream)}
	if !w.Flavour.Siblings || !w.MayEnd() || !c.random.Chance(lastControlCutShare) {
		return nil
	}
	return c
}

// Start puts it into the queue.
func (c *controlCut) Start() { c.w.After(c.w.Options.Duration-time.Second, c.prepare) }

// Lasts is how much longer the run is.
func (c *controlCut) Lasts() time.Duration { return world.LastPrepares + world.LastFor }

// Begun reports whether the two sites are chosen.
func (c *controlCut) Begun() bool { return len(c.flows) > 0 }

// prepare chooses the two sites, one of them with siblings, and gives their mappings a TTL that outlives what
// follows.
func (c *controlCut) prepare() {
	w := c.w
	type choice struct {
		siblings, other *sites.Site
		flows           []*sites.Flow
	}
	var all []choice
	for _, a := range w.Sites {
		for _, b := range w.Sites {
			if a != b && a.Siblings && mayBeCut(w, a) && mayBeCut(w, b) {
				all = append(all, choice{a, b, append(c.flowsBetween(a, b), c.flowsBetween(b, a)...)})
			}
		}
	}
	all = slices.DeleteFunc(all, func(of choice) bool { return len(of.flows) == 0 })
	if len(all) == 0 {
		return
	}
	chosen := virtual.Pick(c.random, all)
	c.flows, c.judged = chosen.flows, slices.Clone(chosen.flows)
	w.Outlive(chosen.siblings, chosen.other)
	for _, s := range []*sites.Site{chosen.siblings, chosen.other} {
		s.Probing = control.ProbingConfig{Interval: controlCutProbing}
		w.Configure(s)
	}
	c.lostBefore, c.lostMeanwhile = c.random.Chance(controlCutPathLost), c.random.Chance(controlCutPathDead)
	if !c.lostBefore && c.lostMeanwhile {
		chosen.siblings.ShareAlike()
		w.Configure(chosen.siblings)
	}
	w.Every(world.LastInterval, func() {
		for _, f := range c.flows {
			w.Transmit(f, false)
		}
	})
	w.After(world.LastPrepares, func() { c.begin(chosen.siblings) })
}

// mayBeCut leaves sites out that something else has happened to.
func mayBeCut(w *world.World, s *sites.Site) bool {
	for _, x := range s.XTRs {
		if x.CoreLost > 0 || w.Router(x).Node == nil {
			return false
		}
	}
	return s.IsUntouched()
}

// flowsBetween are flows by one router of a site to another one: its siblings need not know the mapping.
func (c *controlCut) flowsBetween(a, b *sites.Site) (flows []*sites.Flow) {
	by := virtual.Pick(c.random, a.XTRs)
	for _, from := range a.Prefixes {
		for _, to := range b.Prefixes {
			sameSpace := from.Prefix.Instance() == to.Prefix.Instance() && from.Prefix.Kind() == to.Prefix.Kind()
			if !sameSpace || len(from.Hosts) == 0 || len(to.Hosts) == 0 || a.Contains(to.Prefix) {
				continue
			}
			flows = append(flows, &sites.Flow{From: by, Source: from.Hosts[0], To: to.Hosts[0], Destination: b})
		}
	}
	return flows
}

// begin cuts, for a time. In some seeds one router has lost its path before and given its packets to a sibling: they
// stay there though that one goes deaf as well. In others it loses it while all are deaf: data packets decide.
func (c *controlCut) begin(siblings *sites.Site) {
	w := c.w
	lasts := c.random.Between(controlCutShortest, controlCutLongest)
	switch {
	case c.lostBefore:
		lost := virtual.Pick(c.random, siblings.XTRs)
		c.losePath(lost)
		w.After(controlCutHandover, func() {
			c.cut(siblings, network.ControlCut[*sites.Router]{}, "everywhere after "+lost.Name+" lost its path", lasts)
		})
	case c.lostMeanwhile:
		lost := c.flows[slices.IndexFunc(c.flows, func(f *sites.Flow) bool { return f.From.Site == siblings })].From
		c.cut(siblings, network.ControlCut[*sites.Router]{}, "everywhere before "+lost.Name+" lost its path", max(lasts, controlCutDeadLasts))
		w.After(c.random.Between(0, controlCutSoon), func() { c.losePathWhileDeaf(lost) })
	default:
		cut, where := c.drawPlace(virtual.Pick(c.random, siblings.XTRs))
		if cut.At != nil && c.random.Chance(controlCutSpreads) {
			spread := c.random.Between(0, controlCutSpread)
			w.After(spread, func() { w.After(lasts, w.Network.CutControl(network.ControlCut[*sites.Router]{})) })
			where += fmt.Sprintf(", and everywhere after %s", spread)
			lasts += spread
		}
		c.cut(siblings, cut, where, lasts)
	}
}

// losePath takes a router all that comes from the core and goes there. Who sends to its site may not know: that is
// not judged.
func (c *controlCut) losePath(lost *sites.Router) {
	w := c.w
	w.Trace.Note(w.Now, lost.Index, nil, func() string { return "FAULT the path of " + lost.Name + " is lost" })
	lost.CoreLost++
	for i := range lost.Station.Links {
		lost.Station.Links[i].Cut++
	}
	c.judged = slices.DeleteFunc(c.judged, func(f *sites.Flow) bool { return f.Destination == lost.Site })
}

// losePathWhileDeaf does so to a router that data packets come to, as they do to a sibling. That one has its packets
// soon, if they go on to come there, and loses none from then on.
func (c *controlCut) losePathWhileDeaf(lost *sites.Router) {
	w := c.w
	if !hasDataFromCore(w, lost) || !slices.ContainsFunc(lost.Site.XTRs, func(x *sites.Router) bool { return x != lost && hasDataFromCore(w, x) }) {
		return
	}
	w.Stats.Faults["path-lost-while-deaf"]++
	c.losePath(lost)
	its := slices.DeleteFunc(slices.Clone(c.judged), func(f *sites.Flow) bool { return f.From != lost })
	c.judged = slices.DeleteFunc(c.judged, func(f *sites.Flow) bool { return f.From == lost })
	w.After(controlCutGiven, func() {
		if slices.ContainsFunc(lost.Site.XTRs, func(x *sites.Router) bool { return x != lost && hasDataFromCore(w, x) }) {
			c.judged = append(c.judged, its...)
		}
	})
}

// hasDataFromCore reports whether a packet came to a router lately.
func hasDataFromCore(w *world.World, x *sites.Router) bool {
	last := w.Router(x).Sibling.Watch.DataAt
	return last > 0 && w.Now-last < 2*world.LastInterval
}

func (c *controlCut) cut(siblings *sites.Site, cut network.ControlCut[*sites.Router], where string, lasts time.Duration) {
	w := c.w
	c.from, c.where = w.Now, where
	w.Stats.Faults["control-cut-alone"]++
	w.Trace.Note(w.Now, siblings.XTRs[0].Index, []byte(where), func() string { return "FAULT control messages are lost, and nothing else: " + where })
	mend := w.Network.CutControl(cut)
	w.After(lasts, func() {
		w.Trace.Note(w.Now, siblings.XTRs[0].Index, []byte(where), func() string { return "END of the loss of control messages: " + where })
		mend()
		w.After(controlCutOver, func() { c.checkTakenBack(siblings) })
	})
}

// checkTakenBack wants routers whose path is whole to have their packets back.
func (c *controlCut) checkTakenBack(siblings *sites.Site) {
	for _, planned := range siblings.XTRs {
		x := c.w.Router(planned)
		if x.CoreLost == 0 && x.Sibling.Path.IsValid() {
			c.w.Fail(x, checks.InvariantControlCut, "%s after the end its packets still go to %s", controlCutOver, x.Sibling.Path)
		}
	}
}

// HandedOver wants the sibling that gets a router's packets to have the mappings that they use.
func (c *controlCut) HandedOver(r, by *world.Router) {
	for _, f := range c.flows {
		used, known := r.MappingFor(f)
		if f.From != r.Router || c.from == 0 || !known || used.Mapping.Negative() {
			continue
		}
		if _, has := by.MappingFor(f); !has {
			c.w.Fail(r, checks.InvariantControlCut, "it gives its packets to %s, which has no mapping for %s", by.Name, f.To)
		}
	}
}

// drawPlace says where control messages are lost.
func (c *controlCut) drawPlace(at *sites.Router) (cut network.ControlCut[*sites.Router], where string) {
	if c.random.Chance(0.4) {
		return cut, "everywhere"
	}
	cut = network.ControlCut[*sites.Router]{At: &at.Station, Towards: c.random.Chance(0.6)}
	cut.From = !cut.Towards || c.random.Chance(0.4)
	return cut, fmt.Sprintf("at %s, towards it: %t, from it: %t", at.Name, cut.Towards, cut.From)
}

// Lost judges a packet of a flow that must not lose any.
func (c *controlCut) Lost(at *world.Router, p packets.Payload, to netip.Addr, why string) {
	isJudged := func(f *sites.Flow) bool {
		return p.Site == uint32(f.Destination.Index) && c.w.Routers[p.From].Site == f.From.Site
	}
	if c.from > 0 && slices.ContainsFunc(c.judged, isJudged) {
		c.w.Fail(at, checks.InvariantControlCut, "packet %d to %s was lost: %s", p.Number, to, why)
	}
}

// judges reports whether control messages were cut by now, and the flow must not lose a packet.
func (c *controlCut) judges(f *sites.Flow) bool { return c.from > 0 && slices.Contains(c.judged, f) }

// Sent wants a packet of such a flow to arrive. It may wait for a mapping where that can be had.
func (c *controlCut) Sent(f *sites.Flow, number uint32) {
	if !c.judges(f) {
		return
	}
	c.w.Await(number, func() {
		from := c.w.Router(f.From)
		e, _ := from.MappingFor(f)
		c.w.Fail(from, checks.InvariantControlCut, "packet %d from %s did not arrive, control messages were cut %s %s before; the map-cache has %s",
			number, f, c.where, c.w.Now-c.from, e.Mapping)
	})
}

// Forwarded judges a packet of such a flow that a tunnel router neither encapsulated nor lets wait.
func (c *controlCut) Forwarded(by *world.Router, f *sites.Flow, verdict string) {
	if c.judges(f) && verdict != "encapsulate" && verdict != "wait" {
		c.w.Fail(by, checks.InvariantControlCut, "%s after control messages were cut %s a packet from %s, by %s, was not encapsulated but: %s",
			c.w.Now-c.from, c.where, f, f.From.Name, verdict)
	}
}
