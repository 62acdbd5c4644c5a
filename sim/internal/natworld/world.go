// SPDX-License-Identifier: Apache-2.0

// Package natworld is a simulated network of nodes behind NATs (draft-ermagan-lisp-nat-traversal): real Nodes of
// package control with the model engine as data plane, NAT boxes before them, a Map-Server and up to three RTRs on the
// Internet, and some sites there. Boxes forget their bindings, give them other ports and get other addresses; nodes
// move from one NAT to another; routers crash. An attacker forges and replays what makes bindings.
//
// What must hold is in checks.go. The first promise that is not kept ends the run. A run is its seed.
package natworld

import (
	"fmt"
	"runtime/debug"
	"time"

	"loci/internal/jsondoc"
	"loci/sim/internal/network"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// World is the state of a run.
type World struct {
	options report.Options
	now     time.Duration
	queue   virtual.Queue[event]
	trace   virtual.Trace
	stats   report.Stats
	random  virtual.Random
	network network.Network[*place]
	flavour flavour

	servers []*router // Map-Servers
	rtrs    rtrs      // the first one may be a Map-Server as well
	sites   []*router // the nodes behind NATs, and sites on the Internet
	all     []*router
	boxes   []*box
	flows   []*flow

	checks
	attacker attacker
	outage   *outage // nil for none
	packets  uint32
	atOnce   int // events at this moment
}

// event is something that happens at a time: do, or a timer of a router's Node, or a message that arrives.
type event struct {
	do     func()
	timer  *router
	at     *place
	mail   *network.Mail
	inside bool // from a router of the same network
}

// place is where an address leads to: a router or a box.
type place struct {
	router *router
	box    *box
}

// New makes the world of a run.
func New(o report.Options) *World {
	o = o.WithDefaults()
	w := &World{options: o, random: virtual.NewRandom(o.Seed, natStream), trace: virtual.Trace{Hash: o.Seed ^ natStream}, checks: newChecks()}
	if o.Trace {
		w.trace.Keep = o.TraceLines
	}
	w.stats = report.Stats{Routers: o.Routers, Messages: map[string]uint64{}, Faults: map[string]uint64{}}
	w.network = network.New(network.Surroundings[*place]{
		Now: &w.now, Random: w.random, Stats: &w.stats,
		Queue: func(at time.Duration, to *place, m *network.Mail) { w.queue.Push(at, event{at: to, mail: m}) },
		Lose:  func(*network.Mail) {},
		Crowd: func(underWay int) {
			w.fail(nil, invariantLimits, "%d messages and packets are under way", underWay)
		},
	})
	w.attacker = attacker{w: w, random: virtual.NewRandom(o.Seed, attackStream)}
	return w
}

// The streams of random numbers of such a run.
const (
	natStream    = 400
	attackStream = 401
	routerStream = 1000
)

// Run turns a panic of the protocol code into a violation, with its place.
func (w *World) Run() {
	defer func() {
		if reason := recover(); reason != nil {
			w.fail(nil, invariantNoPanic, "%v\n%s", reason, debug.Stack())
		}
	}()
	w.build()
	w.start()
	w.loop()
}

// start puts the first events into the queue.
func (w *World) start() {
	for _, r := range w.all {
		w.after(w.random.Between(0, startsWithin), r.boot)
		w.after(w.random.Between(0, usageInterval), func() { w.every(usageInterval, r.reportUsage) })
	}
	for _, f := range w.flows {
		w.after(w.random.Between(0, f.interval), func() { w.every(f.interval, func() { w.transmit(f) }) })
	}
	w.every(sweepInterval, w.sweep)
	if w.options.FaultsEnd() > 0 {
		w.planFaults()
		w.attacker.start()
	}
	w.outage.plan(w)
	w.after(w.options.FaultsEnd(), func() { w.network.Loss = 0 })
}

// startsWithin is when all routers have started.
const startsWithin = 3 * time.Second

// calmSince is when the last fault is over, and all routers run.
func (w *World) calmSince() time.Duration { return max(w.options.FaultsEnd(), startsWithin) }

// maxAtOnce bounds the events of one moment for each router.
const maxAtOnce = 200

func (w *World) loop() {
	for w.failure == nil {
		at, e, ok := w.queue.Pop()
		if !ok || at > w.options.Duration {
			w.now = w.options.Duration
			return
		}
		if w.atOnce++; at > w.now {
			w.atOnce = 0
		}
		if w.atOnce > maxAtOnce*(len(w.all)+10) {
			w.fail(nil, invariantLimits, "time stands still: %d events at one moment", w.atOnce)
			return
		}
		w.now = at
		w.stats.Events++
		w.handle(e)
	}
}

func (w *World) handle(e event) {
	switch {
	case e.do != nil:
		e.do()
	case e.timer != nil:
		e.timer.timer(w.now)
	case e.inside && e.at.router != nil: // a NAT of that network is no LISP router
		e.at.router.arrive(e.mail, e.mail.To)
	case e.inside:
	default:
		w.arrive(e.at, e.mail)
	}
}

func (w *World) after(d time.Duration, do func()) { w.queue.Push(w.now+d, event{do: do}) }

func (w *World) every(interval time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		w.after(interval, again)
	}
	w.after(interval, again)
}

// Result is what the run came to.
func (w *World) Result() report.Result {
	w.stats.Virtual = jsondoc.SecondsOf(w.now)
	if w.unreachedAt > w.calmSince() {
		w.stats.Convergence = jsondoc.SecondsOf(w.unreachedAt - w.calmSince())
	}
	w.stats.Converged = w.failure == nil
	return report.Result{Seed: w.options.Seed, Hash: w.trace.Hash, Violation: w.failure, Stats: w.stats, Trace: w.trace.Lines()}
}

// fail ends the run at the first promise that is not kept.
func (w *World) fail(r *router, invariant, format string, arguments ...any) {
	if w.failure != nil {
		return
	}
	name := "-"
	if r != nil {
		name = r.name
	}
	w.failure = &report.Violation{Invariant: invariant, At: jsondoc.SecondsOf(w.now), Router: name, Detail: fmt.Sprintf(format, arguments...)}
	w.trace.Say(w.now, func() string { return "VIOLATION " + w.failure.Error() })
}
