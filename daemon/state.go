// SPDX-License-Identifier: Apache-2.0

package daemon

// One running configuration: what its parts share.

import (
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"loci/daemon/apiserver"
	"loci/daemon/datapath"
	"loci/daemon/eventloop"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/hostnet"
	"loci/daemon/metrics"
	"loci/daemon/plan"
	"loci/daemon/planeworker"
	"loci/daemon/policyroute"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/internal/wakeup"
	"loci/lisp"
)

// daemon is one running configuration.
type daemon struct {
	engineState
	options           Options
	log               *slog.Logger
	logLevel          logLevel
	startedAt         time.Time
	plan              atomic.Pointer[plan.Plan]
	ready             atomic.Bool
	supervisor        supervisor
	reloading         sync.Mutex
	identity          identity                    // guarded by reloading
	madeFor           int                         // how many mappings the data plane was made for; reloading guards it
	memory            *hostnet.Memory             // guarded by reloading
	forwardingSibling atomic.Pointer[netip.Addr]  // the sibling that gets the site's packets, nil for none
	rtrs              atomic.Pointer[[]lisp.RLOC] // that send us control messages in data packets, nil for none
	replan            wakeup.Signal               // wakes the goroutine that follows the host
	trouble           hostTrouble                 // with the host's settings

	sockets *transport.Sockets
	plane   dataplane.Plane     // what the control plane drives; nil when no role forwards packets
	engine  dataplane.Plane     // closed or detached in the end: plane itself, or the engine behind it
	routed  *policyroute.Plane  // the same, where rules and routes are this process's
	worker  *planeworker.Worker // nil without a plane
	nat     *translation        // nil without an engine of this process
	store   *store.Journal      // nil without a Map-Server that has one
	nonces  *store.NonceFile    // nil where nonces follow the clock alone
	// stopServing ends the mapping socket; nil when nothing serves one.
	stopServing func()
	handed      *handover.Handover
	paths       *datapath.Checker // nil without a data plane
	loop        *eventloop.Loop
	events      *events.Hub
	socket      *apiserver.Socket
	metrics     *metrics.Server
	served      metrics.Change // from the start to the first answer: what is to be served
}

func (d *daemon) InForce() *plan.Plan { return d.plan.Load() }

func (d *daemon) IsReady() bool { return d.ready.Load() }
