// SPDX-License-Identifier: Apache-2.0

package world

// Control messages that are lost while data packets pass: in some seeds with siblings, when all has been quiet, everywhere, or to or
// from one router, and nothing else happens. Flows between a site with siblings and another one, both ways, whose mappings were in
// the map-caches, lose no packet meanwhile, nor afterwards (RFC 9300 s.10). TTLs outlive the cut, and the siblings probe often
// enough to find it. In some of these seeds one of the siblings loses its path as well, before the cut or after it began; in others all
// routers follow the first one, before it knows that the core does not answer it.

import (
	"fmt"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/virtual"
)

const (
	controlCutStream = 8
	// controlCutShare is in how many seeds with siblings control messages are lost at the end, unless control planes die.
	controlCutShare = 0.9
	// controlCutShortest and controlCutLongest are how long; the run goes on for a minute at least.
	controlCutShortest = 30 * time.Second
	controlCutLongest  = LastFor - time.Minute - controlCutHandover
	// controlCutPathLost is how often a router has lost its path before, controlCutHandover how long before.
	controlCutPathLost = 0.3
	controlCutHandover = time.Minute
	// controlCutPathDead is how often a router loses its path during the cut, unless one has lost it before: after controlCutSoon at the
	// most. controlCutGiven is how long its packets may be lost then: it finds out by data packets that come no more.
	controlCutPathDead = 0.4
	controlCutSoon     = 10 * time.Second
	controlCutGiven    = 35 * time.Second
	// controlCutDeadLasts is how long control messages are lost in that case, at least.
	controlCutDeadLasts = controlCutSoon + controlCutGiven + 20*time.Second
	// controlCutSpreads is how often the loss at one router spreads to all, controlCutSpread after so long at the most.
	controlCutSpreads = 0.4
	controlCutSpread  = 12 * time.Second
	// controlCutOver is when all have their packets back after the end, whose path is whole.
	controlCutOver = 30 * time.Second
	// controlCutProbing is how the siblings probe then.
	controlCutProbing = 5 * time.Second
)

// drawControlCut says whether control messages are lost at the end of this run, which lasts longer then.
func drawControlCut(w *World) {
	w.cuts = virtual.NewRandom(w.Options.Seed, controlCutStream)
	w.Flavour.ControlCut = w.Flavour.Siblings && w.MayEnd() && w.ending == nil && w.cuts.Chance(controlCutShare)
}

// startControlCut puts it into the queue.
func startControlCut(w *World) {
	if w.Flavour.ControlCut {
		w.After(w.Options.Duration-time.Second, func() { prepareControlCut(w) })
	}
}

// prepareControlCut chooses the two sites, one of them with siblings, and gives their mappings a TTL that outlives what follows.
func prepareControlCut(w *World) {
	type choice struct {
		siblings, other *Site
		flows           []*Flow
	}
	var all []choice
	for _, a := range w.Sites {
		for _, b := range w.Sites {
			if a != b && a.Siblings && mayBeCut(a) && mayBeCut(b) {
				all = append(all, choice{a, b, append(flowsBetween(w, a, b), flowsBetween(w, b, a)...)})
			}
		}
	}
	all = slices.DeleteFunc(all, func(c choice) bool { return len(c.flows) == 0 })
	if len(all) == 0 {
		return
	}
	chosen := virtual.Pick(w.cuts, all)
	w.cut.flows, w.cut.judged = chosen.flows, slices.Clone(chosen.flows)
	w.Outlive(chosen.siblings, chosen.other)
	for _, s := range []*Site{chosen.siblings, chosen.other} {
		s.probing = control.ProbingConfig{Interval: controlCutProbing}
		s.Configure()
	}
	w.cut.lostBefore, w.cut.lostMeanwhile = w.cuts.Chance(controlCutPathLost), w.cuts.Chance(controlCutPathDead)
	if !w.cut.lostBefore && w.cut.lostMeanwhile {
		shareAlike(chosen.siblings)
	}
	w.Every(LastInterval, func() {
		for _, f := range w.cut.flows {
			w.Transmit(f, false)
		}
	})
	w.After(LastPrepares, func() { beginControlCut(w, chosen.siblings) })
}

// shareAlike has all locators of a site get packets: each of its routers knows by them that its path is whole.
func shareAlike(s *Site) {
	for _, p := range s.Prefixes {
		for i := range p.policy {
			p.policy[i] = locatorPolicy{1, 50}
		}
	}
	s.Configure()
}

// mayBeCut leaves sites out that something else has happened to.
func mayBeCut(s *Site) bool {
	for _, x := range s.XTRs {
		if x.Sibling.CoreLost > 0 || x.Node == nil {
			return false
		}
	}
	return s.Via.none() && s.Barred == 0 && s.Withdrawn == 0
}

// flowsBetween are flows by one router of a site to another one: its siblings need not know the mapping.
func flowsBetween(w *World, a, b *Site) (flows []*Flow) {
	by := virtual.Pick(w.cuts, a.XTRs)
	for _, from := range a.Prefixes {
		for _, to := range b.Prefixes {
			sameSpace := from.Prefix.Instance() == to.Prefix.Instance() && from.Prefix.Kind() == to.Prefix.Kind()
			if !sameSpace || len(from.Hosts) == 0 || len(to.Hosts) == 0 || a.contains(to.Prefix) {
				continue
			}
			flows = append(flows, &Flow{from: by, source: from.Hosts[0], to: to.Hosts[0], Destination: b})
		}
	}
	return flows
}

// beginControlCut cuts, for a time. In some seeds one router has lost its path before and given its packets to a sibling: they stay
// there though that one goes deaf as well. In others it loses it while all are deaf: data packets decide.
func beginControlCut(w *World, siblings *Site) {
	lasts := w.cuts.Between(controlCutShortest, controlCutLongest)
	switch {
	case w.cut.lostBefore:
		lost := virtual.Pick(w.cuts, siblings.XTRs)
		losePath(w, lost)
		w.After(controlCutHandover, func() {
			cutControl(w, siblings, network.ControlCut[*Router]{}, "everywhere after "+lost.Name+" lost its path", lasts)
		})
	case w.cut.lostMeanwhile:
		lost := w.cut.flows[slices.IndexFunc(w.cut.flows, func(f *Flow) bool { return f.from.Site == siblings })].from
		cutControl(w, siblings, network.ControlCut[*Router]{}, "everywhere before "+lost.Name+" lost its path", max(lasts, controlCutDeadLasts))
		w.After(w.cuts.Between(0, controlCutSoon), func() { losePathWhileDeaf(w, lost) })
	default:
		cut, where := drawPlace(w, virtual.Pick(w.cuts, siblings.XTRs))
		if cut.At != nil && w.cuts.Chance(controlCutSpreads) {
			spread := w.cuts.Between(0, controlCutSpread)
			w.After(spread, func() { w.After(lasts, w.Network.CutControl(network.ControlCut[*Router]{})) })
			where += fmt.Sprintf(", and everywhere after %s", spread)
			lasts += spread
		}
		cutControl(w, siblings, cut, where, lasts)
	}
}

// losePath takes a router all that comes from the core and goes there. Who sends to its site may not know: that is not judged.
func losePath(w *World, lost *Router) {
	w.Trace.Note(w.Now, lost.Index, nil, func() string { return "FAULT the path of " + lost.Name + " is lost" })
	lost.Sibling.CoreLost++
	for i := range lost.Station.Links {
		lost.Station.Links[i].Cut++
	}
	w.cut.judged = slices.DeleteFunc(w.cut.judged, func(f *Flow) bool { return f.Destination == lost.Site })
}

// losePathWhileDeaf does so to a router that data packets come to, as they do to a sibling. That one has its packets soon, if they go on
// to come there, and loses none from then on.
func losePathWhileDeaf(w *World, lost *Router) {
	if !hasDataFromCore(w, lost) || !slices.ContainsFunc(lost.Site.XTRs, func(x *Router) bool { return x != lost && hasDataFromCore(w, x) }) {
		return
	}
	w.Stats.Faults["path-lost-while-deaf"]++
	losePath(w, lost)
	its := slices.DeleteFunc(slices.Clone(w.cut.judged), func(f *Flow) bool { return f.from != lost })
	w.cut.judged = slices.DeleteFunc(w.cut.judged, func(f *Flow) bool { return f.from == lost })
	w.After(controlCutGiven, func() {
		if slices.ContainsFunc(lost.Site.XTRs, func(x *Router) bool { return x != lost && hasDataFromCore(w, x) }) {
			w.cut.judged = append(w.cut.judged, its...)
		}
	})
}

// hasDataFromCore reports whether a packet came to a router lately.
func hasDataFromCore(w *World, x *Router) bool {
	return x.Sibling.watch.DataAt > 0 && w.Now-x.Sibling.watch.DataAt < 2*LastInterval
}

func cutControl(w *World, siblings *Site, cut network.ControlCut[*Router], where string, lasts time.Duration) {
	w.cut.from, w.cut.where = w.Now, where
	w.Stats.Faults["control-cut-alone"]++
	w.Trace.Note(w.Now, siblings.XTRs[0].Index, []byte(where), func() string { return "FAULT control messages are lost, and nothing else: " + where })
	mend := w.Network.CutControl(cut)
	w.After(lasts, func() {
		w.Trace.Note(w.Now, siblings.XTRs[0].Index, []byte(where), func() string { return "END of the loss of control messages: " + where })
		mend()
		w.After(controlCutOver, func() { checkTakenBack(w, siblings) })
	})
}

// checkTakenBack wants routers whose path is whole to have their packets back.
func checkTakenBack(w *World, siblings *Site) {
	for _, x := range siblings.XTRs {
		if x.Sibling.CoreLost == 0 && x.Sibling.path.IsValid() {
			w.Fail(x, invariantControlCut, "%s after the end its packets still go to %s", controlCutOver, x.Sibling.path)
		}
	}
}

// checkHandedDuringCut wants the sibling that gets a router's packets to have the mappings that they use.
func checkHandedDuringCut(r, by *Router) {
	for _, f := range r.W.cut.flows {
		used, known := r.Mirror.Longest(f.instance(), lisp.EIDFromAddr(f.to))
		if f.from != r || r.W.cut.from == 0 || !known || used.Mapping.Negative() {
			continue
		}
		if _, has := by.Mirror.Longest(f.instance(), lisp.EIDFromAddr(f.to)); !has {
			r.W.Fail(r, invariantControlCut, "it gives its packets to %s, which has no mapping for %s", by.Name, f.to)
		}
	}
}

// drawPlace says where control messages are lost.
func drawPlace(w *World, at *Router) (cut network.ControlCut[*Router], where string) {
	if w.cuts.Chance(0.4) {
		return cut, "everywhere"
	}
	cut = network.ControlCut[*Router]{At: &at.Station, Towards: w.cuts.Chance(0.6)}
	cut.From = !cut.Towards || w.cuts.Chance(0.4)
	return cut, fmt.Sprintf("at %s, towards it: %t, from it: %t", at.Name, cut.Towards, cut.From)
}

// isOfTheCut reports whether a packet is of a flow that must not lose any.
func isOfTheCut(w *World, p packets.Payload) bool {
	if w.cut.from == 0 {
		return false
	}
	for _, f := range w.cut.judged {
		if p.Site == uint32(f.Destination.Index) && w.Routers[p.From].Site == f.from.Site {
			return true
		}
	}
	return false
}

// isOfCut reports whether control messages were cut by now, and the flow must not lose a packet.
func isOfCut(w *World, f *Flow) bool { return w.cut.from > 0 && slices.Contains(w.cut.judged, f) }

// awaitDuringCut wants a packet of such a flow to arrive. It may wait for a mapping where that can be had.
func awaitDuringCut(w *World, f *Flow, number uint32) {
	if !isOfCut(w, f) {
		return
	}
	w.awaited[number] = struct{}{}
	w.After(arrivesWithin, func() {
		if _, missing := w.awaited[number]; missing {
			e, _ := f.from.Mirror.Longest(f.instance(), lisp.EIDFromAddr(f.to))
			w.Fail(f.from, invariantControlCut, "packet %d from %s to %s did not arrive, control messages were cut %s %s before; the map-cache has %s",
				number, f.source, f.to, w.cut.where, w.Now-w.cut.from, e.Mapping)
		}
		delete(w.awaited, number)
	})
}

// checkDuringCut judges a packet of such a flow that a tunnel router neither encapsulated nor lets wait.
func checkDuringCut(w *World, by *Router, f *Flow, verdict string) {
	if isOfCut(w, f) && verdict != "encapsulate" && verdict != "wait" {
		w.Fail(by, invariantControlCut, "%s after control messages were cut %s a packet from %s to %s, by %s, was not encapsulated but: %s",
			w.Now-w.cut.from, w.cut.where, f.source, f.to, f.from.Name, verdict)
	}
}
