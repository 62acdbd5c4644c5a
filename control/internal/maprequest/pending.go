// SPDX-License-Identifier: Apache-2.0

package maprequest

// The Map-Requests under way, by EID-Prefix and by nonce (RFC 9301 s.5.3).
// One is kept for a second after its answer, because that is how long the next
// request for the same EID-Prefix has to wait. A table: it sends nothing.

import (
	"net/netip"
	"time"

	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

// solicitedFor is how long a negative answer is the site's word because of its SMR. Later than that its registration
// may have expired, because its control plane died.
const solicitedFor = 30 * time.Second

// Request is a resolution under way.
type Request struct {
	Prefix      lisp.Prefix
	Source      lisp.EID // zero for refreshes
	startedAt   timing.Instant
	lastSentAt  timing.Instant
	state       status.PendingState
	tries       int
	SMRInvoked  bool
	solicitedAt timing.Instant // when the last SMR about it came
	ForPacket   bool           // a packet waits, of the source EID or of one that is not ours
	AsPITR      bool           // p: for a host that is not LISP's (RFC 9301 s.5.2)
	wantedAt    timing.Instant
	ownEID      bool           // sent apart from the table, to find other routers that register it
	check       bool           // sent apart from the table, to learn whether the Map-Resolver answers
	turn        turn           // the last question while all Map-Resolvers were silent
	Gleaned     bool           // a data packet's word holds until the answer
	news        bool           // something says that the mapping changed: an answer to an earlier Map-Request does not do
	againAt     timing.Instant // asked for anew, not before then; 0 for not
	admitted    bool           // by the rate limit: it is sent when its timer ends
	// Each try has its own nonce, so that an answer tells which Map-Resolver it
	// went through; a late answer to an early try is as good.
	Nonces    [settings.MapRequestTries]uint64
	resolvers [settings.MapRequestTries]netip.AddrPort
	sentAts   [settings.MapRequestTries]timing.Instant
}

// Pending is the table of Map-Requests under way, by EID-Prefix and by nonce.
type Pending struct {
	Requests table.Slab[Request]
	byPrefix map[lisp.Prefix]uint32
	ByNonce  map[uint64]uint32
	Timers   timing.Deadlines
}

func newPending() *Pending {
	return &Pending{byPrefix: make(map[lisp.Prefix]uint32), ByNonce: make(map[uint64]uint32)}
}

// Size is the number of requests, those in their pause included.
func (p *Pending) Size() int { return len(p.byPrefix) }

// Get returns the request for exactly that EID-Prefix.
func (p *Pending) Get(prefix lisp.Prefix) (uint32, *Request, bool) {
	id, ok := p.byPrefix[prefix]
	if !ok {
		return 0, nil, false
	}
	return id, p.Requests.At(id), true
}

// add adds a request that has not been sent yet.
func (p *Pending) add(r Request) uint32 {
	id := p.Requests.Add(r)
	p.byPrefix[r.Prefix] = id
	return id
}

// sent notes another try.
func (p *Pending) sent(id uint32, nonce uint64, resolver netip.AddrPort, now timing.Instant) {
	r := p.Requests.At(id)
	r.Nonces[r.tries], r.resolvers[r.tries], r.sentAts[r.tries] = nonce, resolver, now
	r.tries++
	r.lastSentAt = now
	p.ByNonce[nonce] = id
}

// Answered finds the request of a nonce, the Map-Resolver that it went to, and when.
func (p *Pending) Answered(nonce uint64) (id uint32, resolver netip.AddrPort, sentAt timing.Instant, ok bool) {
	id, ok = p.ByNonce[nonce]
	if !ok {
		return 0, netip.AddrPort{}, 0, false
	}
	r := p.Requests.At(id)
	if r.turn.nonce == nonce {
		return id, r.turn.resolver, r.turn.at, true
	}
	for i := range r.tries {
		if r.Nonces[i] == nonce {
			resolver, sentAt = r.resolvers[i], r.sentAts[i]
		}
	}
	return id, resolver, sentAt, true
}

// IsSolicited reports whether it is asked for because of an SMR that came lately.
func (r *Request) IsSolicited(now timing.Instant) bool {
	return r.SMRInvoked && now-r.solicitedAt < timing.Instant(solicitedFor)
}

// Waits reports whether it still waits for an answer: it neither has one nor pauses after its retransmits.
func (r *Request) Waits() bool { return r.state == status.PendingWaiting }

// FirstSentAt is when the first Map-Request of this resolution went.
func (r *Request) FirstSentAt() timing.Instant { return r.sentAts[0] }

// forgetNonces lets no further answer count.
func (p *Pending) forgetNonces(r *Request) {
	for _, nonce := range r.Nonces[:r.tries] {
		delete(p.ByNonce, nonce)
	}
	delete(p.ByNonce, r.turn.nonce)
	r.tries, r.turn, r.admitted = 0, turn{}, false
}

// settle is for a request that was answered.
func (p *Pending) settle(id uint32) {
	r := p.Requests.At(id)
	p.forgetNonces(r)
	if r.state = status.PendingSettled; r.againAt == 0 {
		r.SMRInvoked, r.news = false, false
	}
}

// retry is for a request that begins anew. An answer to its last Map-Request counts yet.
func (p *Pending) retry(id uint32) {
	r := p.Requests.At(id)
	last := r.turn
	if n := r.tries; n > 0 && r.sentAts[n-1] >= last.at {
		last = turn{r.Nonces[n-1], r.resolvers[n-1], r.sentAts[n-1]}
	}
	p.forgetNonces(r)
	if r.state = status.PendingWaiting; last.nonce != 0 {
		r.turn = last
		p.ByNonce[last.nonce] = id
	}
}

func (p *Pending) remove(id uint32) {
	p.settle(id)
	delete(p.byPrefix, p.Requests.At(id).Prefix)
	p.Timers.Remove(id)
	p.Requests.Release(id)
}
