// SPDX-License-Identifier: Apache-2.0

package world

// A router: the real Node, the model engine beside it, a clock that is not quite right,
// and what the simulator keeps to judge both. It does what the daemon does: carries out
// effects, feeds misses and use, configures, stops and starts.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/internal/nodeplane"
	"loci/sim/internal/checks"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/sim/internal/packets"
	"loci/sim/internal/rates"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// usageInterval is how often the use of mappings is reported to the Node.
const usageInterval = 10 * time.Second

// maxEffects bounds what one turn of a Node may want done.
const maxEffects = 20_000

func newRouter(w *World, planned *sites.Router) *Router {
	random := virtual.NewRandom(w.Options.Seed, uint64(planned.Index)+1000)
	return &Router{Record: w.Add(planned, drawClock(random, w.Flavour.Skew)), W: w, random: random}
}

// drawClock says how wrong a clock is.
func drawClock(random virtual.Random, skew time.Duration) virtual.Clock {
	clock := virtual.Clock{Ppm: int64(random.IntN(201) - 100)}
	if skew > 0 {
		clock.Offset = random.Between(-skew, skew)
	}
	return clock
}

// Boot starts machine and process.
func (r *Router) Boot() {
	if !r.IsServer() && r.Plane == nil {
		r.Plane = model.New(model.Options{Now: r.Time, Emit: r.emit})
		r.LosesTables()
	}
	r.startNode()
}

// startNode starts the process, which adopts what the data plane kept.
func (r *Router) startNode() {
	r.Restarts()
	r.usageSince = time.Time{}
	r.Configures()
	r.configurePlane()
	node, err := control.New(r.Config, r.Time(), r.random.Fill)
	if err != nil {
		panic(err)
	}
	r.Node, r.StartedAt = node, r.Time()
	r.restore()
	if r.Plane != nil {
		node.AdoptDatabase(r.Time(), nodeplane.Database(r.Plane))
	}
	if kept := kept(r); len(kept) > 0 {
		node.AdoptMapCache(r.Time(), kept)
	}
	if kept := keptStates(r); len(kept) > 0 {
		node.AdoptLocatorStates(r.Time(), kept)
	}
	r.drain()
	if r.Plane != nil {
		r.RaiseMisses()
	}
}

// kept is the map-cache that the data plane brought through a restart. What is in its
// Database and not wanted any more is removed, as the daemon does.
func kept(r *Router) []control.MapCacheEntry {
	if r.Plane == nil {
		return nil
	}
	for d := range r.Plane.Database() { // a relay has none
		if !slices.ContainsFunc(r.Config.ETR.Database, func(m control.DatabaseMapping) bool { return m.Prefix == d.Prefix }) {
			r.Plane.Apply(dataplane.DeleteDatabase{Prefix: d.Prefix})
			delete(r.Own, d.Prefix)
		}
	}
	var kept []control.MapCacheEntry
	for e := range r.Plane.Mappings() {
		kept = append(kept, nodeplane.NodeEntry(e))
	}
	slices.SortFunc(kept, func(a, b control.MapCacheEntry) int { return a.Mapping.Prefix.Compare(b.Mapping.Prefix) })
	return kept
}

// Stop ends the process, by a crash or in order; the data plane goes on.
func (r *Router) Stop(orderly bool) {
	if r.Node == nil {
		return
	}
	if orderly {
		r.ConfiguredAt = r.Time() // its last words may be said again right after they were said
		for r.Node.Shutdown(r.Time()) {
			r.drain()
		}
		r.drain()
		r.Sibling.Path = netip.Addr{}
	}
	r.Node, r.timerAt = nil, 0
	r.Stops()
}

// PowerOff takes the data plane away too.
func (r *Router) PowerOff() {
	r.Stop(false)
	r.Plane, r.Sibling.Path = nil, netip.Addr{}
}

// Configure puts what the operator wants now in force.
func (r *Router) Configure() {
	if r.Node == nil {
		return
	}
	r.Configures()
	r.configurePlane()
	if err := r.Node.Configure(r.Time(), r.Config); err != nil {
		panic(err)
	}
	r.drain()
	r.CheckLastPath()
}

// The interfaces of every tunnel router.
const (
	siteInterface = "site0"
	coreInterface = "core0"
)

func (r *Router) configurePlane() {
	if r.Plane == nil {
		return
	}
	wanted := dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: coreInterface, Side: dataplane.SideCore}},
		LocalRLOCs: r.Config.LocalRLOCs, Wait: dataplane.DefaultWaitBounds,
		Header: dataplane.HeaderSettings{Glean: r.W.Flavour.Gleaning, StatusBits: sites.SendsStatusBits(r.Router), MapVersions: r.W.Flavour.Versions},
	}
	if r.Relay != nil {
		relayPlane(r, &wanted)
	} else {
		wanted.Interfaces = append(wanted.Interfaces, dataplane.Interface{Name: siteInterface, Side: dataplane.SideSite, Instance: r.Site.Instance})
	}
	r.apply(dataplane.SetSettings{Settings: wanted})
}

// apply makes the engine do something that it cannot refuse.
func (r *Router) apply(operation dataplane.Operation) {
	if failed := r.Plane.Apply(operation); failed != nil {
		r.W.Fail(r, checks.InvariantPlane, "%T: %v", operation, failed[0])
	}
}

// timer is a deadline of the Node. One that has moved meanwhile is stale.
func (r *Router) timer(at time.Duration) {
	if r.Node == nil || at != r.timerAt {
		return
	}
	r.timerAt = 0
	r.W.Trace.Note(at, r.Index, nil, func() string { return r.Name + " timer" })
	r.Node.HandleTimeout(r.Time())
	r.drain()
}

// schedule puts the next deadline into the queue, unless an earlier one stands there.
func (r *Router) schedule() {
	deadline, ok := r.Node.NextDeadline()
	if !ok || r.timerAt != 0 && !deadline.Before(r.timerFor) {
		return
	}
	at := max(r.Clock.Until(deadline), r.W.Now)
	if r.timerAt != 0 && r.timerAt <= at {
		return
	}
	r.timerAt, r.timerFor = at, deadline
	r.W.queue.Push(at, event{kind: eventTimer, router: r})
}

// drain carries out what the Node wants done, then looks at what came of it.
func (r *Router) drain() {
	n := 0
	for e, ok := r.Node.Poll(); ok; e, ok = r.Node.Poll() {
		if n++; n > maxEffects {
			r.W.Fail(r, checks.InvariantLimits, "more than %d effects in one turn", maxEffects)
			return
		}
		r.carryOut(e)
	}
	mappings, requests := limits(r)
	if sizes := r.Node.Sizes(); sizes.MapCache > mappings || sizes.Pending > requests {
		r.W.Fail(r, checks.InvariantLimits, "%d mappings and %d requests under way, the limits are %d and %d", sizes.MapCache, sizes.Pending, mappings, requests)
	}
	r.schedule()
}

// carryOut does one effect. Those of a kind that is not of this world are left.
func (r *Router) carryOut(e control.Effect) {
	switch e := e.(type) {
	case control.SendPacket:
		r.send(e)
	case control.InstallMapping:
		r.install(e.MapCacheEntry)
	case control.RemoveMapping:
		r.W.Trace.Say(r.W.Now, func() string { return r.Name + " removes " + e.Prefix.String() + ": " + string(e.Reason) })
		r.Mirror.Remove(e.Prefix)
		r.Plane.Apply(dataplane.DeleteMapping{Prefix: e.Prefix})
	case control.InstallDatabase:
		r.Says(e.Prefix, e.Locators)
		r.Own[e.Prefix] = e.Version
		r.apply(dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: e.Prefix, Locators: e.Locators, Version: e.Version}})
	case control.RemoveDatabase:
		delete(r.Sibling.Said, e.Prefix)
		delete(r.Own, e.Prefix)
		r.Plane.Apply(dataplane.DeleteDatabase{Prefix: e.Prefix})
	case control.SetLocatorState:
		r.setLocator(e)
	case control.SiblingPath:
		if by := r.W.Router(r.CheckHandover(e.To)); by != nil && r.W.ending != nil {
			r.W.ending.HandedOver(r, by)
		}
		r.CheckTakenBack(e.To)
		r.Sibling.Path = e.To
		r.W.Trace.Say(r.W.Now, func() string { return r.Name + " forwards by its sibling " + e.To.String() })
	case control.SetRTRs:
		r.W.Trace.Say(r.W.Now, func() string { return fmt.Sprint(r.Name, " takes control messages in data from ", e.RTRs) })
	case control.Journal:
		r.store(e)
	case control.Notice:
		r.W.Trace.Say(r.W.Now, func() string {
			return r.Name + " notices " + string(e.Kind) + " " + e.Prefix.String() + " " + e.Remote.String() + " " + e.Detail
		})
	}
}

// send carries out the effect SendPacket.
func (r *Router) send(p control.SendPacket) {
	preferred := func(yield func(netip.Addr) bool) {
		for _, rloc := range r.Config.LocalRLOCs {
			if !yield(rloc.Addr()) {
				return
			}
		}
	}
	from := r.Station.Source(p.Local, p.Remote.Addr().Is4(), preferred)
	r.W.Stats.Messages[packets.MessageType(p.Payload)]++
	m := r.W.Network.NewMail()
	m.From, m.To, m.Payload = from, p.Remote, p.Payload
	rule, what := r.Sent.Judge(rates.Sent{
		At: r.Time(), To: m.To, Payload: m.Payload, Message: m.Message(), Room: &r.W.Inner, Server: r.IsServer(),
		Inside: r.Station.IsInside(from.Addr()), Probing: sites.Probing(r.Router), ConfiguredAt: r.ConfiguredAt, Own: r.Config.ETR,
	})
	if rule != "" {
		r.W.Fail(r, rule, "%s", what)
	}
	if reply, ok := m.Message().(*wire.MapReply); ok {
		r.WatchDenial(reply)
	}
	r.NoteSent(m)
	r.W.Trace.Note(r.W.Now, r.Index, p.Payload, func() string {
		return fmt.Sprintf("%s sends %s to %s", r.Name, packets.Describe(p.Payload), p.Remote)
	})
	if !from.IsValid() {
		return // no address of that family
	}
	if !r.Station.IsInside(from.Addr()) {
		r.W.scenario.Overhear(from, p.Remote, p.Payload)
	}
	r.W.Network.Carry(&r.Station, m)
}

// setLocator says before which others an RLOC is used, if at all.
func (r *Router) setLocator(e control.SetLocatorState) {
	state := nodeplane.PlaneState(e.State)
	if nodeplane.NodeState(state) != e.State { // no state that a data plane knows
		r.W.Fail(r, checks.InvariantPlane, "%s is told to be %q", e.Path(), e.State)
	}
	if delete(r.States, e.Path()); state != dataplane.LocatorUp {
		r.States[e.Path()] = state
	}
	r.W.Trace.Say(r.W.Now, func() string { return r.Name + " calls " + e.Path().String() + " " + state.String() })
	r.apply(dataplane.PutLocatorState{RLOC: e.RLOC, Behind: e.Behind, State: state})
}

// keptStates are the states of RLOCs that the data plane brought through a restart.
func keptStates(r *Router) []control.SetLocatorState {
	var kept []control.SetLocatorState
	if r.Plane == nil {
		return nil
	}
	for path, state := range r.Plane.LocatorStates() {
		kept = append(kept, control.SetLocatorState{RLOC: path.RLOC, Behind: path.Behind, State: nodeplane.NodeState(state)})
	}
	return kept
}

func (r *Router) install(e control.MapCacheEntry) {
	r.W.Trace.Say(r.W.Now, func() string {
		return r.Name + " installs " + e.Mapping.String() + " until " + e.ExpiresAt.Sub(virtual.Epoch).String()
	})
	r.CheckMapping(&e)
	r.Mirror.Put(e)
	if !e.Gleaned { // which is no answer
		r.Sent.Requests.Covered(e.Mapping.Prefix)
	}
	r.apply(dataplane.PutMapping{Entry: nodeplane.PlaneEntry(e)})
}

// limits are those of the configuration in force, of mappings and of requests under way.
func limits(r *Router) (mappings, requests int) {
	if own := &r.Config.Limits; own.MapCacheEntries > 0 {
		return own.MapCacheEntries, own.PendingRequests
	}
	return defaultLimits.MapCacheEntries, defaultLimits.PendingRequests
}

// reportUsage tells the Node which mappings were used since the last report.
func (r *Router) reportUsage() {
	if r.Node == nil || r.Plane == nil {
		return
	}
	used, since := r.W.used[:0], r.usageSince
	r.usageSince = r.Time()
	for e := range r.Plane.InPlace() {
		if !e.Usage.LastUsedAt.IsZero() && !e.Usage.LastUsedAt.Before(since) {
			used = append(used, control.Usage{Prefix: e.Mapping.Prefix, LastUsedAt: e.Usage.LastUsedAt})
		}
	}
	if r.W.used = used; len(used) == 0 {
		return
	}
	slices.SortFunc(used, func(a, b control.Usage) int { return a.Prefix.Compare(b.Prefix) })
	r.Node.HandleUsage(r.Time(), used)
	r.drain()
	r.reportHeard()
}

// reportHeard tells the Node from whom packets come.
func (r *Router) reportHeard() {
	if r.Node == nil || r.Plane == nil {
		return
	}
	heard := r.W.heard[:0]
	for rloc, at := range r.Plane.Sources() {
		heard = append(heard, control.Heard{RLOC: rloc, LastHeardAt: at})
		r.Mirror.Sources[rloc] = at
	}
	r.W.heard = heard
	r.Node.HandleHeard(r.Time(), heard)
	r.Sibling.Watch.Reported()
	r.drain()
}

// RaiseMisses hands the engine's events to the Node.
func (r *Router) RaiseMisses() {
	for r.Node != nil {
		select {
		case e := <-r.Plane.Events():
			r.handleEvent(e)
		default:
			return
		}
	}
}

// Kill ends the process; the data plane goes on.
func (r *Router) Kill() { r.Stop(false) }

// ResetClock lets a machine come up with its clock set, by a little: nonces of
// Map-Registers depend on it (RFC 9301 s.5.6).
func (r *Router) ResetClock() {
	if r.W.Flavour.Skew > 0 {
		r.Clock.Offset += r.random.Between(-2*time.Second, 2*time.Second)
	}
}
