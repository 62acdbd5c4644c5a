// SPDX-License-Identifier: Apache-2.0

package sim

// The world of a run: its flavour, its sites and routers, all drawn from the seed. It
// is built once; what changes afterwards are the states that fault.go turns.

import (
	"fmt"
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/wire"
)

// epoch is the wall clock at virtual time 0.
var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sweepInterval is how often the invariants that no event touched are checked.
const sweepInterval = time.Second

// families says which addresses RLOCs have.
type families struct{ v4, v6 bool }

// flavour is what sets seeds apart.
type flavour struct {
	families  families
	resolvers bool // Map-Resolvers of their own, not beside the Map-Servers
	overlaps  bool // sites within the EID-Prefixes of other sites
	tight     bool // small tables: eviction and refusal happen
	network   conditions
	maxDelay  time.Duration
	skew      time.Duration
	faultGap  time.Duration // mean time between faults
	attackGap time.Duration // mean time between a stranger's messages
	probing   control.ProbingConfig
	idle      time.Duration // how long unused mappings are kept
	gleaning  bool          // RFC 9300 s.9

	siblings   bool // sites whose tunnel routers are siblings
	statusBits bool // data packets carry Locator-Status-Bits (RFC 9300 s.10)
	versions   bool // and Map-Versions (RFC 9302)
	wide       bool // sites with many EID-Prefixes
	strange    bool // sites with an EID-Prefix of nobody
	outage     bool // all Map-Servers may be away for long

	refusesWhole bool // a Map-Server drops Map-Registers with an EID-Prefix of nobody
	dying        bool // at the end the control planes of a site die
}

type world struct {
	options Options
	flavour flavour
	random  random
	kinds   random // of kinds.go
	flapper random // of flaps.go
	deaths  random // of dying.go
	dying   dying
	now     time.Duration
	queue   eventQueue
	network network
	trace   trace
	truth   truth
	stats   Stats
	failure *Violation

	routers   []*router
	xtrs      []*router
	servers   []*router // Map-Servers
	resolvers []*router // Map-Resolvers, which may be the same
	sites     []*site
	addresses int // RLOCs given out
	wides     int // sites with many EID-Prefixes
	stranger  stranger
	forger    forger
	flows     []*flow
	packets   uint32
	atOnce    int             // events at this moment
	inner     wire.Room       // of what an ECM that is being looked at carries
	used      []control.Usage // room for reports
	heard     []control.Heard

	lastUnsettled time.Duration // the last sweep that found something unconverged
}

func newWorld(o Options) *world {
	w := &world{options: o, random: newRandom(o.Seed, 1)}
	w.trace = trace{hash: o.Seed}
	if o.Trace {
		w.trace.keep = o.TraceLines
	}
	w.stats = Stats{Routers: o.Routers, Messages: map[string]uint64{}, Faults: map[string]uint64{}}
	w.network = network{w: w}
	w.truth = newTruth()
	return w
}

// probings are those that runs choose from: most probe seldom, one as often as by
// default, which costs more messages than all the rest.
func probings() []control.ProbingConfig {
	off, minute := control.ProbingConfig{Off: true}, control.ProbingConfig{Interval: time.Minute}
	return []control.ProbingConfig{off, off, off, minute, minute, minute, {Interval: 30 * time.Second}, {}}
}

func (w *world) drawFlavour() {
	r := w.random
	f := flavour{families: pick(r, []families{{v4: true}, {v6: true}, {true, true}, {true, true}})}
	f.resolvers = r.chance(0.5)
	f.overlaps = r.chance(0.4)
	f.tight = r.chance(0.125)
	f.maxDelay = pick(r, []time.Duration{5, 20, 60, 150}) * time.Millisecond
	f.faultGap = pick(r, []time.Duration{8, 20, 45}) * time.Second
	f.attackGap = pick(r, []time.Duration{300, 1500, 6000}) * time.Millisecond
	f.probing = pick(r, probings())
	f.idle = pick(r, []time.Duration{0, 30 * time.Second, 90 * time.Second})
	f.skew = pick(r, []time.Duration{0, time.Second, 10 * time.Minute})
	f.network = conditions{duplicate: pick(r, []float64{0, 0.01, 0.1}), reorder: pick(r, []float64{0, 0.02, 0.2})}
	f.network.jitter = pick(r, []time.Duration{0, 1, 10}) * time.Millisecond
	if !w.options.Calm {
		f.network.loss = pick(r, []float64{0, 0.01, 0.05, 0.2})
	}
	w.flavour, w.network.conditions = f, f.network
}

// serverCount is how many Map-Servers there are, and Map-Resolvers if they are apart.
const serverCount = 2

func (w *world) build() {
	w.drawFlavour()
	w.drawGleaning()
	w.drawKinds()
	w.drawDying()
	for i := range serverCount {
		w.servers = append(w.servers, w.addRouter(fmt.Sprintf("ms%d", i+1)))
	}
	w.resolvers = w.servers
	if w.flavour.resolvers && w.options.Routers > 2*serverCount {
		w.resolvers = nil
		for i := range serverCount {
			w.resolvers = append(w.resolvers, w.addRouter(fmt.Sprintf("mr%d", i+1)))
		}
	}
	for _, s := range w.routers {
		s.links = []link{{addr: w.newAddress(true)}, {addr: w.newAddress(false)}}
		w.network.attach(s)
	}
	for len(w.routers) < w.options.Routers {
		w.addSite()
	}
	w.stats.Sites = len(w.sites)
	w.start()
}

// start puts the first events into the queue.
func (w *world) start() {
	for _, r := range w.routers {
		w.after(w.random.between(0, 3*time.Second), r.boot)
	}
	w.startTraffic()
	w.every(sweepInterval, w.sweep)
	w.startKinds()
	w.startDying()
	if w.options.faultsEnd() > 0 {
		w.planFaults()
		w.planFlaps(w.options.faultsEnd())
		w.stranger.start(w)
		w.forger.start()
	}
	w.after(w.options.faultsEnd(), func() { w.network.loss = 0 })
}

func (w *world) addRouter(name string) *router {
	r := newRouter(w, len(w.routers), name)
	w.routers = append(w.routers, r)
	return r
}

// What RLOCs begin with.
const firstOctetV4, secondOctetV4, firstOctetV6 = 172, 16, 0xfd

// newAddress is an RLOC that nobody had yet.
func (w *world) newAddress(v4 bool) netip.Addr {
	w.addresses++
	n := w.addresses
	if v4 {
		return netip.AddrFrom4([4]byte{firstOctetV4, byte(secondOctetV4 + n>>16), byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0: firstOctetV6, 12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
}

// after does something later.
func (w *world) after(d time.Duration, do func()) {
	w.queue.push(event{at: w.now + d, kind: eventDo, do: do})
}

// every does something again and again.
func (w *world) every(interval time.Duration, do func()) {
	var again func()
	again = func() {
		do()
		w.after(interval, again)
	}
	w.after(interval, again)
}

// ownerOf is the site of an EID: that of the longest configured EID-Prefix.
func (w *world) ownerOf(instance lisp.InstanceID, eid lisp.EID) (*sitePrefix, bool) {
	return w.truth.longest(lisp.HostPrefix(instance, eid))
}

// fail ends the run at the first promise that is not kept.
func (w *world) fail(r *router, invariant, format string, arguments ...any) {
	if w.failure != nil {
		return
	}
	name := "-"
	if r != nil {
		name = r.name
	}
	w.failure = &Violation{Invariant: invariant, At: w.now, Router: name, Detail: fmt.Sprintf(format, arguments...)}
	w.trace.say(w.now, func() string { return "VIOLATION " + w.failure.Error() })
}
