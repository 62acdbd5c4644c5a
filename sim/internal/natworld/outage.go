// SPDX-License-Identifier: Apache-2.0

package natworld

// When all has been quiet, one of several RTRs is lost, for a time or for good. Nodes that registered by the others too
// stay reached once it is found silent.

import (
	"time"

	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

const (
	// quietBefore is for how long before it every node has been reached.
	quietBefore = 10 * time.Second
	// outageLasts is how long an outage lasts that ends.
	outageLasts = 90 * time.Second
	// outageChance is the share of seeds with several RTRs that have one.
	outageChance = 0.8
)

// outage is an RTR that is lost after the last fault.
type outage struct {
	rtr      *router
	name     string
	how      failure
	from, to time.Duration // to is after the end of the run where it does not come back
}

// drawOutage takes an RTR that is no Map-Server: without that nothing could be registered.
func (w *World) drawOutage() {
	r := w.random
	if len(w.rtrs) < 2 || !w.options.HasFaults() || !r.Chance(outageChance) {
		return
	}
	o := &outage{rtr: virtual.Pick(r, w.rtrs)}
	if o.rtr.isMapServer() {
		o.rtr = w.rtrs[len(w.rtrs)-1]
	}
	switch r.IntN(3) {
	case 0:
		o.name, o.how = "rtr-lost-crash", crashed
	case 1:
		o.name, o.how = "rtr-lost-power", withoutPower
	default:
		o.name, o.how = "rtr-lost-frozen", frozen
	}
	o.from = w.calmSince() + usualKeepalive + reachedWithin + quietBefore
	o.to = o.from + outageLasts
	if r.Chance(0.5) {
		o.to = w.options.Duration + underWay
	}
	w.outage = o
}

// plan puts the outage into the queue.
func (o *outage) plan(w *World) {
	if o == nil {
		return
	}
	w.after(o.from, func() {
		w.strike(fault{name: o.name, begin: func(*World) (string, func()) { return o.how.strike(o.rtr) }},
			o.to-o.from)
	})
}

// bound is the time from which on a packet of a flow arrives, though an RTR is lost or has come back; 0 for one that
// was sent before. A site on the Internet may know that RTR until its mapping ends.
func (o *outage) bound(f *flow, sentAt time.Duration) (from time.Duration) {
	if o == nil || sentAt < o.from-underWay {
		return 0
	}
	if from = o.from + f.reachedWithin(); f.from.behind == nil {
		from += report.MaxTTLMinutes * time.Minute
	}
	if sentAt >= o.to-underWay {
		from = max(from, o.to+f.reachedWithin())
	}
	return from
}
