// SPDX-License-Identifier: Apache-2.0

package sim

// A router: the real Node, the model engine beside it, a clock that is not quite right,
// and what the simulator keeps to judge both. It does what the daemon does: carries out
// effects, feeds misses and use, configures, stops and starts.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

// usageInterval is how often the use of mappings is reported to the Node.
const usageInterval = 10 * time.Second

// maxEffects bounds what one turn of a Node may want done.
const maxEffects = 20_000

type router struct {
	w      *world
	index  int
	name   string
	site   *site // nil for servers
	random random
	links  []link
	clock  clock

	node         *control.Node // nil while it is down
	plane        *model.Engine // nil for servers and while the machine is off
	timerAt      time.Duration // of the timer in the queue, 0 for none
	timerFor     time.Time     // the deadline that it is for
	config       control.Config
	configuredAt time.Time
	usageSince   time.Time // the last report of use to this Node, zero for none

	registersWrong bool // with the key of that configuration

	wrongKey int // faults that gave it a wrong key
	down     int // faults that keep it down

	disk        diskStore // of a Map-Server
	mirror      mirror
	requests    requestWatch
	replies     rateWatch
	solicits    rateWatch // SMRs
	lastSMR     solicited
	probes      rateWatch // RLOC-probes to one RLOC
	probesTotal rateWatch
	accepted    acceptance
	states      map[lisp.RLOC]dataplane.LocatorState // of locators that the Node called anything but up
	heardFrom   gleanWatch
	sibling     siblingState
	hold        control.HoldDown // of its links
	holdUntil   time.Time
	linksUp     []lisp.RLOC // those up when the Node was configured
	startedAt   time.Time
	own         map[lisp.Prefix]uint16 // the data plane's Database, with its Map-Versions
}

// link is a way to the core with its address.
type link struct {
	addr    netip.Addr
	cut     int  // faults that cut it
	noticed int  // of those, how many the router knows of
	held    bool // it is up again, and another one is used
}

// isUp reports whether the router says that others may use it.
func (l *link) isUp() bool { return l.noticed == 0 && !l.held }

// clock is a router's own.
type clock struct {
	offset time.Duration
	ppm    int64 // how much it goes wrong
}

func (c clock) at(t time.Duration) time.Time { return epoch.Add(c.shows(t)) }

// shows is how much time has gone by since epoch, by this clock. It never goes back.
func (c clock) shows(t time.Duration) time.Duration {
	wrong := time.Duration(c.ppm)
	return c.offset + t + t/1_000_000*wrong + t%1_000_000*wrong/1_000_000
}

// until is the first virtual time at which the clock shows that.
func (c clock) until(deadline time.Time) time.Duration {
	shown := deadline.Sub(epoch)
	t := shown - c.offset
	t -= t/1_000_000*time.Duration(c.ppm) + t%1_000_000*time.Duration(c.ppm)/1_000_000
	for left := shown - c.shows(t); left > 0; left = shown - c.shows(t) {
		t += max(left/2, 1)
	}
	return t
}

func newRouter(w *world, index int, name string) *router {
	r := &router{w: w, index: index, name: name, random: newRandom(w.options.Seed, uint64(index)+1000)}
	r.mirror.router = r
	r.requests.router = r
	r.setClock()
	return r
}

// setClock draws how wrong the router's clock is.
func (r *router) setClock() {
	r.clock = clock{ppm: int64(r.random.IntN(201) - 100)}
	if r.w.flavour.skew > 0 {
		r.clock.offset = r.random.between(-r.w.flavour.skew, r.w.flavour.skew)
	}
}

func (r *router) time() time.Time { return r.clock.at(r.w.now) }

// boot starts machine and process.
func (r *router) boot() {
	if r.site != nil && r.plane == nil {
		r.plane = model.New(model.Options{Now: r.time, Emit: r.emit})
		r.mirror.clear()
		r.states = map[lisp.RLOC]dataplane.LocatorState{}
		r.heardFrom, r.own = gleanWatch{}, map[lisp.Prefix]uint16{}
	}
	r.startNode()
}

// startNode starts the process, which adopts what the data plane kept.
func (r *router) startNode() {
	r.requests.forget()
	r.replies, r.solicits, r.probes, r.probesTotal = rateWatch{}, rateWatch{}, rateWatch{}, rateWatch{}
	r.accepted, r.usageSince = acceptance{}, time.Time{}
	r.sibling.said, r.sibling.detour = nil, netip.Addr{}
	r.config, r.configuredAt, r.registersWrong = r.configuration(), r.time(), r.wrongKey > 0
	r.configurePlane()
	r.w.truth.record(r)
	node, err := control.New(r.config, r.time(), r.random.fill)
	if err != nil {
		panic(err)
	}
	r.node, r.startedAt = node, r.time()
	r.restore()
	if kept := r.kept(); len(kept) > 0 {
		node.AdoptMapCache(r.time(), kept)
	}
	if kept := r.keptStates(); len(kept) > 0 {
		node.AdoptLocatorStates(r.time(), kept)
	}
	r.drain()
	if r.plane != nil {
		r.raiseMisses()
	}
}

// kept is the map-cache that the data plane brought through a restart. What is in its
// Database and not wanted any more is removed, as the daemon does.
func (r *router) kept() []control.MapCacheEntry {
	if r.plane == nil {
		return nil
	}
	for d := range r.plane.Database() {
		if !slices.ContainsFunc(r.config.ETR.Database, func(m control.DatabaseMapping) bool { return m.Prefix == d.Prefix }) {
			r.plane.Apply(dataplane.DeleteDatabase{Prefix: d.Prefix})
			delete(r.own, d.Prefix)
		}
	}
	var kept []control.MapCacheEntry
	for e := range r.plane.Mappings() {
		kept = append(kept, control.MapCacheEntry{Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt})
	}
	slices.SortFunc(kept, func(a, b control.MapCacheEntry) int { return a.Mapping.Prefix.Compare(b.Mapping.Prefix) })
	return kept
}

// stop ends the process, by a crash or in order; the data plane goes on.
func (r *router) stop(orderly bool) {
	if r.node == nil {
		return
	}
	if orderly {
		r.configuredAt = r.time() // its last words may be said again right after they were said
		for r.node.Shutdown(r.time()) {
			r.drain()
		}
		r.drain()
		r.sibling.detour = netip.Addr{}
	}
	r.node, r.timerAt = nil, 0
	r.w.truth.retire(r)
}

// powerOff takes the data plane away too.
func (r *router) powerOff() {
	r.stop(false)
	r.plane, r.sibling.detour = nil, netip.Addr{}
}

// configure puts what the operator wants now in force.
func (r *router) configure() {
	if r.node == nil {
		return
	}
	r.config, r.configuredAt, r.registersWrong = r.configuration(), r.time(), r.wrongKey > 0
	r.configurePlane()
	r.w.truth.record(r)
	if err := r.node.Configure(r.time(), r.config); err != nil {
		panic(err)
	}
	r.drain()
	r.checkLastPath()
}

// The interfaces of every tunnel router.
const (
	siteInterface = "site0"
	coreInterface = "core0"
)

func (r *router) configurePlane() {
	if r.plane == nil {
		return
	}
	wanted := dataplane.Settings{
		Interfaces: []dataplane.Interface{
			{Name: siteInterface, Side: dataplane.SideSite, Instance: r.site.instance}, {Name: coreInterface, Side: dataplane.SideCore},
		},
		LocalRLOCs: r.config.LocalRLOCs, Wait: dataplane.DefaultWaitBounds,
		Header: dataplane.HeaderSettings{Glean: r.w.flavour.gleaning, StatusBits: r.sendsStatusBits(), MapVersions: r.w.flavour.versions},
	}
	r.apply(dataplane.SetSettings{Settings: wanted})
}

// apply makes the engine do something that it cannot refuse.
func (r *router) apply(operation dataplane.Operation) {
	if failed := r.plane.Apply(operation); failed != nil {
		r.w.fail(r, invariantPlane, "%T: %v", operation, failed[0])
	}
}

// timer is a deadline of the Node. One that has moved meanwhile is stale.
func (r *router) timer(at time.Duration) {
	if r.node == nil || at != r.timerAt {
		return
	}
	r.timerAt = 0
	r.w.trace.note(at, r.index, nil, func() string { return r.name + " timer" })
	r.node.HandleTimeout(r.time())
	r.drain()
}

// schedule puts the next deadline into the queue, unless an earlier one stands there.
func (r *router) schedule() {
	deadline, ok := r.node.NextDeadline()
	if !ok || r.timerAt != 0 && !deadline.Before(r.timerFor) {
		return
	}
	at := max(r.clock.until(deadline), r.w.now)
	if r.timerAt != 0 && r.timerAt <= at {
		return
	}
	r.timerAt, r.timerFor = at, deadline
	r.w.queue.push(event{at: at, kind: eventTimer, router: r})
}

// drain carries out what the Node wants done, then looks at what came of it.
func (r *router) drain() {
	n := 0
	for e, ok := r.node.Poll(); ok; e, ok = r.node.Poll() {
		if n++; n > maxEffects {
			r.w.fail(r, invariantLimits, "more than %d effects in one turn", maxEffects)
			return
		}
		r.carryOut(e)
	}
	mappings, requests := r.limits()
	if sizes := r.node.Sizes(); sizes.MapCache > mappings || sizes.Pending > requests {
		r.w.fail(r, invariantLimits, "%d mappings and %d requests under way, the limits are %d and %d", sizes.MapCache, sizes.Pending, mappings, requests)
	}
	r.schedule()
}

// carryOut does one effect. Those of a kind that is not of this world are left.
func (r *router) carryOut(e control.Effect) {
	switch e := e.(type) {
	case control.SendPacket:
		r.send(e)
	case control.InstallMapping:
		r.install(e.MapCacheEntry)
	case control.RemoveMapping:
		r.w.trace.say(r.w.now, func() string { return r.name + " removes " + e.Prefix.String() + ": " + string(e.Reason) })
		r.mirror.remove(e.Prefix)
		r.plane.Apply(dataplane.DeleteMapping{Prefix: e.Prefix})
	case control.InstallDatabase:
		r.says(e.Prefix, e.Locators)
		r.own[e.Prefix] = e.Version
		r.apply(dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: e.Prefix, Locators: e.Locators, Version: e.Version}})
	case control.RemoveDatabase:
		delete(r.sibling.said, e.Prefix)
		delete(r.own, e.Prefix)
		r.plane.Apply(dataplane.DeleteDatabase{Prefix: e.Prefix})
	case control.SetLocatorState:
		r.setLocator(e)
	case control.SiblingPath:
		r.sibling.detour = e.To
		r.w.trace.say(r.w.now, func() string { return r.name + " makes a detour by " + e.To.String() })
	case control.Journal:
		r.store(e)
	case control.Notice:
		r.w.trace.say(r.w.now, func() string {
			return r.name + " notices " + string(e.Kind) + " " + e.Prefix.String() + " " + e.Remote.String() + " " + e.Detail
		})
	}
}

// planeStates are the data plane's words for the states that a Node tells.
var planeStates = map[control.LocatorState]dataplane.LocatorState{
	control.LocatorUp: dataplane.LocatorUp, control.LocatorHeard: dataplane.LocatorHeard,
	control.LocatorUnconfirmed: dataplane.LocatorUnconfirmed, control.LocatorDown: dataplane.LocatorDown,
}

// setLocator says before which others an RLOC is used, if at all.
func (r *router) setLocator(e control.SetLocatorState) {
	state, known := planeStates[e.State]
	if !known {
		r.w.fail(r, invariantPlane, "%s is told to be %q", e.RLOC, e.State)
	}
	if delete(r.states, e.RLOC); state != dataplane.LocatorUp {
		r.states[e.RLOC] = state
	}
	r.w.trace.say(r.w.now, func() string { return r.name + " calls " + e.RLOC.String() + " " + state.String() })
	r.apply(dataplane.PutLocatorState{RLOC: e.RLOC, State: state})
}

// keptStates are the states of RLOCs that the data plane brought through a restart.
func (r *router) keptStates() []control.SetLocatorState {
	var kept []control.SetLocatorState
	if r.plane == nil {
		return nil
	}
	for rloc, state := range r.plane.LocatorStates() {
		for word, told := range planeStates {
			if told == state {
				kept = append(kept, control.SetLocatorState{RLOC: rloc, State: word})
			}
		}
	}
	return kept
}

func (r *router) install(e control.MapCacheEntry) {
	r.w.trace.say(r.w.now, func() string {
		return r.name + " installs " + e.Mapping.String() + " until " + e.ExpiresAt.Sub(epoch).String()
	})
	r.w.checkMapping(r, &e)
	r.mirror.put(e)
	if !e.Gleaned { // which is no answer
		r.requests.covered(e.Mapping.Prefix)
	}
	r.apply(dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping: e.Mapping, Static: e.Static, Gleaned: e.Gleaned, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt,
	}})
}

// limits are those of the configuration in force, of mappings and of requests under way.
func (r *router) limits() (mappings, requests int) {
	if own := &r.config.Limits; own.MapCacheEntries > 0 {
		return own.MapCacheEntries, own.PendingRequests
	}
	return defaultLimits.MapCacheEntries, defaultLimits.PendingRequests
}

// reportUsage tells the Node which mappings were used since the last report.
func (r *router) reportUsage() {
	if r.node == nil || r.plane == nil {
		return
	}
	used, since := r.w.used[:0], r.usageSince
	r.usageSince = r.time()
	for e := range r.plane.InPlace() {
		if !e.Usage.LastUsedAt.IsZero() && !e.Usage.LastUsedAt.Before(since) {
			used = append(used, control.Usage{Prefix: e.Mapping.Prefix, LastUsedAt: e.Usage.LastUsedAt})
		}
	}
	if r.w.used = used; len(used) == 0 {
		return
	}
	slices.SortFunc(used, func(a, b control.Usage) int { return a.Prefix.Compare(b.Prefix) })
	r.node.HandleUsage(r.time(), used)
	r.drain()
	r.reportHeard()
}

// reportHeard tells the Node from whom packets come.
func (r *router) reportHeard() {
	heard := r.w.heard[:0]
	for rloc, at := range r.plane.Sources() {
		heard = append(heard, control.Heard{RLOC: rloc, LastHeardAt: at})
	}
	r.w.heard = heard
	r.node.HandleHeard(r.time(), heard)
	r.drain()
}

// raiseMisses hands the engine's events to the Node.
func (r *router) raiseMisses() {
	for r.node != nil {
		select {
		case e := <-r.plane.Events():
			r.handleEvent(e)
		default:
			return
		}
	}
}

// usable reports whether a packet may take a locator of that set: of those that are neither 255, nor unreachable, nor down
// the best state, and of these the lowest priority.
func (r *router) usable(set lisp.LocatorSet, rloc lisp.RLOC) bool {
	best := worstPreference
	for _, l := range set {
		best = min(best, r.preference(l))
	}
	chosen, ok := set.Find(rloc)
	return ok && best < worstPreference && r.preference(chosen) == best
}

// worstPreference is that of a locator which is not used.
const worstPreference = 1 << 16

// preference orders locators by their states, then by their priorities.
func (r *router) preference(l lisp.Locator) int {
	rank, usable := r.states[l.RLOC].Rank()
	if !usable || !l.Usable() || !slices.ContainsFunc(r.config.LocalRLOCs, func(own lisp.RLOC) bool { return own.Is4() == l.RLOC.Is4() }) {
		return worstPreference
	}
	return rank<<8 + int(l.Priority)
}

// isDown reports whether the Node called an RLOC down.
func (r *router) isDown(rloc lisp.RLOC) bool { return r.states[rloc] == dataplane.LocatorDown }
