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
	"fmt"
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// What a run is asked, and what it came to.
type (
	Options   = report.Options
	Result    = report.Result
	Stats     = report.Stats
	Violation = report.Violation
)

// sweepInterval is how often the invariants that no event touched are checked.
const sweepInterval = time.Second

// New makes the world of a run.
func New(o Options) *World {
	w := &World{Options: o.WithDefaults(), Random: virtual.NewRandom(o.Seed, 1)}
	o = w.Options
	w.Trace = virtual.Trace{Hash: o.Seed}
	if o.Trace {
		w.Trace.Keep = o.TraceLines
	}
	w.Stats = Stats{Routers: o.Routers, Messages: map[string]uint64{}, Faults: map[string]uint64{}}
	w.Network = network.New(network.Surroundings[*Router]{
		Now: &w.Now, Random: w.Random, Stats: &w.Stats,
		Queue: func(at time.Duration, to *Router, m *Mail) {
			w.queue.Push(at, event{kind: eventArrival, router: to, mail: m})
		},
		Lose: func(m *Mail) { w.lostPacket(nil, m, "no router has that address, or its link is cut") },
		Crowd: func(underWay int) {
			w.Fail(nil, invariantLimits, "%d messages and packets are under way", underWay)
		},
	})
	w.Truth, w.awaited = newTruth(), map[uint32]struct{}{}
	return w
}

// probings are those that runs choose from: most probe seldom, one as often as by
// default, which costs more messages than all the rest.
func probings() []control.ProbingConfig {
	off, minute := control.ProbingConfig{Off: true}, control.ProbingConfig{Interval: time.Minute}
	return []control.ProbingConfig{off, off, off, minute, minute, minute, {Interval: 30 * time.Second}, {}}
}

func drawFlavour(w *World) {
	r := w.Random
	f := flavour{Families: virtual.Pick(r, []families{{V4: true}, {v6: true}, {true, true}, {true, true}})}
	f.resolvers = r.Chance(0.5)
	f.Overlaps = r.Chance(0.4)
	f.tight = r.Chance(0.125)
	maxDelay := virtual.Pick(r, []time.Duration{5, 20, 60, 150}) * time.Millisecond
	f.FaultGap = virtual.Pick(r, []time.Duration{8, 20, 45}) * time.Second
	f.AttackGap = virtual.Pick(r, []time.Duration{300, 1500, 6000}) * time.Millisecond
	f.probing = virtual.Pick(r, probings())
	f.idle = virtual.Pick(r, []time.Duration{0, 30 * time.Second, 90 * time.Second})
	f.skew = virtual.Pick(r, []time.Duration{0, time.Second, 10 * time.Minute})
	f.network = network.Conditions{MaxDelay: maxDelay, Duplicate: virtual.Pick(r, []float64{0, 0.01, 0.1}), Reorder: virtual.Pick(r, []float64{0, 0.02, 0.2})}
	f.network.Jitter = virtual.Pick(r, []time.Duration{0, 1, 10}) * time.Millisecond
	if !w.Options.Calm {
		f.network.Loss = virtual.Pick(r, []float64{0, 0.01, 0.05, 0.2})
	}
	w.Flavour, w.Network.Conditions = f, f.network
}

// serverCount is how many Map-Servers there are, and Map-Resolvers if they are apart.
const serverCount = 2

func (w *World) build() {
	drawFlavour(w)
	drawGleaning(w)
	drawKinds(w)
	w.ending = w.scenario.Ending()
	for i := range serverCount {
		w.Servers = append(w.Servers, w.addRouter(fmt.Sprintf("ms%d", i+1)))
	}
	w.Resolvers = w.Servers
	if w.Flavour.resolvers && w.Options.Routers > 2*serverCount {
		w.Resolvers = nil
		for i := range serverCount {
			w.Resolvers = append(w.Resolvers, w.addRouter(fmt.Sprintf("mr%d", i+1)))
		}
	}
	for _, s := range w.Routers {
		s.Station.Links = []Link{{Addr: w.NewAddress(true)}, {Addr: w.NewAddress(false)}}
		w.Network.Attach(&s.Station)
	}
	drawRelays(w)
	for len(w.Routers) < w.Options.Routers {
		w.addSite()
	}
	w.Stats.Sites, w.Stats.Relays = len(w.Sites), len(w.Relays)
	w.start()
}

// start puts the first events into the queue.
func (w *World) start() {
	for _, r := range w.Routers {
		w.After(w.Random.Between(0, 3*time.Second), r.Boot)
	}
	startTraffic(w)
	startOutside(w)
	w.Every(sweepInterval, w.sweep)
	startKinds(w)
	if w.ending != nil {
		w.ending.Start()
	}
	if w.Options.FaultsEnd() > 0 {
		w.scenario.Start()
	}
	w.After(w.Options.FaultsEnd(), func() { w.Network.Loss = 0 })
}

func (w *World) addRouter(name string) *Router {
	r := newRouter(w, len(w.Routers), name)
	w.Routers = append(w.Routers, r)
	w.Network.Routers = len(w.Routers)
	return r
}

// NewAddress is an RLOC that no router had yet.
func (w *World) NewAddress(v4 bool) netip.Addr { return w.Network.New(v4) }

// ownerOf is the site of an EID: that of the longest configured EID-Prefix.
func (w *World) ownerOf(instance lisp.InstanceID, eid lisp.EID) (*SitePrefix, bool) {
	return w.Truth.Longest(lisp.HostPrefix(instance, eid))
}
