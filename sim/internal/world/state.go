// SPDX-License-Identifier: Apache-2.0

package world

// The state of a run: world, routers, links, sites, messages under way, and the scenario that changes them. Nothing here acts.

import (
	"fmt"
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
	Options  Options
	Flavour  flavour
	Random   virtual.Random
	Kinds    virtual.Random // of kinds.go
	Flapper  virtual.Random // of links that flap
	Relaying virtual.Random // of relays.go
	ending   Ending         // nil for none
	Now      time.Duration
	queue    virtual.Queue[event]
	Network  network.Network[*Router]
	Trace    virtual.Trace
	Truth    truth
	Stats    Stats
	failure  *Violation

	Routers   []*Router
	XTRs      []*Router
	Relays    []*Router // RTRs, PITRs and PETRs
	Servers   []*Router // Map-Servers
	Resolvers []*Router // Map-Resolvers, which may be the same
	Sites     []*Site
	wides     int // sites with many EID-Prefixes
	scenario  scenario
	Gleans    virtual.Random // of gleaning and of forged packets
	Flows     []*Flow
	packets   uint32
	atOnce    int             // events at this moment
	inner     wire.Room       // of what an ECM that is being looked at carries
	used      []control.Usage // room for reports
	heard     []control.Heard

	awaited map[uint32]struct{} // packets of steady flows that have to arrive

	lastUnsettled time.Duration // the last sweep that found something unconverged
}

// flavour is what sets seeds apart.
type flavour struct {
	Families  families
	resolvers bool // Map-Resolvers of their own, not beside the Map-Servers
	Overlaps  bool // sites within the EID-Prefixes of other sites
	tight     bool // small tables: eviction and refusal happen
	network   network.Conditions
	skew      time.Duration
	FaultGap  time.Duration // mean time between faults
	AttackGap time.Duration // mean time between an attacker's messages
	probing   control.ProbingConfig
	idle      time.Duration // how long unused mappings are kept
	Gleaning  bool          // RFC 9300 s.9

	Siblings   bool // sites whose tunnel routers are siblings
	statusBits bool // data packets carry Locator-Status-Bits (RFC 9300 s.10)
	versions   bool // and Map-Versions (RFC 9302)
	Wide       bool // sites with many EID-Prefixes
	strange    bool // sites with an EID-Prefix of no site
	Outage     bool // all Map-Servers may be away for long

	refusesWhole bool // a Map-Server drops Map-Registers with an EID-Prefix of no site
	Relays       bool // there are relays, and sites that use them
	behind       bool // some sites send everything to RTRs
	ControlCut   bool // at the end control messages are lost, and nothing else
}

// families says which addresses RLOCs have.
type families struct{ V4, v6 bool }

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
	W       *World
	Index   int
	Name    string
	Station network.Station[*Router]
	Site    *Site  // nil for servers and relays
	Relay   *Relay // nil for others
	random  virtual.Random
	clock   virtual.Clock

	Node         *control.Node // nil while it is down
	Plane        *model.Engine // nil for servers and while the machine is off
	timerAt      time.Duration // of the timer in the queue, 0 for none
	timerFor     time.Time     // the deadline that it is for
	config       control.Config
	configuredAt time.Time
	usageSince   time.Time // the last report of use to this Node, zero for none

	registersWrong bool // with the key of that configuration

	WrongKey int // faults that gave it a wrong key
	Down     int // faults that keep it down

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
}

// Mail is a control message or an encapsulated packet under way.
type Mail = network.Mail

// Link is a way to the core with its address.
type Link = network.Link

// Site is a LISP site as its operator means it to be.
type Site struct {
	Index    int
	Name     string
	Instance lisp.InstanceID
	Prefixes []*SitePrefix
	XTRs     []*Router
	Keys     []control.Key // those that the Map-Servers accept
	KeyInUse int           // index in keys

	proxy         bool // P: the Map-Servers answer
	merge         bool // each tunnel router registers its own locators
	notify        bool
	useTTL        bool
	moreSpecifics bool // the Map-Servers name the widest EID-Prefix alone
	WithoutXTRID  bool
	ttlMinutes    uint32

	Siblings        bool // the tunnel routers are
	siblingInterval time.Duration
	Probing         control.ProbingConfig // with siblings
	version         uint16                // Map-Version of all mappings, 0 for none
	versionOf       uint64                // contents that it stands for
	wideAt          int                   // where in prefixes the many begin, 0 for none
	strange         lisp.Prefix           // of no site, in the Database all the same; zero for none
	Fewer           int                   // every so many of them are withdrawn, 0 for none

	Via Via

	Withdrawn int // faults that took the Database away
	Barred    int // faults that took the site from the Map-Servers' configuration
}

// SitePrefix is an EID-Prefix of a site with the policy of each of its locators, by the order of the site's links.
type SitePrefix struct {
	Site       *Site
	Prefix     lisp.Prefix
	Hosts      []netip.Addr // that no more specific one covers
	policy     []locatorPolicy
	pathPolicy []locatorPolicy // of paths, by their order
}

// Flow is a host that talks to another one.
type Flow struct {
	from        *Router // the tunnel router, or PITR, that the host's packets take
	source, to  netip.Addr
	Destination *Site
	interval    time.Duration
	outside     bool // it goes to a host outside LISP
}

// Ending is what happens at last: it begins when all has been quiet, nothing comes after, and convergence does not apply to it.
type Ending interface {
	Start()               // puts it into the queue
	Lasts() time.Duration // how much longer the run is
	Begun() bool
	Forwarded(by *Router, f *Flow, verdict string) // a router did that with a packet of a flow
	Lost(at *Router, p packets.Payload, to netip.Addr, why string)
	Sent(f *Flow, number uint32) // a packet of a flow enters its first router
	HandedOver(r, by *Router)    // a router gives its packets to a sibling
}

// siblingState is what a tunnel router with siblings has more than others.
type siblingState struct {
	CoreLost int          // faults that cut it off the core
	said     saidMappings // what its Node announces now
	Watch    handover.Watch
	Path     netip.Addr // whom the site's packets go to, none when it encapsulates them itself
	comeback handover.Comeback
	toAndFro time.Duration // since when two siblings forward by each other, 0 for not
}

// saidMappings is what a Node announces: with the R bits as it sees them.
type saidMappings map[lisp.Prefix]lisp.LocatorSet

type locatorPolicy struct{ priority, weight uint8 }

var defaultLimits = control.DefaultLimits()

// XTRID is the router's xTR-ID.
func (r *Router) XTRID() (id [16]byte) {
	id[0], id[1], id[15] = byte(r.Index>>8), byte(r.Index), 1
	return id
}

type truth struct {
	prefixes map[lisp.Prefix]*SitePrefix
	lengths  map[lisp.EIDKind][]int // of EID-Prefixes, longest first
	perSpace map[lisp.InstanceID]int
	locators map[locatorFact]bool
	contents map[content]*validity
	inForce  map[int][]content // by router
	Barred   bool              // a Map-Server was once told to forget a site
	former   []formerOwner
}

// formerOwner is a site that had an address until it went to another one.
type formerOwner struct {
	addr  netip.Addr
	site  *Site
	until time.Duration
}

// sendsStatusBits reports whether data packets carry Locator-Status-Bits, and those that come are heeded. Where
// registrations are merged no router may: a tunnel router's own locators are others by number than those of the
// mapping that peers have.
func sendsStatusBits(r *Router) bool {
	return r.W.Flavour.statusBits && (r.Site == nil || !r.Site.merge || len(r.Site.XTRs) == 1)
}
