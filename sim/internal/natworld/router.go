// SPDX-License-Identifier: Apache-2.0

package natworld

// A router: the real Node, the model engine beside it, and a clock that is not quite right. It does what the daemon
// does.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/internal/nodeplane"
	"loci/lisp"
	"loci/sim/internal/disk"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/virtual"
	"loci/wire"
)

const (
	// usageInterval is how often the use of mappings is reported to the Node.
	usageInterval = 10 * time.Second
	// maxEffects bounds what one turn of a Node may want done.
	maxEffects = 20_000
)

// router is a LISP router.
type router struct {
	w       *World
	index   int
	name    string
	place   *place
	station network.Station[*place]
	behind  *box                         // nil: it is on the Internet
	away    int                          // moves under way: it has no network
	had     map[netip.Addr]time.Duration // former addresses, and until when
	down    int                          // faults that keep it down
	frozen  bool                         // it takes and does nothing, and keeps all that it has
	isRTR   bool

	isSite       bool
	number       int // among the sites
	instance     lisp.InstanceID
	prefixes     []lisp.Prefix
	key          control.Key
	proxy        bool
	withoutXTRID bool
	ownID        [16]byte // of such a router, which its daemon keeps
	keepalive    time.Duration
	ttlMinutes   uint32

	clock      virtual.Clock
	random     virtual.Random
	node       *control.Node // nil while it is down
	plane      *model.Engine // nil while the machine is off
	config     control.Config
	rtrs       []lisp.RLOC // that may send control messages in data packets
	timerAt    time.Duration
	timerFor   time.Time
	usageSince time.Time
	disk       disk.Disk
}

func (r *router) time() time.Time { return r.clock.At(r.w.now) }

// boot starts machine and process.
func (r *router) boot() {
	if r.hasPlane() && r.plane == nil {
		r.plane = model.New(model.Options{Now: r.time, Emit: r.emit})
	}
	r.usageSince = time.Time{}
	r.config, r.rtrs = r.configuration(), nil
	r.configurePlane()
	node, err := control.New(r.config, r.time(), r.random.Fill)
	if err != nil {
		panic(err)
	}
	if r.node = node; r.withoutXTRID {
		node.SetXTRID(r.ownID)
	}
	r.restore()
	r.drain()
	r.raiseEvents()
}

// restore gives the Node what disk and data plane kept.
func (r *router) restore() {
	for _, p := range r.disk.Pieces {
		if err := r.node.ReplayJournal(r.time(), p.Octets); err != nil {
			r.w.fail(r, invariantLimits, "its journal: %v", err)
		}
	}
	if r.plane == nil {
		return
	}
	r.node.AdoptDatabase(r.time(), nodeplane.Database(r.plane))
	var kept []control.MapCacheEntry
	for e := range r.plane.Mappings() {
		kept = append(kept, nodeplane.NodeEntry(e))
	}
	slices.SortFunc(kept, func(a, b control.MapCacheEntry) int { return a.Mapping.Prefix.Compare(b.Mapping.Prefix) })
	if len(kept) > 0 {
		r.node.AdoptMapCache(r.time(), kept)
	}
	var states []control.SetLocatorState
	for path, state := range r.plane.LocatorStates() {
		states = append(states, control.SetLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: nodeplane.NodeState(state)})
	}
	if len(states) > 0 {
		r.node.AdoptLocatorStates(r.time(), states)
	}
}

// stop ends the process, by a crash or in order; the data plane goes on.
func (r *router) stop(orderly bool) {
	if orderly {
		for r.node.Shutdown(r.time()) {
			r.drain()
		}
		r.drain()
	}
	r.node, r.timerAt = nil, 0
	if r.disk.Crash(r.w.now); r.isMapServer() {
		r.w.attacker.forget(nil, disk.Delay) // which it does not know any more
	}
	if r.isRTR {
		r.w.attacker.forget(r, duplicateLasts)
	}
	r.w.acknowledged.forget(r)
}

// configure puts what the operator wants now in force.
func (r *router) configure() {
	if r.node == nil {
		return
	}
	r.config = r.configuration()
	r.configurePlane()
	if err := r.node.Configure(r.time(), r.config); err != nil {
		panic(err)
	}
	r.drain()
}

// timer is a deadline of the Node. One that has moved meanwhile is stale.
func (r *router) timer(at time.Duration) {
	if r.node == nil || r.frozen || at != r.timerAt {
		return
	}
	r.timerAt = 0
	r.w.trace.Note(at, r.index, nil, func() string { return r.name + " timer" })
	r.node.HandleTimeout(r.time())
	r.drain()
}

// schedule puts the next deadline into the queue, unless an earlier one stands there.
func (r *router) schedule() {
	deadline, ok := r.node.NextDeadline()
	if !ok || r.timerAt != 0 && !deadline.Before(r.timerFor) {
		return
	}
	at := max(r.clock.Until(deadline), r.w.now)
	if r.timerAt != 0 && r.timerAt <= at {
		return
	}
	r.timerAt, r.timerFor = at, deadline
	r.w.queue.Push(at, event{timer: r})
}

// drain carries out what the Node wants done.
func (r *router) drain() {
	n := 0
	for e, ok := r.node.Poll(); ok; e, ok = r.node.Poll() {
		if n++; n > maxEffects {
			r.w.fail(r, invariantLimits, "more than %d effects in one turn", maxEffects)
			return
		}
		r.carryOut(e)
	}
	r.schedule()
}

// carryOut does one effect. Those of a kind that is not of this world are left.
func (r *router) carryOut(e control.Effect) {
	switch e := e.(type) {
	case control.SendPacket:
		r.send(e)
	case control.InstallMapping:
		r.w.trace.Say(r.w.now, func() string { return r.name + " installs " + e.Mapping.String() })
		r.checkInstalled(e.Mapping)
		r.apply(dataplane.PutMapping{Entry: nodeplane.PlaneEntry(e.MapCacheEntry)})
	case control.RemoveMapping:
		r.w.trace.Say(r.w.now, func() string { return r.name + " removes " + e.Prefix.String() + ": " + string(e.Reason) })
		r.plane.Apply(dataplane.DeleteMapping{Prefix: e.Prefix})
	case control.InstallDatabase:
		r.apply(dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: e.Prefix, Locators: e.Locators, Version: e.Version}})
	case control.RemoveDatabase:
		r.plane.Apply(dataplane.DeleteDatabase{Prefix: e.Prefix})
	case control.SetLocatorState:
		r.apply(dataplane.PutLocatorState{RLOC: e.RLOC, Behind: e.Behind, State: nodeplane.PlaneState(e.State)})
	case control.SetRTRs:
		r.rtrs = e.RTRs
		r.configurePlane()
	case control.Journal:
		if r.disk.Store(r.w.now, e) {
			r.node.Checkpoint(r.time())
		}
	case control.Notice:
		r.w.trace.Say(r.w.now, func() string {
			return r.name + " notices " + string(e.Kind) + " " + e.Prefix.String() + " " + e.Remote.String() + " " + e.Detail
		})
	}
}

// apply makes the engine do something that it cannot refuse.
func (r *router) apply(operation dataplane.Operation) {
	if failed := r.plane.Apply(operation); failed != nil {
		r.w.fail(r, invariantPlane, "%T: %v", operation, failed[0])
	}
}

// send carries out the effect SendPacket.
func (r *router) send(p control.SendPacket) {
	preferred := func(yield func(netip.Addr) bool) {
		for _, rloc := range r.config.LocalRLOCs {
			if !yield(rloc.Addr()) {
				return
			}
		}
	}
	from := r.station.Source(p.Local, p.Remote.Addr().Is4(), preferred)
	r.w.stats.Messages[packets.MessageType(p.Payload)]++
	r.w.trace.Note(r.w.now, r.index, p.Payload, func() string {
		return fmt.Sprintf("%s sends %s from %s to %s", r.name, packets.Describe(p.Payload), from, p.Remote)
	})
	if from.IsValid() {
		r.carry(from, p.Remote, p.Payload, false)
	}
}

// raiseEvents hands the engine's events to the Node.
func (r *router) raiseEvents() {
	for r.node != nil && r.plane != nil {
		select {
		case e := <-r.plane.Events():
			r.handleEvent(e)
		default:
			return
		}
	}
}

// handleEvent hands one event of the engine to the Node, as the daemon does.
func (r *router) handleEvent(e dataplane.Event) {
	switch e := e.(type) {
	case dataplane.Miss:
		r.w.stats.Misses++
		r.node.HandleMiss(r.time(), control.Miss{Instance: e.Instance, Source: e.Source, Destination: e.Destination})
	case dataplane.ControlPacket:
		r.node.HandleControlPacket(r.time(), control.ControlPacket{Local: e.Destination, From: e.Source, Packet: e.Payload})
	}
	r.drain()
}

// reportUsage tells the Node which mappings were used since the last report, and from whom packets come.
func (r *router) reportUsage() {
	if r.node == nil || r.plane == nil || r.frozen {
		return
	}
	var used []control.Usage
	since := r.usageSince
	r.usageSince = r.time()
	for e := range r.plane.InPlace() {
		if !e.Usage.LastUsedAt.IsZero() && !e.Usage.LastUsedAt.Before(since) {
			used = append(used, control.Usage{Prefix: e.Mapping.Prefix, LastUsedAt: e.Usage.LastUsedAt})
		}
	}
	slices.SortFunc(used, func(a, b control.Usage) int { return a.Prefix.Compare(b.Prefix) })
	var heard []control.Heard
	for rloc, at := range r.plane.Sources() {
		heard = append(heard, control.Heard{RLOC: rloc, LastHeardAt: at})
	}
	slices.SortFunc(heard, func(a, b control.Heard) int { return a.RLOC.Compare(b.RLOC) })
	r.node.HandleUsage(r.time(), used)
	r.node.HandleHeard(r.time(), heard)
	r.drain()
}

// dataPort reports whether a datagram is for the data plane.
func dataPort(to netip.AddrPort) bool { return to.Port() == wire.DataPort }
