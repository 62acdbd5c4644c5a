// SPDX-License-Identifier: Apache-2.0

package model

// Miss events, at most one a second for each destination. Nothing here waits for a
// reader.

import (
	"time"

	"loci/dataplane"
	"loci/forward"
	"loci/lisp"
)

const (
	missInterval = time.Second
	// missDestinations bounds what the limiter remembers.
	missDestinations = 1 << 14
)

// missLimiter remembers when the last event for a destination was raised.
type missLimiter struct {
	raised map[forward.Destination]time.Time
}

// allow reports whether an event may be raised now. When it remembers too much it
// forgets all: then some come early, none is lost.
func (l *missLimiter) allow(now time.Time, to forward.Destination) bool {
	if last, ok := l.raised[to]; ok && now.Sub(last) < missInterval {
		return false
	}
	if l.raised == nil || len(l.raised) >= missDestinations {
		l.raised = map[forward.Destination]time.Time{}
	}
	l.raised[to] = now
	return true
}

func (e *Engine) raise(o forward.Outcome, from ingress) {
	destination := lisp.EIDFromAddr(o.Header.Destination)
	if e.closed || !e.limiter.allow(e.options.Now(), forward.Destination{Instance: o.Instance, EID: destination}) {
		return
	}
	miss := dataplane.Miss{
		Instance: o.Instance, Source: lisp.EIDFromAddr(o.Header.Source), Destination: destination, Interface: from.name,
	}
	select {
	case e.events <- miss:
	default:
		e.counters.EventsLost++
	}
}
