// SPDX-License-Identifier: Apache-2.0

package control

// The ITR's Map-Requests under way, by EID-Prefix and by nonce (RFC 9301 s.5.3).
// One is kept for a second after its answer, because that is how long the next
// request for the same EID-Prefix has to wait. A table: it sends nothing.

import (
	"net/netip"

	"loci/lisp"
)

// pendingRequest is a resolution under way.
type pendingRequest struct {
	prefix     lisp.Prefix
	source     lisp.EID // zero for refreshes
	startedAt  instant
	lastSentAt instant
	state      PendingState
	tries      int
	smrInvoked bool
	ownEID     bool // sent apart from the table, to learn whether the Map-Resolver answers
	gleaned    bool // a data packet's word holds until the answer
	again      bool // settled, but asked for anew within the second
	admitted   bool // by the rate limit: its turn to be sent comes with its timer
	// Each try has its own nonce, so that an answer tells which Map-Resolver it
	// went through; a late answer to an early try is as good.
	nonces    [mapRequestTries]uint64
	resolvers [mapRequestTries]netip.AddrPort
	sentAts   [mapRequestTries]instant
}

// pendingRequests is the table.
type pendingRequests struct {
	requests slab[pendingRequest]
	byPrefix map[lisp.Prefix]uint32
	byNonce  map[uint64]uint32
	timers   deadlines
}

func newPendingRequests() *pendingRequests {
	return &pendingRequests{byPrefix: make(map[lisp.Prefix]uint32), byNonce: make(map[uint64]uint32)}
}

// size is the number of requests, those in their pause included.
func (p *pendingRequests) size() int { return len(p.byPrefix) }

// get returns the request for exactly that EID-Prefix.
func (p *pendingRequests) get(prefix lisp.Prefix) (uint32, *pendingRequest, bool) {
	id, ok := p.byPrefix[prefix]
	if !ok {
		return 0, nil, false
	}
	return id, p.requests.at(id), true
}

// add adds a request that has not been sent yet.
func (p *pendingRequests) add(r pendingRequest) uint32 {
	id := p.requests.add(r)
	p.byPrefix[r.prefix] = id
	return id
}

// sent notes another try.
func (p *pendingRequests) sent(id uint32, nonce uint64, resolver netip.AddrPort, now instant) {
	r := p.requests.at(id)
	r.nonces[r.tries], r.resolvers[r.tries], r.sentAts[r.tries] = nonce, resolver, now
	r.tries++
	r.lastSentAt = now
	p.byNonce[nonce] = id
}

// answered finds the request of a nonce, the Map-Resolver that it went to, and when.
func (p *pendingRequests) answered(nonce uint64) (id uint32, resolver netip.AddrPort, sentAt instant, ok bool) {
	id, ok = p.byNonce[nonce]
	if !ok {
		return 0, netip.AddrPort{}, 0, false
	}
	r := p.requests.at(id)
	for i := range r.tries {
		if r.nonces[i] == nonce {
			resolver, sentAt = r.resolvers[i], r.sentAts[i]
		}
	}
	return id, resolver, sentAt, true
}

// settle forgets the nonces: no further answer counts.
func (p *pendingRequests) settle(id uint32) {
	r := p.requests.at(id)
	for _, nonce := range r.nonces[:r.tries] {
		delete(p.byNonce, nonce)
	}
	r.tries, r.smrInvoked, r.admitted = 0, false, false
	r.state = PendingSettled
}

func (p *pendingRequests) remove(id uint32) {
	p.settle(id)
	delete(p.byPrefix, p.requests.at(id).prefix)
	p.timers.remove(id)
	p.requests.release(id)
}
