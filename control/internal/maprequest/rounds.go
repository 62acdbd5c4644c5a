// SPDX-License-Identifier: Apache-2.0

package maprequest

// While all Map-Resolvers are silent: Map-Requests that wait, and one for an EID of our own or in use, are sent in turn, one a second
// in all. So some question is always under way, and no EID-Prefix uses up its retransmits (RFC 9301 s.5.3). When one
// of the Map-Resolvers is back, everything that waits is asked for at once, within the rate.

import (
	"net/netip"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// turnInterval is how far apart the questions are while all Map-Resolvers are silent.
	turnInterval = timing.Instant(settings.MapRequestInterval)
	// parkedLook is how often a request that waits for its turn is looked at; parkedFor how long it waits after it was last wanted.
	parkedLook = 30 * time.Second
	parkedFor  = 90 * time.Second
	// releaseBatch bounds the rows that are looked at in one event-loop iteration when a Map-Resolver is back.
	releaseBatch = 1024
	// usedSearchSteps bounds one search for an EID-Prefix in use.
	usedSearchSteps = 256
)

// turn is the last question for a request while all Map-Resolvers were silent.
type turn struct {
	nonce    uint64
	resolver netip.AddrPort
	at       timing.Instant
}

// park lets a request wait for its turn.
func (r *Requester) park(id uint32) {
	r.Pending.Timers.Set(id, r.h.After(parkedLook))
	r.BeginRounds()
}

// BeginRounds sets the time of the next question, unless that is set.
func (r *Requester) BeginRounds() {
	if !r.Rounds.Has(0) {
		r.Rounds.Set(0, max(r.h.Now, r.turnAt+turnInterval))
	}
}

// HandleRound asks the next question: one that waits, then one for an EID of our own or in use, and so on.
func (r *Requester) HandleRound(uint32) {
	if !r.Resolvers.OneByOne() {
		return
	}
	if len(r.h.RLOCs) > 0 {
		waiting, found := r.nextWaiting()
		if found && !r.ownTurn {
			r.askOneByOne(waiting)
		} else if !r.askOwn(r.Resolvers.LongestUnasked()) && found {
			r.askOneByOne(waiting)
		}
		r.ownTurn = !r.ownTurn
	}
	r.turnAt = r.h.Now
	r.Rounds.Set(0, r.h.Now+turnInterval)
}

// nextWaiting is the request whose turn it is.
func (r *Requester) nextWaiting() (id uint32, ok bool) {
	rows := uint32(r.Pending.Requests.Len())
	for range min(rows, releaseBatch) {
		r.waiting = (r.waiting + 1) % rows
		if q := r.Pending.Requests.At(r.waiting); !q.Prefix.IsZero() && q.state == status.PendingWaiting && r.rested(q) {
			return r.waiting, true
		}
	}
	return 0, false
}

// rested reports whether a Map-Request for it may be sent again (RFC 9301 s.5.3).
func (r *Requester) rested(q *Request) bool { return r.h.Now >= r.restedAt(q) }

// restedAt is when a Map-Request for it may be sent again.
func (r *Requester) restedAt(q *Request) timing.Instant {
	last := q.lastSentAt
	if q.Prefix == r.checked {
		last = max(last, r.checkedAt)
	}
	if last == 0 {
		return r.h.Now
	}
	return last + turnInterval
}

func (r *Requester) askOneByOne(id uint32) {
	q := r.Pending.Requests.At(id)
	delete(r.Pending.ByNonce, q.turn.nonce)
	q.turn = turn{r.h.Nonce(), r.Resolvers.LongestUnasked(), r.h.Now}
	r.Pending.ByNonce[q.turn.nonce] = id
	q.lastSentAt = r.h.Now
	r.sendMapRequest(q, q.turn.nonce, q.turn.resolver)
	r.Resolvers.Sent(q.turn.resolver)
}

// askOwn asks a Map-Resolver for an EID of our own, or one in use. It reports whether there is any.
func (r *Requester) askOwn(resolver netip.AddrPort) bool {
	p := hostOf(r.Own())
	if p.IsZero() {
		p = r.inUse()
	}
	if p.IsZero() || len(r.h.RLOCs) == 0 {
		return false
	}
	nonce := r.h.Nonce()
	r.checked, r.checkedAt = p, r.h.Now
	r.sendMapRequest(&Request{Prefix: p, check: true}, nonce, resolver)
	r.Resolvers.Checked(resolver, nonce)
	return true
}

// CheckedStale is the EID that was asked for last to learn whether a Map-Resolver is silent, if its mapping is used
// past its TTL.
func (r *Requester) CheckedStale() lisp.Prefix {
	if _, e, ok := r.cache.Longest(r.checked); r.checked.IsZero() || !ok || !e.Stale {
		return lisp.Prefix{}
	}
	return r.checked
}

// hostOf is the first EID of an EID-Prefix, zero for none.
func hostOf(p lisp.Prefix) lisp.Prefix {
	if p.IsZero() {
		return p
	}
	return lisp.HostPrefix(p.Instance(), p.EID())
}

// mayAsk reports whether an EID was not asked for within a second.
func (r *Requester) mayAsk(p lisp.Prefix) bool {
	_, q, ok := r.Pending.Get(p)
	return !ok || r.rested(q)
}

// inUse is an EID of the map-cache that was of use lately, another one each time; else of what was asked for last.
func (r *Requester) inUse() lisp.Prefix {
	rows := uint32(r.cache.Entries.Len())
	for range min(rows, usedSearchSteps) {
		r.used = (r.used + 1) % rows
		e := r.cache.Entries.At(r.used)
		lately := e.LastUsedAt > 0 &&
			r.h.Now-e.LastUsedAt < timing.Instant(settings.StaleUse+settings.UsageDelay)
		if lately && !e.Static && !e.Gleaned && !e.Mapping.Negative() && r.mayAsk(hostOf(e.Mapping.Prefix)) {
			return hostOf(e.Mapping.Prefix)
		}
	}
	if last := hostOf(r.Last); r.mayAsk(last) {
		return last
	}
	return lisp.Prefix{}
}

// Begin begins to ask for everything that waits, for a Map-Resolver is back.
func (r *Requester) Begin() {
	r.released = 0
	r.Release.At(r.h.Now)
	r.Rounds.Remove(0)
	r.NoteReturn(r.h.Now)
	if r.Returned != nil {
		r.Returned()
	}
}

// HandleRelease does one batch of that.
func (r *Requester) HandleRelease() {
	r.Release.Run(r.h.Now, releaseBatch, func() (cost int, more bool) {
		rows := uint32(r.Pending.Requests.Len())
		if r.released < rows {
			r.askAnew(r.released)
			r.released++
		}
		return 1, r.released < rows
	})
}

// askAnew asks for what waits, or pauses after its retransmits; not within a second of the last time (RFC 9301 s.5.3).
func (r *Requester) askAnew(id uint32) {
	q := r.Pending.Requests.At(id)
	if q.Prefix.IsZero() || q.state == status.PendingSettled {
		return
	}
	r.Pending.retry(id)
	if !r.rested(q) {
		r.Pending.Timers.Set(id, r.restedAt(q))
		return
	}
	r.try(id)
}
