// SPDX-License-Identifier: Apache-2.0

package control

// The ITR's care for its map-cache in the course of time: expiry, idle removal,
// refresh of what is in use (RFC 9301 s.5.3, s.5.4), what an SMR says about it
// (s.6.1), and its adoption after a restart. It never resolves anything new.

import (
	"iter"

	"loci/lisp"
)

// solicitedEntries is how many map-cache entries one SMR makes us look at.
const solicitedEntries = 8

// schedule sets the next deadline of an entry.
func (r *itr) schedule(id uint32) {
	e := r.cache.entries.at(id)
	if e.static {
		r.cache.timers.remove(id)
		return
	}
	next := e.expiresAt
	if r.config.IdleTimeout > 0 {
		next = min(next, e.lastUse()+instant(r.config.IdleTimeout))
	}
	if at := r.refreshAt(e); !e.refreshing && at > r.h.now {
		next = min(next, at)
	}
	r.cache.timers.set(id, next)
}

// refreshAt is when a mapping in use is asked for again.
func (r *itr) refreshAt(e *cacheEntry) instant { return e.expiresAt - r.lead(e) }

func (r *itr) lead(e *cacheEntry) instant {
	return min((e.expiresAt-e.refreshedAt)/4, instant(refreshLead))
}

// handleCacheTimeout expires, refreshes or removes an entry.
func (r *itr) handleCacheTimeout(id uint32) {
	e := r.cache.entries.at(id)
	idle := r.config.IdleTimeout > 0 && r.h.now >= e.lastUse()+instant(r.config.IdleTimeout)
	switch {
	case r.h.now >= e.expiresAt:
		r.h.count(MappingExpired)
		r.removeCovering(e.mapping.Prefix, RemoveExpired) // their time is over too, see capCovering
		r.remove(id, RemoveExpired)
	case idle && r.isCovered(e.mapping.Prefix):
		// Nobody uses it, but without it the covering one would decide: it stays as long.
		e.lastUsedAt = r.h.now
		r.schedule(id)
	case idle:
		r.h.count(MappingIdle)
		r.remove(id, RemoveIdle)
	default:
		r.refreshIfUsed(id)
		r.schedule(id)
	}
}

// refreshIfUsed asks again for a mapping whose TTL ends soon, so that a flow in
// progress does not see it end.
func (r *itr) refreshIfUsed(id uint32) {
	e := r.cache.entries.at(id)
	used := e.lastUsedAt > 0 && r.h.now-e.lastUsedAt <= r.lead(e)+instant(usageDelay)
	if e.static || e.gleaned || e.refreshing || !used || r.h.now < r.refreshAt(e) {
		return
	}
	e.refreshing = r.ask(pendingRequest{prefix: e.mapping.Prefix})
}

// handleUsage notes which entries are in use.
func (r *itr) handleUsage(usage []Usage) {
	for _, u := range usage {
		id, e, ok := r.cache.get(u.Prefix)
		if !ok {
			r.h.emit(RemoveMapping{Prefix: u.Prefix, Reason: RemoveUnknown})
			continue
		}
		if at := min(r.h.instant(u.LastUsedAt), r.h.now); !u.LastUsedAt.IsZero() && at > e.lastUsedAt {
			e.lastUsedAt, e.referenced = at, true
			r.prober.table.used(e.mapping, at)
			r.refreshIfUsed(id)
		}
	}
}

// handleSolicitMapRequest asks again for cached mappings that an SMR says changed. The answer is asked for
// through the mapping system only, the sender of the SMR proves nothing; the mapping
// stays in use meanwhile (RFC 9301 s.6.1).
func (r *itr) handleSolicitMapRequest(changed []lisp.Prefix) {
	met := 0
	for _, p := range changed {
		met += r.solicit(p, solicitedEntries-met)
	}
	if met == 0 {
		r.h.count(RefusedSMRWithoutMapping)
	}
}

// solicit asks again for the mapping that covers an EID-Prefix, or for those within it, and returns how many that are: at most so
// many, because one SMR makes no more work than that.
func (r *itr) solicit(changed lisp.Prefix, most int) (met int) {
	if most <= 0 {
		return 0
	}
	if _, e, ok := r.cache.longest(changed); ok && !e.static {
		r.solicited(changed, e.mapping.Prefix)
		return 1
	}
	for p, id := range r.cache.index.subtree(changed) {
		if met == most {
			break
		}
		if met++; !r.cache.entries.at(id).static {
			r.solicited(p, p)
		}
	}
	return met
}

// verify asks the mapping system for what somebody says of an EID-Prefix, unless the
// map-cache covers it, at the rate of SMR-invoked Map-Requests.
func (r *itr) verify(p lisp.Prefix) {
	if _, _, ok := r.cache.longest(p); ok {
		return
	}
	if !r.smrs.take(r.h.now, p, r.h.limits.SMRInvoked, r.h.limits.RateTable) {
		r.h.count(RefusedSMRLimit)
		return
	}
	r.h.count(VerifyingMapRequestSent)
	r.ask(pendingRequest{prefix: p})
}

// solicited asks for a prefix at the rate that SMRs about the cached one may have.
func (r *itr) solicited(prefix, cached lisp.Prefix) {
	if !r.smrs.take(r.h.now, cached, r.h.limits.SMRInvoked, r.h.limits.RateTable) {
		r.h.count(RefusedSMRLimit)
		return
	}
	r.h.notice(Notice{Kind: NoticeSolicitMapRequestTaken, Prefix: prefix})
	r.ask(pendingRequest{prefix: prefix, smrInvoked: true})
}

// adopt takes over an entry that the data plane kept through a restart.
func (r *itr) adopt(a MapCacheEntry) {
	proxied := ByProxyETR(a.Mapping)
	a.Mapping = withoutProxyETRs(a.Mapping)
	expiresAt := r.h.instant(a.ExpiresAt)
	id, known, ok := r.cache.get(a.Mapping.Prefix)
	switch {
	case ok && known.static && a.Static: // installed from the configuration: keeps its age
		known.createdAt = r.h.instant(a.CreatedAt)
		r.emitInstall(id)
		return
	case ok && known.static:
		return
	case a.Static:
		r.h.emit(RemoveMapping{Prefix: a.Mapping.Prefix, Reason: RemoveConfigured})
		return
	case expiresAt <= r.h.now:
		r.h.count(MappingExpired)
		r.h.emit(RemoveMapping{Prefix: a.Mapping.Prefix, Reason: RemoveExpired})
		return
	case !ok && r.cache.size() >= r.h.limits.MapCacheEntries:
		r.h.count(MappingEvicted)
		r.removeCovering(a.Mapping.Prefix, RemoveEvicted)
		r.h.emit(RemoveMapping{Prefix: a.Mapping.Prefix, Reason: RemoveEvicted})
		return
	}
	if ok && !known.gleaned {
		r.prober.removed(known.mapping)
	}
	if !a.Gleaned { // as in put
		r.prober.installed(a.Mapping)
	}
	id, known = r.cache.put(cacheEntry{
		mapping: a.Mapping, gleaned: a.Gleaned, expiresAt: expiresAt, refreshedAt: r.h.now, createdAt: r.h.instant(a.CreatedAt),
	})
	known.lastUsedAt = r.h.now // its use was not kept: let it prove itself
	if proxied || ByProxyETR(r.entry(known).Mapping) {
		r.emitInstall(id) // the proxy ETRs may be others now
	}
	r.schedule(id)
}

// status yields the map-cache for `loci show`.
func (r *itr) status() iter.Seq[MapCacheStatus] {
	return func(yield func(MapCacheStatus) bool) {
		for _, id := range r.cache.index.all() {
			if !yield(r.entryStatus(r.cache.entries.at(id))) {
				return
			}
		}
	}
}

func (r *itr) entryStatus(e *cacheEntry) MapCacheStatus {
	s := MapCacheStatus{MapCacheEntry: r.entry(e), State: MapCacheComplete, From: e.from}
	if e.lastUsedAt != 0 {
		s.LastUsedAt = r.h.time(e.lastUsedAt)
	}
	switch {
	case e.static:
		s.State = MapCacheStatic
	case e.gleaned:
		s.State = MapCacheGleaned
	case e.refreshing:
		s.State = MapCacheRefreshing
	case e.mapping.Negative():
		s.State = MapCacheNegative
	}
	return s
}

// pendingRow is a Map-Request under way for `loci show`.
func (r *itr) pendingRow(id uint32) PendingRequest {
	q := r.pending.requests.at(id)
	p := PendingRequest{
		Prefix: q.prefix, Source: q.source, SMRInvoked: q.smrInvoked, Tries: q.tries, StartedAt: r.h.time(q.startedAt),
		NextAt: r.h.time(r.pending.timers.of(id)), State: q.state,
	}
	if q.tries > 0 {
		p.MapResolver = q.resolvers[q.tries-1]
	}
	return p
}
