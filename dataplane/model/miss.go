// SPDX-License-Identifier: Apache-2.0

package model

// Events: misses, at most one a second for each destination, deletions of what has
// expired, and whatever a test raises. Nothing here waits for a reader.

import (
	"slices"
	"time"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

const (
	missInterval = time.Second
	// unreachableInterval is how often a source is told that its packets are dropped.
	unreachableInterval = 100 * time.Millisecond
	// limitedAddresses bounds what a limiter remembers.
	limitedAddresses = 1 << 14
)

// limiter remembers when something was last done about an address.
type limiter struct {
	interval time.Duration
	last     map[forward.Destination]time.Time
}

// allow reports whether it may be done now. When it remembers too much it
// forgets all: then some come early, none is lost.
func (l *limiter) allow(now time.Time, about forward.Destination) bool {
	if last, ok := l.last[about]; ok && now.Sub(last) < l.interval {
		return false
	}
	if l.last == nil || len(l.last) >= limitedAddresses {
		l.last = map[forward.Destination]time.Time{}
	}
	l.last[about] = now
	return true
}

func (e *Engine) raise(o forward.Outcome, packet []byte, from ingress, policy dataplane.MissPolicy) {
	if e.closed || !e.misses.allow(e.options.Now(), o.Asked) {
		return
	}
	miss := missOf(o, from)
	if asksForRLOC(o) {
		miss.Source = lisp.EIDFromAddr(e.answerFrom(miss.Destination.Addr()))
	} else {
		e.tell(&miss, policy, &o.Header, packet)
	}
	e.offer(miss)
}

func missOf(o forward.Outcome, from ingress) dataplane.Miss {
	return dataplane.Miss{Instance: o.Asked.Instance, Source: lisp.EIDFromAddr(o.Header.Source), Destination: o.Asked.EID, Interface: from.name}
}

// asksForRLOC reports whether it is the RLOC of a packet that has no mapping, with two layers.
func asksForRLOC(o forward.Outcome) bool {
	return o.Asked != forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(o.Header.Destination)}
}

// tell puts into a miss what the settings tell of a packet that waits here.
func (e *Engine) tell(miss *dataplane.Miss, policy dataplane.MissPolicy, h *forward.Header, packet []byte) {
	if policy != dataplane.MissQueue {
		return
	}
	miss.Form = e.settings.MissForm
	switch miss.Form {
	case dataplane.MissFormHeader:
		miss.Packet = slices.Clone(h.Quoted(packet))
	case dataplane.MissFormPacket:
		miss.Packet = slices.Clone(packet)
	}
}

// handOver gives a packet to the control plane, or drops it when that does not read.
func (e *Engine) handOver(o forward.Outcome, packet []byte, from ingress) {
	if e.closed || len(e.events) >= cap(e.events)/2 {
		e.counters.drop(forward.DropHandOverLimit)
		return
	}
	miss := missOf(o, from)
	miss.Form, miss.Packet, miss.Handed = dataplane.MissFormPacket, packet, true
	e.counters.Other["handed_over"]++
	e.offer(miss)
}

// Raise hands an event to the control plane as if packets had caused it: what happens around an engine that is hosted, and what tests
// of readers of events want.
func (e *Engine) Raise(event dataplane.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.offer(event)
	}
}

func (e *Engine) offer(event dataplane.Event) {
	select {
	case e.events <- event:
	default:
		e.counters.EventsLost++
	}
}

// deleteMapping also tells that the mapping had expired, unless many events wait.
func (e *Engine) deleteMapping(prefix lisp.Prefix) error {
	entry, _ := e.tables.Mapping(prefix)
	err := e.tables.DeleteMapping(prefix)
	if err == nil {
		e.router.Memory.ForgetStatusBits(prefix.Instance(), prefix.Netip(), true)
	}
	switch {
	case err != nil || !entry.HasExpired(e.options.Now()):
	case len(e.events) >= cap(e.events)/2:
		e.counters.EventsLost++
	default:
		e.offer(dataplane.Expired{Prefix: prefix})
	}
	return err
}
