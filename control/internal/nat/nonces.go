// SPDX-License-Identifier: Apache-2.0

package nat

// Which nonces of Map-Registers an RTR has seen, so that an old one moves no binding. Nonces that grow are compared
// with the greatest. Of a node whose nonces do not grow the last 64 are known: an older Map-Register of such a node
// moves its binding where the Map-Server takes any nonce. After a binding has ended, its nonces are known for ten
// minutes.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// recentNonces are remembered of a binding. A node that had so many that grow has none that do not.
	recentNonces = 64
	// endedLasts is how long the nonces of a binding are known after its end.
	endedLasts = 10 * time.Minute
	// maxEnded bounds the ended bindings whose nonces are known: the oldest is forgotten.
	maxEnded = 1 << 13
)

// nonces are those of one binding, and from where they came last.
type nonces struct {
	last     netip.AddrPort
	greatest uint64
	recent   []uint64
	shrank   bool // they do not grow
}

// isReplay reports whether a nonce was used from another address. Where they grew until now one that does not is old.
func (n *nonces) isReplay(nonce uint64, from netip.AddrPort) bool {
	return from != n.last && (slices.Contains(n.recent, nonce) || !n.shrank && nonce <= n.greatest)
}

// saw remembers a nonce. One that was seen before says nothing about whether they grow: it may be a replay from a
// forged address.
func (n *nonces) saw(nonce uint64, from netip.AddrPort) {
	n.last = from
	if slices.Contains(n.recent, nonce) {
		return
	}
	if nonce < n.greatest && !n.shrank {
		if len(n.recent) == recentNonces {
			return
		}
		n.shrank = true
	}
	if len(n.recent) == recentNonces {
		n.recent = slices.Delete(n.recent, 0, 1)
	}
	n.recent = append(n.recent, nonce)
	n.greatest = max(n.greatest, nonce)
}

// claim is an EID-Prefix of a node.
type claim struct {
	prefix lisp.Prefix
	node   nodeID
}

// endedBinding is what is known of a binding that ended.
type endedBinding struct {
	nonces
	at timing.Instant
}

// ended are bindings that ended, the oldest first.
type ended struct {
	byClaim map[claim]endedBinding
	order   []claim // each with the time in byClaim, or it came back
	times   []timing.Instant
}

// add remembers one.
func (e *ended) add(c claim, n nonces, now timing.Instant) {
	e.expire(now)
	if len(e.order) >= maxEnded {
		e.pop()
	}
	e.byClaim[c] = endedBinding{n, now}
	e.order, e.times = append(e.order, c), append(e.times, now)
}

// of are the nonces of an ended binding.
func (e *ended) of(c claim, now timing.Instant) nonces {
	e.expire(now)
	return e.byClaim[c].nonces
}

// expire forgets what ended long ago.
func (e *ended) expire(now timing.Instant) {
	for len(e.times) > 0 && now-e.times[0] >= timing.Instant(endedLasts) {
		e.pop()
	}
}

func (e *ended) pop() {
	if c := e.order[0]; e.byClaim[c].at == e.times[0] {
		delete(e.byClaim, c)
	}
	e.order, e.times = e.order[1:], e.times[1:]
}
