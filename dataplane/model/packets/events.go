// SPDX-License-Identifier: Apache-2.0

package packets

// What raises events: misses, at most one a second for each destination, and deletions of what has expired.

import (
	"net/netip"
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

func (p *Path) raise(o forward.Outcome, packet []byte, from ingress, policy dataplane.MissPolicy) {
	if p.Queue.closed || !p.misses.allow(p.options.Now(), o.Asked) {
		return
	}
	miss := missOf(o, from)
	if asksForRLOC(o) {
		miss.Source = lisp.EIDFromAddr(p.answerFrom(miss.Destination.Addr(), netip.Addr{}))
	} else {
		p.tell(&miss, policy, &o.Header, packet)
	}
	p.Queue.Offer(miss)
}

func missOf(o forward.Outcome, from ingress) dataplane.Miss {
	return dataplane.Miss{Instance: o.Asked.Instance, Source: lisp.EIDFromAddr(o.Header.Source), Destination: o.Asked.EID, Interface: from.name}
}

// asksForRLOC reports whether it is the RLOC of a packet that has no mapping, with two layers.
func asksForRLOC(o forward.Outcome) bool {
	return o.Asked != forward.Destination{Instance: o.Instance, EID: lisp.EIDFromAddr(o.Header.Destination)}
}

// tell puts into a miss what the settings tell of a packet that waits here.
func (p *Path) tell(miss *dataplane.Miss, policy dataplane.MissPolicy, h *forward.Header, packet []byte) {
	if policy != dataplane.MissQueue {
		return
	}
	miss.Form = p.settings.MissForm
	switch miss.Form {
	case dataplane.MissFormHeader:
		miss.Packet = slices.Clone(h.Quoted(packet))
	case dataplane.MissFormPacket:
		miss.Packet = slices.Clone(packet)
	}
}

// handOver gives a packet to the control plane, or drops it when that does not read.
func (p *Path) handOver(o forward.Outcome, packet []byte, from ingress) {
	if p.Queue.closed || p.Queue.isHalfFull() {
		p.counters.drop(forward.DropHandOverLimit)
		return
	}
	miss := missOf(o, from)
	miss.Form, miss.Packet, miss.Handed = dataplane.MissFormPacket, packet, true
	p.counters.Other["handed_over"]++
	p.Queue.Offer(miss)
}

// Deleted is called when a map-cache entry was deleted. It tells that it had expired, unless many events wait.
func (p *Path) Deleted(entry *dataplane.MapCacheEntry) {
	prefix := entry.Mapping.Prefix
	p.router.Memory.ForgetStatusBits(prefix.Instance(), prefix.Netip(), true)
	if entry.HasExpired(p.options.Now()) {
		p.Queue.offerMinor(dataplane.Expired{Prefix: prefix})
	}
}
