// SPDX-License-Identifier: Apache-2.0

package itr

// Serve-stale: a mapping is used past its TTL while the mapping system says nothing about it, packets use it, and
// one of its locators shows life. That departs from RFC 9301 s.5.4 as RFC 8767 does for the DNS. An entry and those it
// covers stay or go together. Static, gleaned and negative entries are never stale; an RLOC-probe's answer is a
// sign of life and a reason to ask, never a mapping.

import (
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/timing"
)

const (
	// staleUse is how lately a stale entry must have been of use. Its use may be reported settings.UsageDelay later.
	staleUse = time.Minute
	// staleAdopted is how long an adopted stale entry is used before a locator has to answer.
	staleAdopted = 15 * time.Second
	// staleLook is how far apart the looks at a stale entry are at most. Each asks for the mapping, if no question is under way.
	staleLook = 15 * time.Second
	// maxStaleListed bounds the stale mappings that are listed.
	maxStaleListed = 64
)

// handleExpired keeps an entry past its TTL, with all that overlap with it and are past theirs, or takes all of them out.
func (r *ITR) handleExpired(id uint32) {
	root := r.staleRoot(id)
	if root != id && r.Cache.Entries.At(id).Stale && r.Cache.Entries.At(root).Stale {
		r.Cache.Timers.Set(id, r.h.After(staleLook)) // what becomes of that one becomes of both
		r.askForStale(id)
		return
	}
	group, until := r.judgeStale(root)
	if until > r.h.Now {
		for _, member := range group {
			r.keepStale(member, until)
		}
		return
	}
	for _, member := range append(group, id) {
		if p := r.Cache.Entries.At(member).Mapping.Prefix; !p.IsZero() {
			r.h.Count(counter.MappingExpired)
			r.Cache.removeCovering(p, effect.RemoveExpired) // their time is over too, see capCovering
			r.Cache.Remove(member, effect.RemoveExpired)
		}
	}
}

// staleRoot is the least specific dynamic entry past its TTL that covers an entry.
func (r *ITR) staleRoot(id uint32) uint32 {
	for _, p := range r.Cache.covering(r.Cache.Entries.At(id).Mapping.Prefix) {
		if wider, e, ok := r.Cache.Get(p); ok && !e.Static && r.h.Now >= e.ExpiresAt {
			id = wider
		}
	}
	return id
}

// judgeStale lists the entries past their TTLs within one, and says until when all of them may be stale as things are: a time
// that has come where they may not. One in use is enough, and one that was asked for; each has to show life.
func (r *ITR) judgeStale(root uint32) (group []uint32, until timing.Instant) {
	until = timing.Never
	var usedAt timing.Instant
	asked, seen := false, 0
	for _, id := range r.Cache.Index.Subtree(r.Cache.Entries.At(root).Mapping.Prefix) {
		if seen++; seen > MaxMoreSpecifics {
			return nil, 0
		}
		e := r.Cache.Entries.At(id)
		if e.Static || r.h.Now < e.ExpiresAt {
			continue
		}
		group = append(group, id)
		asked = asked || e.Refreshing || e.Stale
		usedAt = max(usedAt, e.LastUsedAt)
		until = min(until, r.staleUntil(e))
	}
	if !asked {
		return group, 0
	}
	return group, min(until, usedAt+timing.Instant(staleUse+settings.UsageDelay))
}

// staleUntil is until when an entry past its TTL may be used as things are, its use aside; 0 for not at all.
func (r *ITR) staleUntil(e *mapcache.Entry) timing.Instant {
	if r.config.ServeStale < 0 || e.Gleaned || e.Denied || e.Mapping.Negative() {
		return 0
	}
	life := max(r.Prober.LifeUntil(e.Mapping.Locators, r.Trusts()), e.AdoptedUntil)
	return min(life, e.ExpiresAt+timing.Instant(r.config.ServeStale))
}

// keepStale marks an entry that is used past its TTL, has its locators probed in time, and asks for it.
func (r *ITR) keepStale(id uint32, until timing.Instant) {
	e := r.Cache.Entries.At(id)
	if !e.Stale {
		r.Cache.SetStale(id)
		r.h.Count(counter.MappingStale)
		r.h.Notice(effect.Notice{Kind: effect.NoticeMappingStale, Prefix: e.Mapping.Prefix, Remote: e.From})
		r.Cache.emitInstall(id)
	}
	r.Prober.ProbeWithin(e.Mapping.Locators, staleLook)
	r.askForStale(id)
	r.Cache.Timers.Set(id, min(until, r.h.After(staleLook)))
}

// askForStale asks for a stale mapping, unless a question is under way.
func (r *ITR) askForStale(id uint32) {
	e := r.Cache.Entries.At(id)
	e.Refreshing = r.Requester.Ask(PendingRequest{Prefix: e.Mapping.Prefix}) || e.Refreshing
}

// StaleMappings lists the stale mappings in the order of EID-Prefixes, the first of them, and says how many there are.
func (r *ITR) StaleMappings() (list []status.StaleMapping, count int) {
	stales := &r.Cache.Stales
	for i := range min(stales.Size(), maxStaleListed) {
		e := r.Cache.Entries.At(stales.Row(i))
		list = append(list, status.StaleMapping{
			Prefix: e.Mapping.Prefix, Since: r.h.Time(e.ExpiresAt), Until: r.h.Time(e.ExpiresAt + timing.Instant(max(r.config.ServeStale, 0))),
		})
	}
	slices.SortFunc(list, func(a, b status.StaleMapping) int { return a.Prefix.Compare(b.Prefix) })
	return list, stales.Size()
}

// adoptsStale reports whether an entry that an earlier run used past its TTL goes on so.
func (r *ITR) adoptsStale(a *effect.MapCacheEntry, expiresAt timing.Instant) bool {
	return a.Stale && !a.Gleaned && !a.Mapping.Negative() && r.config.ServeStale > 0 && expiresAt <= r.h.Now &&
		r.h.Now < expiresAt+timing.Instant(r.config.ServeStale)
}
