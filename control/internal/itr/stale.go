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
	"loci/control/internal/maprequest"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// staleAdopted is how long an adopted stale entry is used before a locator has to answer.
	staleAdopted = 15 * time.Second
	// staleLook is how far apart the looks at a stale entry are at most. Each asks for the mapping, if no question is under way.
	staleLook = 15 * time.Second
	// maxStaleListed bounds the stale mappings that are listed.
	maxStaleListed = 64
)

// stales decides what becomes of mappings past their TTLs.
type stales struct {
	h         *system.System
	cache     *mapCache
	requester *maprequest.Requester
}

// handleExpired keeps an entry past its TTL, with all that overlap with it and are past theirs, or takes all of them out.
func (s *stales) handleExpired(id uint32) {
	root := s.root(id)
	if root != id && s.cache.Entries.At(id).Stale && s.cache.Entries.At(root).Stale {
		s.cache.Timers.Set(id, s.h.After(staleLook)) // what becomes of that one becomes of both
		s.ask(id)
		return
	}
	group, until := s.judge(root)
	if until > s.h.Now {
		for _, member := range group {
			s.keep(member, until)
		}
		return
	}
	for _, member := range append(group, id) {
		if p := s.cache.Entries.At(member).Mapping.Prefix; !p.IsZero() {
			s.h.Count(counter.MappingExpired)
			s.cache.removeCovering(p, effect.RemoveExpired) // their time is over too, see capCovering
			s.cache.Remove(member, effect.RemoveExpired)
		}
	}
}

// root is the least specific dynamic entry past its TTL that covers an entry.
func (s *stales) root(id uint32) uint32 {
	for _, p := range s.cache.covering(s.cache.Entries.At(id).Mapping.Prefix) {
		if wider, e, ok := s.cache.Get(p); ok && !e.Static && s.h.Now >= e.ExpiresAt {
			id = wider
		}
	}
	return id
}

// judge lists the entries past their TTLs within one, and says until when all of them may be stale as things are: a time
// that has come where they may not. One in use within it is enough, and one that was asked for; each has to show life.
func (s *stales) judge(root uint32) (group []uint32, until timing.Instant) {
	until = timing.Never
	var usedAt timing.Instant
	asked, seen := false, 0
	for _, id := range s.cache.Index.Subtree(s.cache.Entries.At(root).Mapping.Prefix) {
		if seen++; seen > MaxMoreSpecifics {
			return nil, 0
		}
		e := s.cache.Entries.At(id)
		if e.Static {
			continue
		}
		usedAt = max(usedAt, e.LastUsedAt)
		if s.h.Now < e.ExpiresAt {
			continue
		}
		group = append(group, id)
		asked = asked || e.Refreshing || e.Stale
		until = min(until, s.until(e))
	}
	if !asked {
		return group, 0
	}
	return group, min(until, usedAt+timing.Instant(settings.StaleUse+settings.UsageDelay))
}

// until is until when an entry past its TTL may be used as things are, its use aside; 0 for not at all.
func (s *stales) until(e *mapcache.Entry) timing.Instant {
	if s.cache.config.ServeStale < 0 || e.Gleaned || e.Denied || e.Mapping.Negative() {
		return 0
	}
	life := max(s.cache.prober.LifeUntil(e.Mapping.Locators, !s.cache.config.PublicInternet), e.AdoptedUntil)
	return min(life, e.ExpiresAt+timing.Instant(s.cache.config.ServeStale))
}

// keep marks an entry that is used past its TTL, has its locators probed in time, and asks for it.
func (s *stales) keep(id uint32, until timing.Instant) {
	e := s.cache.Entries.At(id)
	if !e.Stale {
		s.cache.SetStale(id)
		s.h.Count(counter.MappingStale)
		s.h.Notice(effect.Notice{Kind: effect.NoticeMappingStale, Prefix: e.Mapping.Prefix, Remote: e.From})
		s.cache.emitInstall(id)
	}
	s.cache.prober.ProbeWithin(e.Mapping.Locators, staleLook)
	s.ask(id)
	s.cache.Timers.Set(id, min(until, s.h.After(staleLook)))
}

// ask asks for a stale mapping, unless a question is under way.
func (s *stales) ask(id uint32) {
	e := s.cache.Entries.At(id)
	e.Refreshing = s.requester.Ask(maprequest.Request{Prefix: e.Mapping.Prefix}) || e.Refreshing
}

// List lists the stale mappings in the order of EID-Prefixes, the first of them, and says how many there are.
func (s *stales) List() (list []status.StaleMapping, count int) {
	stales := &s.cache.Stales
	for i := range min(stales.Size(), maxStaleListed) {
		e := s.cache.Entries.At(stales.Row(i))
		list = append(list, status.StaleMapping{
			Prefix: e.Mapping.Prefix, Since: s.h.Time(e.ExpiresAt), Until: s.h.Time(e.ExpiresAt + timing.Instant(max(s.cache.config.ServeStale, 0))),
		})
	}
	slices.SortFunc(list, func(a, b status.StaleMapping) int { return a.Prefix.Compare(b.Prefix) })
	return list, stales.Size()
}

// adopts reports whether an entry that an earlier run used past its TTL goes on so.
func (s *stales) adopts(a *effect.MapCacheEntry, expiresAt timing.Instant) bool {
	return a.Stale && !a.Gleaned && !a.Mapping.Negative() && s.cache.config.ServeStale > 0 && expiresAt <= s.h.Now &&
		s.h.Now < expiresAt+timing.Instant(s.cache.config.ServeStale)
}

// gives reports whether a sibling is given an entry past its TTL: a locator has to have shown life to this router itself.
func (s *stales) gives(e *mapcache.Entry) bool {
	return e.Stale && s.cache.prober.LifeUntil(e.Mapping.Locators, !s.cache.config.PublicInternet) > s.h.Now
}

// takes makes an entry of a mapping that a sibling uses past its TTL, for what is left of the time that this may last; false where it
// does not say since when, or that time is over.
func (s *stales) takes(e *mapcache.Entry) bool {
	limit, age := s.cache.config.ServeStale, time.Duration(e.Mapping.Version)*time.Minute
	if age == 0 || e.Mapping.Negative() || limit <= age {
		return false
	}
	e.Mapping.Version, e.Stale = lisp.NullMapVersion, true
	e.ExpiresAt, e.AdoptedUntil = s.h.Now-timing.Instant(age), s.h.After(staleAdopted)
	s.h.Count(counter.MappingStale)
	return true
}
