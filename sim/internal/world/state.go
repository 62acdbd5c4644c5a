// SPDX-License-Identifier: Apache-2.0

package world

// The state of a run: world, routers, links, sites, messages under way, and the scenario that changes them. Nothing here acts.

import (
	"fmt"
	"loci/sim/internal/sites"
	"net/netip"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/internal/jsondoc"
	"loci/lisp"
	"loci/sim/internal/disk"
	"loci/sim/internal/handover"
	"loci/sim/internal/mirror"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/rates"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// World is the state of a run.
type World struct {
	*sites.Plan
	Flapper virtual.Random // of links that flap
	ending  Ending         // nil for none
	Now     time.Duration
	queue   virtual.Queue[event]
	Trace   virtual.Trace
	Truth   truth
	Stats   Stats
	failure *Violation

	routers  []*Router // all that run, in the order of the plan
	scenario scenario
	packets  uint32
	atOnce   int             // events at this moment
	inner    wire.Room       // of what an ECM that is being looked at carries
	used     []control.Usage // room for reports
	heard    []control.Heard

	awaited map[uint32]struct{} // packets of steady flows that have to arrive

	lastUnsettled time.Duration // the last sweep that found something unconverged
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

// Fail ends the run at the first promise that is not kept.
func (w *World) Fail(r *Router, invariant, format string, arguments ...any) {
	if w.failure != nil {
		return
	}
	name := "-"
	if r != nil {
		name = r.Name
	}
	w.failure = &Violation{Invariant: invariant, At: jsondoc.SecondsOf(w.Now), Router: name, Detail: fmt.Sprintf(format, arguments...)}
	w.Trace.Say(w.Now, func() string { return "VIOLATION " + w.failure.Error() })
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
	*sites.Router
	W      *World
	random virtual.Random
	clock  virtual.Clock

	Node         *control.Node // nil while it is down
	Plane        *model.Engine // nil for servers and while the machine is off
	timerAt      time.Duration // of the timer in the queue, 0 for none
	timerFor     time.Time     // the deadline that it is for
	config       control.Config
	configuredAt time.Time
	usageSince   time.Time // the last report of use to this Node, zero for none

	registersWrong bool // with the key of that configuration

	Down int // faults that keep it down

	disk      disk.Disk              // of a Map-Server
	expects   []control.Registration // that have to be on it
	Mirror    mirror.MapCache
	sent      rates.Sender
	Accepted  Acceptance
	states    map[lisp.Path]dataplane.LocatorState // of locators that the Node called anything but up
	heardFrom gleanWatch
	Sibling   siblingState
	uplinks   uplinks
	startedAt time.Time
	own       ownVersions // of the data plane's Database

	passing *passage           // the packet that a relay's data plane is working on
	waiting map[uint32]passage // those that wait there for a mapping, by their numbers
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

// siblingState is what a tunnel router with siblings has more than others.
type siblingState struct {
	said     saidMappings // what its Node announces now
	Watch    handover.Watch
	Path     netip.Addr // whom the site's packets go to, none when it encapsulates them itself
	comeback handover.Comeback
	toAndFro time.Duration // since when two siblings forward by each other, 0 for not
}

// saidMappings is what a Node announces: with the R bits as it sees them.
type saidMappings map[lisp.Prefix]lisp.LocatorSet

var defaultLimits = control.DefaultLimits()

type truth struct {
	locators map[locatorFact]bool
	contents map[content]*validity
	inForce  map[int][]content // by router
	Barred   bool              // a Map-Server was once told to forget a site
	former   []formerOwner
}

// formerOwner is a site that had an address until it went to another one.
type formerOwner struct {
	addr  netip.Addr
	site  *sites.Site
	until time.Duration
}
