// SPDX-License-Identifier: Apache-2.0

package itr

// The ITR's care for its map-cache in the course of time: expiry, idle removal,
// refresh of what is in use (RFC 9301 s.5.3, s.5.4), what an SMR says about it
// (s.6.1), and its adoption after a restart. It never resolves anything new.

import (
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/report"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// SolicitedEntries is how many map-cache entries one SMR makes us look at.
const SolicitedEntries = 8

// HandleCacheTimeout expires, refreshes or removes an entry.
func (r *ITR) HandleCacheTimeout(id uint32) {
	e := r.Cache.Entries.At(id)
	idle := r.config.IdleTimeout > 0 && r.h.Now >= e.LastUse()+timing.Instant(r.config.IdleTimeout)
	switch {
	case r.h.Now >= e.ExpiresAt:
		r.Stales.handleExpired(id)
	case idle && r.Cache.isCovered(e.Mapping.Prefix):
		// It is not used, but without it the covering one would decide: it stays as long.
		e.KeptAt = r.h.Now
		r.Cache.schedule(id)
	case idle:
		r.h.Count(counter.MappingIdle)
		r.Cache.Remove(id, effect.RemoveIdle)
	default:
		r.refreshIfUsed(id)
		r.Cache.schedule(id)
	}
}

// refreshIfUsed asks again for a mapping whose TTL ends soon, so that a flow in
// progress does not see it end.
func (r *ITR) refreshIfUsed(id uint32) {
	e := r.Cache.Entries.At(id)
	used := e.LastUsedAt > 0 && r.h.Now-e.LastUsedAt <= r.Cache.lead(e)+timing.Instant(settings.UsageDelay)
	if e.Static || e.Gleaned || e.Refreshing || !used || r.h.Now < r.Cache.refreshAt(e) {
		return
	}
	if e.Refreshing = r.Requester.Ask(maprequest.Request{Prefix: e.Mapping.Prefix}); e.Refreshing &&
		r.config.ServeStale > 0 {
		// That a locator lives has to be known when the TTL ends.
		r.Prober.ProbeWithin(e.Mapping.Locators, time.Duration(r.Cache.lead(e)/2))
	}
}

// HandleUsage notes which entries are in use.
func (r *ITR) HandleUsage(usage []report.Usage) {
	for _, u := range usage {
		id, e, ok := r.Cache.Get(u.Prefix)
		if !ok {
			r.h.Emit(effect.RemoveMapping{Prefix: u.Prefix, Reason: effect.RemoveUnknown})
			continue
		}
		if at := min(r.h.Instant(u.LastUsedAt), r.h.Now); !u.LastUsedAt.IsZero() && at > e.LastUsedAt {
			e.LastUsedAt, e.Referenced = at, true
			r.Prober.Used(e, at)
			r.refreshIfUsed(id)
			r.Cache.Lost.Used(u.Prefix, r.h.Now)
		}
	}
}

// HandleSolicitMapRequest asks again for cached mappings that an SMR says changed. The answer is asked for
// through the mapping system only, the sender of the SMR proves nothing; the mapping
// stays in use meanwhile (RFC 9301 s.6.1).
func (r *ITR) HandleSolicitMapRequest(changed []lisp.Prefix) {
	met := 0
	for _, p := range changed {
		met += r.solicit(p, SolicitedEntries-met)
	}
	if met == 0 {
		r.h.Count(counter.RefusedSMRWithoutMapping)
	}
}

// solicit asks again for the mapping that covers an EID-Prefix, or for those within it, and returns how many that are: at most so
// many, because one SMR makes no more work than that.
func (r *ITR) solicit(changed lisp.Prefix, most int) (met int) {
	if most <= 0 {
		return 0
	}
	if _, e, ok := r.Cache.Longest(changed); ok && !e.Static {
		r.solicited(changed, e.Mapping.Prefix)
		return 1
	} else if ok && isRegistered(e) {
		r.solicited(e.Mapping.Prefix, e.Mapping.Prefix)
		return 1
	}
	for p, id := range r.Cache.Index.Subtree(changed) {
		if met == most {
			break
		}
		if met++; !r.Cache.Entries.At(id).Static || isRegistered(r.Cache.Entries.At(id)) {
			r.solicited(p, p)
		}
	}
	return met
}

// Verify asks the mapping system for an EID-Prefix that an unauthenticated message names, unless the
// map-cache covers it, at the rate of SMR-invoked Map-Requests.
func (r *ITR) Verify(p lisp.Prefix) {
	if _, _, ok := r.Cache.Longest(p); ok {
		return
	}
	if !r.Requester.Smrs.Take(r.h.Now, p, r.h.Limits.SMRInvoked, r.h.Limits.RateTable) {
		r.h.Count(counter.RefusedSMRLimit)
		return
	}
	r.h.Count(counter.VerifyingMapRequestSent)
	r.Requester.Ask(maprequest.Request{Prefix: p})
}

// solicited asks for a prefix at the rate that SMRs about the cached one may have.
func (r *ITR) solicited(prefix, cached lisp.Prefix) {
	if r.Requester.AskForNews(maprequest.Request{Prefix: prefix, SMRInvoked: true}, cached) {
		r.h.Notice(effect.Notice{Kind: effect.NoticeSolicitMapRequestTaken, Prefix: prefix})
	}
}

// Adopt takes over an entry that the data plane kept through a restart.
func (r *ITR) Adopt(a effect.MapCacheEntry) {
	proxied := settings.ByProxyETR(a.Mapping)
	a.Mapping = settings.WithoutProxyETRs(a.Mapping)
	told := a.Mapping.Locators
	a.Mapping.Locators = withoutNextHops(told)
	expiresAt := r.h.Instant(a.ExpiresAt)
	byNAT := a.Static && a.ByNAT
	if byNAT {
		a.Static, expiresAt = false, r.h.After(adoptedNATLasts)
	}
	if isByNAT := func(l lisp.Locator) bool { return l.SourcePort != 0 }; !a.Static && slices.ContainsFunc(told, isByNAT) {
		expiresAt = min(expiresAt, r.h.After(adoptedNATLasts)) // the NAT may have another port by now
	}
	stale := r.Stales.adopts(&a, expiresAt)
	id, known, ok := r.Cache.Get(a.Mapping.Prefix)
	switch {
	case ok && known.Static && a.Static: // installed from the configuration: keeps its age
		known.CreatedAt = r.h.Instant(a.CreatedAt)
		r.Cache.emitInstall(id)
		return
	case ok && known.Static:
		return
	case a.Static:
		r.h.Emit(effect.RemoveMapping{Prefix: a.Mapping.Prefix, Reason: effect.RemoveConfigured})
		return
	case expiresAt <= r.h.Now && !stale:
		r.h.Count(counter.MappingExpired)
		r.h.Emit(effect.RemoveMapping{Prefix: a.Mapping.Prefix, Reason: effect.RemoveExpired})
		return
	case !ok && r.Cache.Size() >= r.h.Limits.MapCacheEntries && (stale || !r.Cache.evictStale()):
		r.h.Count(counter.MappingEvicted)
		r.Cache.removeCovering(a.Mapping.Prefix, effect.RemoveEvicted)
		r.h.Emit(effect.RemoveMapping{Prefix: a.Mapping.Prefix, Reason: effect.RemoveEvicted})
		return
	}
	if ok && !known.Gleaned {
		r.Prober.Removed(known.Mapping, known.Static)
	}
	if !a.Gleaned { // as in put
		r.Prober.Installed(a.Mapping, a.Static)
	}
	id, known = r.Cache.Cache.Put(mapcache.Entry{
		Mapping: a.Mapping, Gleaned: a.Gleaned, ExpiresAt: expiresAt, RefreshedAt: r.h.Now, CreatedAt: r.h.Instant(a.CreatedAt),
		Stale: stale, AdoptedUntil: r.h.After(staleAdopted), ByNAT: byNAT,
		Registered: byNAT && a.Registered,
	})
	known.LastUsedAt = r.h.Now // its use was not kept: let it prove itself
	if a.Stale != stale || proxied || settings.ByProxyETR(r.Cache.Entry(known).Mapping) {
		r.Cache.emitInstall(id) // the proxy ETRs may be others now
	}
	r.adoptNextHops(id, told)
	r.private.adopt(id, told)
	r.Cache.schedule(id)
}
