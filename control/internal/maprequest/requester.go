// SPDX-License-Identifier: Apache-2.0

package maprequest

// Map-Requests: sent, repeated with growing pauses, given up (RFC 9301 s.5.2, s.5.3).

import (
	"net/netip"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/resolvers"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// requestBackoffMax bounds the doublings of MapRequestInterval.
const requestBackoffMax = 3

// Requester has the Map-Requests under way and the Map-Resolvers that they go to. Of the map-cache it only reads
// whether an answer to another request covered one.
type Requester struct {
	h          *system.System
	cache      *mapcache.Cache
	Pending    *Pending
	Resolvers  resolvers.Table
	rate       timing.Bucket               // of all Map-Requests
	Smrs       timing.Buckets[lisp.Prefix] // of those that SMRs and other news of a cached mapping cause
	Last       lisp.Prefix                 // asked for last
	Rounds     timing.Deadlines            // when the next question goes while all Map-Resolvers are silent, of one row
	turnAt     timing.Instant              // when the last one went
	ownTurn    bool                        // the next one is for an EID of our own, or in use
	waiting    uint32                      // whose turn it was
	checked    lisp.Prefix                 // the EID that was asked for last so
	checkedAt  timing.Instant              // and when
	used       uint32                      // the row of the map-cache that was asked for last as one in use
	Release    batch.Work                  // asking for all that waits, when a Map-Resolver is back
	released   uint32                      // the rows that are done
	Returned   func()                      // called when a Map-Resolver is back
	NoteReturn func(timing.Instant)        // likewise, with the time
	Own        func() lisp.Prefix          // an EID-Prefix of our own, zero for none
}

// New makes one that has nothing under way and no Map-Resolver. cache is only read.
func New(h *system.System, cache *mapcache.Cache) *Requester {
	return &Requester{h: h, cache: cache, Pending: newPending(), Resolvers: resolvers.Table{H: h}}
}

// Ask begins a resolution. One that is under way goes on; one that was answered
// less than a second ago waits for that second to end (RFC 9301 s.5.3).
func (r *Requester) Ask(q Request) bool { return r.askAt(q, r.h.Now) }

// askAt begins a resolution then, or goes on with one. Of a mapping that is said to have changed, one that is under
// way may bring what was before: it is followed by another.
func (r *Requester) askAt(q Request, at timing.Instant) bool {
	if r.Resolvers.Size() == 0 || len(r.h.RLOCs) == 0 {
		r.h.Count(counter.RefusedNoMapResolver)
		return false
	}
	if id, known, ok := r.Pending.Get(q.Prefix); ok {
		known.news, known.wantedAt = known.news || q.news, r.h.Now
		if q.SMRInvoked {
			known.SMRInvoked, known.solicitedAt = true, r.h.Now
		}
		switch {
		case known.state == status.PendingSettled:
			r.askSettled(id, at)
		case q.news && known.lastSentAt > 0 && known.againAt == 0:
			known.againAt = at
		}
		return true
	}
	if r.Pending.Size() >= r.h.Limits.PendingRequests {
		r.h.Count(counter.RefusedPendingTable)
		return false
	}
	q.startedAt, q.wantedAt, q.solicitedAt, q.state = r.h.Now, r.h.Now, r.h.Now, status.PendingWaiting
	if at > r.h.Now {
		q.state = status.PendingSettled
		r.askSettled(r.Pending.add(q), at)
		return true
	}
	r.try(r.Pending.add(q))
	return true
}

// AskForNews asks for what something says of a cached mapping, at the rate that such Map-Requests may have. What
// comes too early is asked for when the rate allows, with the whole cached mapping, so that more of the kind adds
// nothing until then.
func (r *Requester) AskForNews(q Request, cached lisp.Prefix) bool {
	if r.isDue(q.Prefix) || r.isDue(cached) {
		return true
	}
	at, ok := r.Smrs.Next(r.h.Now, cached, r.h.Limits.SMRInvoked, r.h.Limits.RateTable)
	if !ok {
		r.h.Count(counter.RefusedSMRLimit)
		return false
	}
	if q.news = true; at > r.h.Now {
		q.Prefix = cached
	}
	return r.askAt(q, at)
}

// isDue reports whether the next Map-Request for an EID-Prefix is about to go, so that its answer will be newer than
// what is known now.
func (r *Requester) isDue(p lisp.Prefix) bool {
	_, q, ok := r.Pending.Get(p)
	return ok && q.againAt > 0 && q.state == status.PendingSettled && q.news
}

// askSettled has one without a Map-Request under way begin then, or when the rate limit's second is over.
func (r *Requester) askSettled(id uint32, at timing.Instant) {
	q := r.Pending.Requests.At(id)
	if q.lastSentAt > 0 {
		at = max(at, q.lastSentAt+timing.Instant(settings.MapRequestInterval))
	}
	if q.againAt == 0 || at < q.againAt {
		q.againAt = at
		r.Pending.Timers.Set(id, at)
	}
}

// AskAgain asks for what was asked for last, to learn whether a Map-Resolver answers again: while a sibling forwards,
// no packet makes us ask.
func (r *Requester) AskAgain() {
	if !r.Last.IsZero() {
		r.Ask(Request{Prefix: r.Last})
	}
}

// AskFor asks for an EID-Prefix whatever the map-cache has.
func (r *Requester) AskFor(p lisp.Prefix) { r.Ask(Request{Prefix: p}) }

// try sends the next Map-Request of a resolution and sets its deadline. Beyond the rate
// limit Map-Requests are sent later, in the order in which they were wanted, at most the interval
// of repetition later.
func (r *Requester) try(id uint32) {
	q := r.Pending.Requests.At(id)
	if r.Resolvers.OneByOne() {
		r.park(id)
		return
	}
	if at := r.restedAt(q); at > r.h.Now {
		r.Pending.Timers.Set(id, at)
		return
	}
	if !q.admitted {
		at, ok := r.rate.Reserve(r.h.Now, r.h.Limits.MapRequestsTotal, r.h.After(settings.MapRequestInterval))
		if !ok {
			r.h.Count(counter.RefusedRequestLimit)
			r.Pending.Timers.Set(id, r.h.After(settings.MapRequestInterval))
			return
		}
		if at > r.h.Now {
			q.admitted = true
			r.Pending.Timers.Set(id, at)
			return
		}
	}
	q.admitted, r.Last = false, q.Prefix
	if q.tries > 0 {
		r.noteUnanswered(q.resolvers[q.tries-1])
	}
	resolver := r.Resolvers.Next(q.resolvers[:q.tries], q.Source.IsZero() && !q.SMRInvoked)
	nonce := r.h.Nonce()
	r.sendMapRequest(q, nonce, resolver)
	rounds := q.tries / r.Resolvers.Size()
	r.Pending.sent(id, nonce, resolver, r.h.Now)
	r.Resolvers.Sent(resolver)
	r.Pending.Timers.Set(id, r.h.After(settings.MapRequestInterval<<min(rounds, requestBackoffMax)))
}

// noteUnanswered notes that a Map-Resolver did not answer. Before it is called silent it is asked for an EID of our
// own, or one in use, if there is any: others may be unanswered because their ETR is dead.
func (r *Requester) noteUnanswered(resolver netip.AddrPort) {
	if i, doubtful := r.Resolvers.Unanswered(resolver); doubtful {
		r.Resolvers.Doubt(i)
	}
}

// HandleCheck asks a Map-Resolver for an EID of our own, or one in use; or notes that it did not answer that, or that
// there is none to ask for. A silent one is asked again and again.
func (r *Requester) HandleCheck(i uint32) {
	if resolver, due := r.Resolvers.MayCheck(int(i)); !due || r.Resolvers.OneByOne() || !r.askOwn(resolver) {
		r.Resolvers.WentSilent(int(i))
	}
}

// AskOwn asks a Map-Resolver for an EID-Prefix of our own, once; ok is false where none is worth asking. The answer
// is not for the map-cache.
func (r *Requester) AskOwn(p lisp.Prefix) (nonce uint64, resolver netip.AddrPort, ok bool) {
	if len(r.h.RLOCs) == 0 || r.Resolvers.Size() == 0 || r.Resolvers.Silent() || !r.rate.Take(r.h.Now, r.h.Limits.MapRequestsTotal) {
		return 0, netip.AddrPort{}, false
	}
	resolver, nonce = r.Resolvers.Next(nil, false), r.h.Nonce()
	r.sendMapRequest(&Request{Prefix: p, ownEID: true}, nonce, resolver)
	r.Resolvers.Sent(resolver)
	return nonce, resolver, true
}

// sendMapRequest sends one Map-Request inside an ECM (RFC 9301 s.5.2, s.5.8).
func (r *Requester) sendMapRequest(q *Request, nonce uint64, resolver netip.AddrPort) {
	m := wire.MapRequest{SMRInvoked: q.SMRInvoked, PITR: q.AsPITR, LocalXTR: true, Nonce: nonce}
	m.Ask(q.Source, r.h.RLOCs[:min(len(r.h.RLOCs), wire.MaxITRRLOCs)], q.Prefix)
	if !r.transmit(&m, q.Prefix.EID(), resolver) {
		return
	}
	r.h.Count(counter.MapRequestSent)
	if q.SMRInvoked {
		r.h.Count(counter.SMRInvokedMapRequestSent)
	}
	if r.h.MayNotice() {
		r.h.Say(effect.Notice{Kind: effect.NoticeMapRequestSent, Prefix: q.Prefix, Remote: resolver, Detail: tryDetail(q)})
	}
}

// transmit sends a Map-Request about an EID, and reports whether it could be encoded.
func (r *Requester) transmit(m *wire.MapRequest, e lisp.EID, resolver netip.AddrPort) bool {
	message, err := m.AppendTo(r.h.Scratch[:0])
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return false
	}
	r.h.Scratch = message
	payload, err := r.encapsulated(message, e, resolver.Addr())
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return false
	}
	r.h.Send(netip.AddrPort{}, resolver, r.h.Used(payload))
	return true
}

// encapsulated is a Map-Request about an EID in an ECM to a Map-Resolver.
func (r *Requester) encapsulated(message []byte, e lisp.EID, resolver netip.Addr) ([]byte, error) {
	source, destination := r.innerAddresses(e, resolver)
	return wire.AppendECM(r.h.Buffer(system.UsualECMOctets), source, destination, message)
}

// innerAddresses are those of the packet inside an ECM: from our RLOC to the EID
// (RFC 9301 s.5.8). Where these are of different families, or the EID is no IP
// address, the Map-Resolver's address stands for the EID: it is not routed by.
func (r *Requester) innerAddresses(e lisp.EID, resolver netip.Addr) (source, destination netip.AddrPort) {
	port := r.h.ControlPort
	for _, to := range []netip.Addr{e.Addr(), resolver} {
		if !to.IsValid() {
			continue
		}
		if rloc, ok := r.h.RLOCOf(to.Is4()); ok {
			return netip.AddrPortFrom(rloc.Addr(), port), netip.AddrPortFrom(to, port)
		}
	}
	own := netip.AddrPortFrom(r.h.RLOCs[0].Addr(), port)
	return own, own
}

// HandleTimeout goes on with a resolution that was not answered.
func (r *Requester) HandleTimeout(id uint32) {
	q := r.Pending.Requests.At(id)
	switch {
	case r.Resolvers.Size() == 0, len(r.h.RLOCs) == 0:
		r.Pending.remove(id)
	case q.state != status.PendingWaiting && (q.againAt == 0 || r.superfluous(q)):
		r.Pending.remove(id)
	case q.state != status.PendingWaiting:
		r.Pending.forgetNonces(q)
		q.againAt, q.state, q.startedAt = 0, status.PendingWaiting, r.h.Now
		r.try(id)
	case r.superfluous(q):
		r.Settle(id)
	case r.Resolvers.OneByOne() && r.h.Now-q.wantedAt > timing.Instant(parkedFor):
		r.Pending.remove(id)
	case r.Resolvers.OneByOne():
		r.park(id)
	case q.tries == settings.MapRequestTries:
		r.noteUnanswered(q.resolvers[q.tries-1])
		q.state = status.PendingHoldDown
		r.Pending.Timers.Set(id, r.h.After(settings.MapRequestHoldDown))
		r.h.Count(counter.MapRequestUnanswered)
		r.h.Notice(effect.Notice{Kind: effect.NoticeMapRequestUnanswered, Prefix: q.Prefix, Detail: "pausing " + settings.MapRequestHoldDown.String()})
	default:
		r.try(id)
	}
}

// superfluous reports whether the answer to another request covered this one.
func (r *Requester) superfluous(q *Request) bool {
	if !q.ForPacket && q.Source.IsZero() || q.news {
		return false
	}
	_, e, ok := r.cache.Longest(q.Prefix)
	return ok && !e.Gleaned && e.Mapping.Action != lisp.ActionSendMapRequest
}

// Settle ends a resolution; its EID-Prefix stays for the rate limit's second, and a little longer: those of many
// resolutions go together.
func (r *Requester) Settle(id uint32) {
	q := r.Pending.Requests.At(id)
	until := q.lastSentAt + timing.Instant(settings.MapRequestInterval)
	r.Pending.settle(id)
	if q.againAt > 0 {
		r.Pending.Timers.Set(id, max(q.againAt, until))
		return
	}
	if until <= r.h.Now {
		r.Pending.remove(id)
		return
	}
	r.Pending.Timers.Set(id, (until/settings.SettledGrid+1)*settings.SettledGrid)
}

func tryDetail(q *Request) string {
	switch {
	case q.tries > 0:
		return "again"
	case q.ownEID:
		return "for an EID of our own"
	case q.check:
		return "to learn whether it is silent"
	case q.SMRInvoked:
		return "because of an SMR"
	case q.AsPITR:
		return "for a host that is not LISP's"
	case q.Source.IsZero() && q.ForPacket:
		return "for a packet that is relayed"
	case q.Source.IsZero():
		return "to refresh"
	}
	return "from " + q.Source.String()
}

// Row is a Map-Request under way for `loci show`.
func (r *Requester) Row(id uint32) status.PendingRequest {
	q := r.Pending.Requests.At(id)
	p := status.PendingRequest{
		Prefix: q.Prefix, Source: q.Source, SMRInvoked: q.SMRInvoked, Tries: q.tries, StartedAt: r.h.Time(q.startedAt),
		NextAt: r.h.Time(r.Pending.Timers.Of(id)), State: q.state,
	}
	if q.tries > 0 {
		p.MapResolver = q.resolvers[q.tries-1]
	}
	return p
}
