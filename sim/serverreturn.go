// SPDX-License-Identifier: Apache-2.0

package sim

// Map-Servers that were away: in some seeds, when all has been quiet, one of them or all crash, lose their stores or
// their links, for longer than mappings last and often longer than registrations do, while the steady flows go on,
// one way each. When they are back, all packets of those flows have to be encapsulated within the bar, and to arrive.
// Nothing else happens, and the network loses and reorders nothing.

import (
	"loci/sim/internal/checks"
	"net/netip"
	"slices"
	"time"

	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/sim/internal/world"
)

const (
	serverReturnStream = 14
	// serverReturnShare is in how many seeds without another ending that happens.
	serverReturnShare = 0.8
	// serversAwayShortest and serversAwayLongest are for how long they are away.
	serversAwayShortest = 20 * time.Second
	serversAwayLongest  = 6 * time.Minute
	// allServersAway is how often all of them are.
	allServersAway = 0.7
	// serverReturnTrips is how many messages follow each other at most, beside what waits for a timer: a
	// Map-Register and its Map-Notify, another one of each, and those of a resolution.
	serverReturnTrips = 4 + returnTrips
)

// serverReturn is the absence of Map-Servers; flows is empty before it begins.
type serverReturn struct {
	w      *world.World
	random virtual.Random
	away   time.Duration
	flows  []*sites.Flow
	backAt time.Duration // 0 before they are back
}

// drawServerReturn says whether that happens in this run, nil where it does not.
func drawServerReturn(w *world.World) *serverReturn {
	s := &serverReturn{w: w, random: virtual.NewRandom(w.Options.Seed, serverReturnStream)}
	if !w.MayEnd() || !s.random.Chance(serverReturnShare) {
		return nil
	}
	s.away = s.random.Between(serversAwayShortest, serversAwayLongest)
	return s
}

// Start puts it into the queue.
func (s *serverReturn) Start() { s.w.After(s.w.Options.Duration-time.Second, s.leave) }

// Lasts is how much longer the run is.
func (s *serverReturn) Lasts() time.Duration { return 2*returnWatched + s.away }

// Begun reports whether the Map-Servers were away.
func (s *serverReturn) Begun() bool { return len(s.flows) > 0 }

// leave takes the Map-Servers away, for a time, if there is a flow to judge. Who is not acknowledged cannot find out
// that a Map-Server has lost its registration: it registers after its interval.
func (s *serverReturn) leave() {
	w := s.w
	for _, f := range w.Flows {
		from, to := f.From.Site, f.Destination
		if from != nil && to != nil && from.MayEnd() && to.MayEnd() && to.IsAcknowledged() {
			s.flows = append(s.flows, f)
		}
	}
	if len(s.flows) == 0 {
		return
	}
	how, hit := s.draw()
	var ends []func()
	for _, server := range hit {
		if _, end := how.fell(w, server); end != nil {
			ends = append(ends, end)
		}
	}
	what := how.name + " of " + hit[0].Name
	if len(hit) > 1 {
		what = how.name + " of all Map-Servers"
	}
	w.Stats.Faults["servers-away"]++
	w.Network.Loss, w.Network.Reorder = 0, 0
	w.Trace.Note(w.Now, hit[0].Index, []byte(what), func() string { return "FAULT " + what + ", and nothing else" })
	w.After(s.away, func() {
		w.Trace.Note(w.Now, hit[0].Index, []byte(what), func() string { return "END of " + what })
		for _, end := range ends {
			end()
		}
		s.backAt = w.Now
	})
}

// absence is how Map-Servers are away.
type absence struct {
	name string
	fell func(w *world.World, server *sites.Router) (string, func())
}

// draw says how Map-Servers are away, and which: most often they lose what they knew.
func (s *serverReturn) draw() (how absence, hit []*sites.Router) {
	lost := absence{"loss", func(w *world.World, r *sites.Router) (string, func()) {
		return fell(w, r, (*world.Router).LoseStore)
	}}
	how = virtual.Pick(s.random, []absence{lost, lost, {"crash", crashOf}, {"cut", cutOffServer}})
	hit = s.w.Servers
	if !s.random.Chance(allServersAway) {
		hit = []*sites.Router{virtual.Pick(s.random, hit)}
	}
	return how, hit
}

func crashOf(w *world.World, r *sites.Router) (string, func()) {
	return fell(w, r, (*world.Router).CrashWithStore)
}

func cutOffServer(_ *world.World, r *sites.Router) (string, func()) {
	cut := func(by int) {
		for i := range r.Station.Links {
			r.Station.Links[i].Cut += by
		}
	}
	cut(1)
	return r.Name, func() { cut(-1) }
}

// isDue reports whether all must pass again.
func (s *serverReturn) isDue() bool {
	trip := s.w.Network.MaxDelay + s.w.Network.Jitter
	return s.backAt > 0 && s.w.Now-s.backAt > returnBar+serverReturnTrips*trip
}

// Forwarded judges packets of the flows after the return.
func (s *serverReturn) Forwarded(by *world.Router, f *sites.Flow, verdict string) {
	if !s.isDue() || verdict == "encapsulate" || !slices.Contains(s.flows, f) {
		return
	}
	e, _ := by.MappingFor(f)
	s.w.Fail(by, checks.InvariantReturn,
		"%s after the return of Map-Servers a packet from %s was not encapsulated but: %s; the map-cache has %s",
		s.w.Now-s.backAt, f, verdict, e.Mapping)
}

// Lost judges packets that arrive at a router which cannot deliver them.
func (s *serverReturn) Lost(at *world.Router, p packets.Payload, to netip.Addr, why string) {
	isJudged := func(f *sites.Flow) bool {
		return p.Site == uint32(f.Destination.Index) && s.w.Routers[p.From].Site == f.From.Site
	}
	if s.isDue() && slices.ContainsFunc(s.flows, isJudged) {
		s.w.Fail(at, checks.InvariantReturn, "%s after the return of Map-Servers packet %d to %s was lost: %s",
			s.w.Now-s.backAt, p.Number, to, why)
	}
}

// Sent judges nothing: what leaves a tunnel router is judged by Forwarded.
func (s *serverReturn) Sent(*sites.Flow, uint32) {}

// HandedOver judges nothing: the sites have no siblings, or they are not judged.
func (s *serverReturn) HandedOver(_, _ *world.Router) {}
