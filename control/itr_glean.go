// SPDX-License-Identifier: Apache-2.0

package control

// Gleaning (RFC 9300 s.4.2, s.9): the outer source of a data packet serves as the one
// locator of its inner source while the mapping system is asked. Off by default, and
// never on over the public Internet: whoever can forge a packet directs the answers to it
// for as long as that takes. A gleaned mapping covers one EID for three seconds, is not
// prolonged, pushes nothing out of the map-cache, and contradicts nobody.

import (
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
)

// gleanLifetime is how long a gleaned mapping is used unless it is verified (RFC 9300 s.9).
const gleanLifetime = 3 * time.Second

// gleanings bounds the mappings that data packets bring in, and with them the Map-Requests
// that verify them.
func gleanings() Rate { return Rate{PerSecond: 100, Burst: 500} }

// handleGleaned installs a gleaned mapping and asks the mapping system for the real one.
func (r *itr) handleGleaned(g Gleaned) {
	prefix := lisp.HostPrefix(g.Instance, g.Source)
	if _, e, ok := r.cache.longest(prefix); ok && e.mapping.Action != lisp.ActionSendMapRequest {
		return // known meanwhile, or gleaned already
	}
	if !r.mayGlean(prefix, g.From) || !r.ask(pendingRequest{prefix: prefix, source: g.Destination}) {
		r.h.count(RefusedGleaning)
		return
	}
	_, q, _ := r.pending.get(prefix)
	q.gleaned = true
	r.h.count(MappingGleaned)
	r.put(cacheEntry{
		mapping: gleanedMapping(prefix, g.From), gleaned: true, expiresAt: r.h.after(gleanLifetime),
		from: netip.AddrPortFrom(g.From.Addr(), 0),
	})
}

// mayGlean reports whether a packet is believed for the moment: once for each Map-Request
// that verifies it, and about no RLOC that is known to be down, or our own.
func (r *itr) mayGlean(p lisp.Prefix, from lisp.RLOC) bool {
	if !r.config.Gleaning || !r.trusts() || slices.Contains(r.h.rlocs, from) {
		return false
	}
	if _, q, ok := r.pending.get(p); ok && (q.gleaned || q.state != PendingWaiting) {
		return false
	}
	if _, l, known := r.prober.table.get(from); known && l.state == LocatorDown {
		return false
	}
	return r.cache.size() < r.h.limits.MapCacheEntries && r.gleans.take(r.h.now, gleanings())
}

// gleanedMapping has the one RLOC, with the best priority and a weight of zero (RFC 9300 s.9).
// Nobody gave it a TTL.
func gleanedMapping(p lisp.Prefix, from lisp.RLOC) lisp.Mapping {
	return lisp.Mapping{Prefix: p, Locators: lisp.LocatorSet{{
		RLOC: from, Priority: 1, Weight: 0, MulticastPriority: lisp.PriorityUnused, Reachable: true,
	}}}
}
