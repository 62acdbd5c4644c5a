// SPDX-License-Identifier: Apache-2.0

// Package world is a simulated network of LISP routers: real Nodes of package control with the
// model engine as data plane, sites with hosts and flows, and a core that delays, loses,
// doubles and reorders what it carries.
//
// It checks what the protocol promises: invariants.go after each event that touches it and once
// a virtual second, rates.go on the wire, truth.go against what was registered. The first
// promise that is not kept ends the run.
//
// What goes wrong beyond the network, such as faults and attacks, is package sim's: it changes the world
// through the scenario that Run is given.
package world

// The world of a run: its flavour, its sites and routers, all drawn from the seed. It
// is built once; what changes afterwards are the states that fault.go turns.

import (
	"loci/sim/internal/checks"
	"time"

	"loci/sim/internal/network"
	"loci/sim/internal/report"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
)

// What a run is asked, and what it came to.
type (
	Options   = report.Options
	Result    = report.Result
	Stats     = report.Stats
	Violation = report.Violation
)

// New makes the world of a run.
func New(o Options) *World {
	w := &World{Plan: sites.NewPlan(o)}
	o = w.Options
	w.Trace = virtual.Trace{Hash: o.Seed}
	if o.Trace {
		w.Trace.Keep = o.TraceLines
	}
	w.Stats = Stats{Routers: o.Routers, Messages: map[string]uint64{}, Faults: map[string]uint64{}}
	w.Network = network.New(network.Surroundings[*sites.Router]{
		Now: &w.Now, Random: w.Random, Stats: &w.Stats,
		Queue: func(at time.Duration, to *sites.Router, m *Mail) {
			w.queue.Push(at, event{kind: eventArrival, router: w.Router(to), mail: m})
		},
		Lose: func(m *Mail) { w.lostPacket(nil, m, "no router has that address, or its link is cut") },
		Crowd: func(underWay int) {
			w.Fail(nil, checks.InvariantLimits, "%d messages and packets are under way", underWay)
		},
	})
	w.Judge = checks.NewJudge(checks.Run{Plan: w.Plan, Now: &w.Now, Trace: &w.Trace, Stats: &w.Stats, After: w.After})
	return w
}

func (w *World) build() {
	w.DrawFlavour()
	if w.ending = w.scenario.Ending(); w.ending != nil {
		w.Last = w.ending
	}
	w.DrawRouters()
	for _, r := range w.Routers {
		w.routers = append(w.routers, newRouter(w, r))
	}
	w.Stats.Sites, w.Stats.Relays = len(w.Sites), len(w.Relays)
	w.start()
}

// Router is what runs on a router of the plan, nil for none.
func (w *World) Router(r *sites.Router) *Router {
	if r == nil {
		return nil
	}
	return w.routers[r.Index]
}

// start puts the first events into the queue.
func (w *World) start() {
	for _, r := range w.routers {
		w.After(w.Random.Between(0, 3*time.Second), r.Boot)
	}
	startTraffic(w)
	startOutside(w)
	w.Every(checks.SweepInterval, w.Sweep)
	startKinds(w)
	if w.ending != nil {
		w.ending.Start()
	}
	if w.Options.FaultsEnd() > 0 {
		w.scenario.Start()
	}
	w.After(w.Options.FaultsEnd(), func() { w.Network.Loss = 0 })
}
