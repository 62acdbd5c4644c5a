// SPDX-License-Identifier: Apache-2.0

package eventloop

// What an event loop works with, and its making.

import (
	"log/slog"
	"net/netip"
	"time"

	"loci/control"
	"loci/daemon/events"
	"loci/daemon/handover"
	"loci/daemon/planeworker"
	"loci/daemon/store"
	"loci/daemon/transport"
	"loci/dataplane"
	"loci/lisp"
)

// Parts are what a loop works with.
type Parts struct {
	Node    *control.Node
	Sockets Sockets
	Worker  *planeworker.Worker // nil without a data plane
	Journal *store.Journal      // nil without a Map-Server that has one
	Handed  *handover.Handover
	Events  *events.Hub
	// SiblingPath is told by which sibling the site's packets go, zero for none; it must not wait.
	SiblingPath func(to netip.Addr)
	// RTRs is told which RTRs send this node control messages in data packets; it must not wait.
	RTRs func([]lisp.RLOC)
	Log  *slog.Logger
}

// New returns a loop that takes events from now on, and works from run on.
func New(p Parts) *Loop {
	l := &Loop{
		node: p.Node, sockets: p.Sockets, worker: p.Worker, journal: p.Journal, handed: p.Handed, events: p.Events,
		siblingPath: p.SiblingPath, rtrs: p.RTRs, log: p.Log, notices: events.NewNoticeLog(p.Log), calls: make(chan func(time.Time), callQueueLength), stopped: make(chan struct{}),
		timer: time.NewTimer(idle), garbage: newCollector(),
	}
	p.Sockets.ReceiveDirectly(l.receiveDirectly)
	if p.Worker != nil {
		l.misses = p.Worker.Events()
		var finder transport.Activity // of the one goroutine that finds misses
		p.Worker.TellAtOnce(func(events []dataplane.Event) bool { return l.takeDirectly(&finder, events) })
	}
	return l
}
