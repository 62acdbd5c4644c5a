// SPDX-License-Identifier: Apache-2.0

// Package checks holds a simulated run against what the protocol promises: after each event that touches an
// invariant, once a virtual second, and against what was configured. The first promise that is not kept ends the run.
// It looks at Nodes and data planes, and changes neither.
package checks

import (
	"fmt"
	"net/netip"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/internal/jsondoc"
	"loci/lisp"
	"loci/sim/internal/handover"
	"loci/sim/internal/mirror"
	"loci/sim/internal/rates"
	"loci/sim/internal/report"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// Run is what a judge reads of a run. The world has it and changes it; Stats get what a judge finds out.
type Run struct {
	*sites.Plan
	Now   *time.Duration
	Trace *virtual.Trace
	Stats *report.Stats
	After func(d time.Duration, do func()) // has something done later
}

// Judge holds a run against what the protocol promises.
type Judge struct {
	Run
	Last  interface{ Begun() bool } // what happens at last, and convergence does not apply to; nil for nothing: the world sets it once
	Truth truth

	records       []*Record
	Failure       *report.Violation
	Awaited       map[uint32]struct{} // packets of steady flows that have to arrive
	Inner         wire.Room           // of what an ECM that is being looked at carries
	lastUnsettled time.Duration       // the last sweep that found something unconverged
}

// Running is what runs on a router. The world and its faults set it; the checks read it.
type Running struct {
	Clock     virtual.Clock
	Node      *control.Node // nil while it is down
	Plane     *model.Engine // nil for servers and while the machine is off
	Down      int           // faults that keep it down
	StartedAt time.Time
}

// Record is a router as the checks see it, and what they remember of it. What a Node has done (Expects, Mirror,
// States, Sibling.Path, Own) the world notes as it carries that out; all else only the checks set.
type Record struct {
	*sites.Router
	Running
	judge *Judge

	Config         control.Config // of the Node
	ConfiguredAt   time.Time
	registersWrong bool    // with the key of that configuration
	up             linksUp // when it was configured

	Expects   []control.Registration // that have to be on a Map-Server's disk
	Mirror    mirror.MapCache
	Sent      rates.Sender
	Accepted  Acceptance
	States    map[lisp.Path]dataplane.LocatorState // of locators that the Node called anything but up
	HeardFrom gleanWatch
	Sibling   siblingState
	Own       ownVersions // of the data plane's Database

	passing *Passage           // the packet that a relay's data plane is working on
	waiting map[uint32]Passage // those that wait there for a mapping, by their numbers
}

// linksUp are the RLOCs of links that are up.
type linksUp []lisp.RLOC

// NewJudge makes the judge of a run.
func NewJudge(run Run) *Judge {
	return &Judge{Run: run, Truth: newTruth(), Awaited: map[uint32]struct{}{}}
}

// Add has the judge look at a router.
func (j *Judge) Add(r *sites.Router, clock virtual.Clock) *Record {
	record := &Record{Router: r, Running: Running{Clock: clock}, judge: j}
	if r.Relay != nil {
		record.waiting = map[uint32]Passage{}
	}
	j.records = append(j.records, record)
	return record
}

// Record is what is known of a router, nil for none.
func (j *Judge) Record(r *sites.Router) *Record {
	if r == nil {
		return nil
	}
	return j.records[r.Index]
}

// LosesTables notes that a router's data plane begins with nothing.
func (r *Record) LosesTables() {
	r.Mirror.Clear()
	r.States = map[lisp.Path]dataplane.LocatorState{}
	r.HeardFrom, r.Own = gleanWatch{}, ownVersions{}
}

// Restarts notes that a router's Node begins anew.
func (r *Record) Restarts() {
	r.Sent.Restart()
	r.Accepted = Acceptance{}
	r.Sibling.Said, r.Sibling.Path = nil, netip.Addr{}
	r.Sibling.Watch.Restart()
}

// Stops notes that it ended.
func (r *Record) Stops() { r.judge.Truth.retire(r) }

// Configures notes what the operator wants now, which is in force from now on.
func (r *Record) Configures() {
	if r.Site != nil {
		r.up.note(r.Station.Links)
		r.Sibling.comeback.Links(r.judge.now(), hasLinkUp(r))
	}
	r.Config, r.ConfiguredAt, r.registersWrong = r.Configuration(), r.Time(), r.WrongKey > 0
	r.judge.Truth.record(r)
}

func (j *Judge) now() time.Duration { return *j.Now }

// Fail ends the run at the first promise that is not kept.
func (j *Judge) Fail(r *Record, invariant, format string, arguments ...any) {
	if j.Failure != nil {
		return
	}
	name := "-"
	if r != nil {
		name = r.Name
	}
	j.Failure = &report.Violation{Invariant: invariant, At: jsondoc.SecondsOf(j.now()), Router: name, Detail: fmt.Sprintf(format, arguments...)}
	j.Trace.Say(j.now(), func() string { return "VIOLATION " + j.Failure.Error() })
}

// isEnding reports whether something has begun that nothing comes after, and to which convergence does not apply.
func (j *Judge) isEnding() bool { return j.Last != nil && j.Last.Begun() }

// Time is the router's own clock, which may differ from that of others.
func (r *Record) Time() time.Time { return r.Clock.At(r.judge.now()) }

// view is what the router knows of locators.
func view(r *Record) *mirror.View {
	return &mirror.View{States: r.States, Own: r.Config.LocalRLOCs, Relays: r.Relay.Is(control.RoleRTR)}
}

// IsDown reports whether the Node called a locator down.
func (r *Record) IsDown(path lisp.Path) bool { return r.States[path] == dataplane.LocatorDown }

// MappingFor is the mapping that a router has for a flow.
func (r *Record) MappingFor(f *sites.Flow) (e control.MapCacheEntry, known bool) {
	return r.Mirror.Longest(f.Instance(), lisp.EIDFromAddr(f.To))
}

// siblingState is what a tunnel router with siblings has more than others.
type siblingState struct {
	Said     saidMappings // what its Node announces now
	Watch    handover.Watch
	Path     netip.Addr // whom the site's packets go to, none when it encapsulates them itself
	comeback handover.Comeback
	toAndFro time.Duration // since when two siblings forward by each other, 0 for not
}

// saidMappings is what a Node announces: with the R bits as it sees them.
type saidMappings map[lisp.Prefix]lisp.LocatorSet

// NoteConvergence notes since when everything was as the configuration says.
func (j *Judge) NoteConvergence() {
	settledAt := j.lastUnsettled + SweepInterval
	if j.lastUnsettled >= j.CalmSince() {
		j.Stats.Convergence = jsondoc.SecondsOf(settledAt - j.CalmSince())
	}
	j.Stats.Converged = settledAt < j.now()
}
