// SPDX-License-Identifier: Apache-2.0

package packets

// Flows that are bound to a path: the events by which the control plane learns of connections that may be.

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

// BoundFlow is the flow of a packet that locators were selected for, where it is bound, whatever chose its locator.
func BoundFlow(o *forward.Outcome) (lisp.Flow, bool) {
	if o.Binding == forward.Unbound {
		return lisp.Flow{}, false
	}
	return o.Header.Flow(o.Instance)
}

// tellSubflow raises the event of a packet that begins or ends a connection. Misses have half of the room.
func (p *Path) tellSubflow(o *forward.Outcome, fromCore bool) {
	if o.Subflow == nil || p.Queue.closed {
		return
	}
	flow, _ := o.Header.Flow(o.Instance) // it has one
	if !p.subflows.allow(p.options.Now(), forward.Destination{Instance: flow.Instance, EID: flow.Source}) {
		p.counters.Other["subflows_limited"]++
		return
	}
	p.Queue.offerMinor(dataplane.Subflow{Flow: flow, FromCore: fromCore, TCP: slices.Clone(o.Subflow)})
}

// subflowLimiter limits the events of each source EID, and all together.
type subflowLimiter struct {
	// due is when the events of a source would have come, had they kept their distance.
	due    map[forward.Destination]time.Time
	second time.Time // since when raised are counted
	raised int
}

// allow reports whether an event of a source may be raised now. When it remembers too many sources it forgets all:
// then some come early.
func (l *subflowLimiter) allow(now time.Time, source forward.Destination) bool {
	if since := now.Sub(l.second); since < 0 || since >= time.Second {
		l.second, l.raised = now, 0
	}
	due := l.due[source]
	if due.Before(now) {
		due = now
	}
	if l.raised >= dataplane.MaxSubflows || due.Sub(now) > (dataplane.SubflowBurst-1)*dataplane.SubflowInterval {
		return false
	}
	l.raised++
	if l.due == nil || len(l.due) >= limitedAddresses {
		l.due = map[forward.Destination]time.Time{}
	}
	l.due[source] = due.Add(dataplane.SubflowInterval)
	return true
}
