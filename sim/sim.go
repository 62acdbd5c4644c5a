// SPDX-License-Identifier: Apache-2.0

// Package sim is the seeded simulator of Loci. It runs the real control.Node, one for
// each tunnel router, Map-Server and Map-Resolver, with the model engine as data plane,
// in virtual time and through a network that delays, loses, doubles, reorders and
// parts; routers crash, links flap, addresses and keys change, and an attacker sends
// whatever may hurt. After every event it checks what the protocol (RFC 9300, RFC 9301)
// promises.
//
// A run is its seed: the same options give the same events and the same trace hash. A
// run lives in one goroutine; seeds run side by side. Nothing here reads a clock, opens
// a socket, or knows what a Node looks like inside: rates and times are measured on the
// simulated wire, and what the tables say is held against what was configured.
//
// The simulated network and its checks are package world. Here are the faults and attacks that
// a run draws from its seed, and how runs are started.
package sim

import (
	"net/netip"

	"loci/sim/internal/natworld"
	"loci/sim/internal/report"
	"loci/sim/internal/world"
)

// Run is one run, in the caller's goroutine.
func Run(o Options) Result {
	r, _ := run(o)
	return r
}

// run is Run with the world as it is at the end.
func run(o Options) (Result, any) {
	if o.NAT {
		w := natworld.New(o)
		w.Run()
		return w.Result(), w
	}
	w := world.New(o)
	w.Run(newFaults(w))
	return w.Result(), w
}

// faults are what goes wrong in a run.
type faults struct {
	w      *world.World
	attack attacker
	forger forger
	relays relayForger
}

func newFaults(w *world.World) *faults {
	f := &faults{w: w, attack: attacker{w: w}}
	return f
}

// Ending is what happens when all has been quiet.
func (f *faults) Ending() world.Ending {
	if d := drawDying(f.w); d != nil {
		return d
	}
	if s := drawReturn(f.w); s != nil {
		return s
	}
	if c := drawControlCut(f.w); c != nil {
		f.w.Flavour.ControlCut = true
		return c
	}
	if s := drawServerReturn(f.w); s != nil {
		return s
	}
	return nil
}

// StartKinds puts the faults of special kinds of sites into the queue.
func (f *faults) StartKinds() {
	w := f.w
	if w.Flavour.Siblings {
		loseCoreForever(w)
	}
	if end := w.Options.FaultsEnd(); end > 0 {
		planFaultsOf(w, w.Kinds, kindFaults(w), end)
		if w.Flavour.Relays {
			planRelayFaults(w, end)
			planExitLoss(w, end)
		}
	}
}

// Start puts all other faults and attacks into the queue.
func (f *faults) Start() {
	planFaults(f.w)
	planFlaps(f.w, f.w.Options.FaultsEnd())
	planControlCuts(f.w, f.w.Options.FaultsEnd())
	f.attack.start()
	f.forger = forger{w: f.w, attacker: &f.attack, random: f.w.Gleans}
	f.forger.start()
	f.relays = relayForger{w: f.w, attacker: &f.attack}
	f.relays.start()
}

// Overhear lets the attacker see a message between routers.
func (f *faults) Overhear(from, to netip.AddrPort, payload []byte) {
	f.attack.overhear(from, to, payload)
}

// What a run is asked, and what it came to.
type (
	Options   = world.Options
	Result    = world.Result
	Stats     = world.Stats
	Violation = world.Violation
)

// The defaults and bounds of Options.
const (
	DefaultRouters        = report.DefaultRouters
	DefaultDuration       = report.DefaultDuration
	DefaultTraceLines     = report.DefaultTraceLines
	MinRouters            = report.MinRouters
	MinDurationWithFaults = report.MinDurationWithFaults
)
