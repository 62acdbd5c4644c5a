// SPDX-License-Identifier: Apache-2.0

package sim

// Faults that only some kinds of sites have: a sibling that loses the core, EID-Prefixes of a
// wide site that are withdrawn, and long outages of all Map-Servers.

import (
	"fmt"
	"time"

	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	// lostForever is in how many of the runs with siblings one of them is without the core to the end.
	lostForever = 0.7
	// nextHopShare is how many of the links that return get their next hops later than the carrier,
	// nextHopLatest how much later.
	nextHopStream = 12
	nextHopShare  = 0.5
	nextHopLatest = 2500 * time.Millisecond
)

func siblingFaults() []Fault {
	return []Fault{
		{"core-link-lost", 60 * time.Second, func(w *world.World) (string, func()) { return loseCore(w, true, false) }},
		{"core-path-lost", 120 * time.Second, func(w *world.World) (string, func()) { return loseCore(w, false, false) }},
		{"both-core-links-lost", 20 * time.Second, func(w *world.World) (string, func()) { return loseCore(w, true, true) }},
		{"both-core-paths-lost", 60 * time.Second, func(w *world.World) (string, func()) { return loseCore(w, false, true) }},
		{"site-link", 40 * time.Second, cutSiteLink},
	}
}

// pickSibling draws a tunnel router that has siblings, nil when there is none.
func pickSibling(w *world.World) *sites.Router {
	var all []*sites.Router
	for _, x := range w.XTRs {
		if x.Site.Siblings {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return virtual.Pick(w.Kinds, all)
}

// loseCore takes a tunnel router its paths to the core, or all of a site theirs. It notices that its links are
// gone, or has to find out that no router answers.
func loseCore(w *world.World, noticed, all bool) (string, func()) {
	x := pickSibling(w)
	if x == nil {
		return "", nil
	}
	hit := []*sites.Router{x}
	if all {
		hit = x.Site.XTRs
	}
	var ends []func()
	for _, r := range hit {
		ends = append(ends, cutOff(w, r, noticed))
	}
	return fmt.Sprintf("%s, noticed: %t, all of the site: %t", x.Name, noticed, all), func() {
		for _, end := range ends {
			end()
		}
	}
}

func cutOff(w *world.World, r *sites.Router, noticed bool) (end func()) {
	r.CoreLost++
	cut := func(by int) {
		for i := range r.Station.Links {
			r.Station.Links[i].Cut += by
		}
	}
	notice := func(by int) {
		w.After(w.Kinds.Between(0, time.Second), func() {
			for i := range r.Station.Links {
				r.Station.Links[i].Noticed += by
			}
			w.Configure(r.Site)
		})
	}
	cut(1)
	if noticed {
		notice(1)
	}
	return func() {
		r.CoreLost--
		if !noticed {
			cut(-1)
			return
		}
		notice(-1)
		own := virtual.NewRandom(w.Options.Seed+uint64(w.Now), nextHopStream)
		if !own.Chance(nextHopShare) {
			cut(-1)
			return
		}
		w.After(own.Between(0, nextHopLatest), func() { cut(-1) }) // the carrier may come before the next hops
	}
}

// loseCoreForever leaves one tunnel router of some site without the core to the end of the run: its sibling
// goes on for it.
func loseCoreForever(w *world.World) {
	end := w.Options.FaultsEnd()
	if end == 0 || !w.Kinds.Chance(lostForever) {
		return
	}
	noticed := w.Kinds.Chance(0.5)
	w.After(w.Kinds.Between(end/2, end), func() {
		if w.Flavour.ControlCut && sitesWithSiblings(w) < 2 {
			return // nothing else is wrong at the end where control messages are lost
		}
		if x := pickSibling(w); x != nil {
			w.Stats.Faults["core-lost-for-good"]++
			w.Trace.Note(w.Now, x.Index, nil, func() string { return fmt.Sprintf("FAULT %s has lost the core for good, noticed: %t", x.Name, noticed) })
			cutOff(w, x, noticed)
		}
	})
}

func sitesWithSiblings(w *world.World) (n int) {
	for _, s := range w.Sites {
		if s.Siblings {
			n++
		}
	}
	return n
}

// cutSiteLink cuts the link between siblings.
func cutSiteLink(w *world.World) (string, func()) {
	x := pickSibling(w)
	if x == nil {
		return "", nil
	}
	x.Station.Inside.Cut++
	return x.Name, func() { x.Station.Inside.Cut-- }
}

func wideFaults() []Fault {
	return []Fault{{"some-withdrawn", 60 * time.Second, withdrawSome}}
}

// withdrawSome takes some EID-Prefixes out of a wide site's Database for a time.
func withdrawSome(w *world.World) (string, func()) {
	for _, s := range w.Sites {
		if len(s.Parts()) == 0 || s.Fewer > 0 {
			continue
		}
		s.Fewer = 2 + w.Kinds.IntN(4)
		w.Configure(s)
		return s.Name, func() {
			s.Fewer = 0
			w.Configure(s)
		}
	}
	return "", nil
}

func outageFaults() []Fault {
	return []Fault{{"long-outage", 5 * time.Minute, loseServers}}
}

// loseServers takes all Map-Servers away, with what they knew.
func loseServers(w *world.World) (string, func()) {
	var ends []func()
	for _, s := range w.Servers {
		if _, end := fell(w, s, (*world.Router).LoseStore); end != nil {
			ends = append(ends, end)
		}
	}
	if len(ends) == 0 {
		return "", nil
	}
	return "all Map-Servers", func() {
		for _, end := range ends {
			end()
		}
	}
}

// kindFaults are the faults that only such sites have.
func kindFaults(w *world.World) []Fault {
	var list []Fault
	if w.Flavour.Siblings {
		list = append(list, siblingFaults()...)
	}
	if w.Flavour.Wide {
		list = append(list, wideFaults()...)
	}
	if w.Flavour.Outage {
		list = append(list, outageFaults()...)
	}
	return list
}
