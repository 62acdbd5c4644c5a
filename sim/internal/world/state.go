// SPDX-License-Identifier: Apache-2.0

package world

// The state of a run: world, routers, links, sites, messages under way, and the scenario that changes them. Nothing here acts.

import (
	"loci/sim/internal/checks"
	"net/netip"
	"time"

	"loci/control"
	"loci/sim/internal/disk"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
)

// World is the state of a run.
type World struct {
	*sites.Plan
	*checks.Judge
	Flapper virtual.Random // of links that flap
	ending  Ending         // nil for none
	Now     time.Duration
	queue   virtual.Queue[event]
	Trace   virtual.Trace
	Stats   Stats

	routers  []*Router // all that run, in the order of the plan
	scenario scenario
	packets  uint32
	atOnce   int             // events at this moment
	used     []control.Usage // room for reports
	heard    []control.Heard
}

// scenario is what goes wrong in a run. It knows the world, and the world knows only this of it.
type scenario interface {
	Ending() Ending // what happens at last, nil for nothing
	StartKinds()    // puts the faults of special kinds of sites into the queue
	Start()         // puts all other faults and attacks into the queue
	Overhear(from, to netip.AddrPort, payload []byte)
}

type eventKind uint8

const (
	eventArrival eventKind = iota // mail reaches a router
	eventTimer                    // a Node's deadline
	eventDo                       // anything else
)

type event struct {
	kind   eventKind
	router *Router
	mail   *Mail
	do     func()
}

// After does something later.
func (w *World) After(d time.Duration, do func()) {
	w.queue.Push(w.Now+d, event{kind: eventDo, do: do})
}

// Every does something again and again.
func (w *World) Every(interval time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		w.After(interval, again)
	}
	w.After(interval, again)
}

// Router is one LISP system: its Node, its data plane, and what the checks remember of it.
type Router struct {
	*checks.Record
	W      *World
	random virtual.Random

	timerAt    time.Duration // of the timer in the queue, 0 for none
	timerFor   time.Time     // the deadline that it is for
	usageSince time.Time     // the last report of use to this Node, zero for none

	disk    disk.Disk // of a Map-Server
	uplinks uplinks
}

// Mail is a control message or an encapsulated packet under way.
type Mail = network.Mail

// Link is a way to the core with its address.
type Link = network.Link

// Ending is what happens at last: it begins when all has been quiet, nothing comes after, and convergence does not apply to it.
type Ending interface {
	Start()               // puts it into the queue
	Lasts() time.Duration // how much longer the run is
	Begun() bool
	Forwarded(by *Router, f *sites.Flow, verdict string) // a router did that with a packet of a flow
	Lost(at *Router, p packets.Payload, to netip.Addr, why string)
	Sent(f *sites.Flow, number uint32) // a packet of a flow enters its first router
	HandedOver(r, by *Router)          // a router gives its packets to a sibling
}

var defaultLimits = control.DefaultLimits()

// Fail ends the run at the first promise that is not kept.
func (w *World) Fail(r *Router, invariant, format string, arguments ...any) {
	w.Judge.Fail(w.recordOf(r), invariant, format, arguments...)
}

func (w *World) recordOf(r *Router) *checks.Record {
	if r == nil {
		return nil
	}
	return r.Record
}
