// SPDX-License-Identifier: Apache-2.0

package itr

// Changes of the map-cache, here and in the data plane. Nothing here asks for a mapping.

import (
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/lost"
	"loci/control/internal/mapcache"
	"loci/control/internal/message"
	"loci/control/internal/reach"
	"loci/control/internal/settings"
	"loci/control/internal/simplenat"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

// mapCache is the table with what follows from a change of it: the data plane is told, deadlines are set, and the
// locators of the mapping are probed.
type mapCache struct {
	mapcache.Cache
	h      *system.System
	config *settings.ITRConfig
	prober *reach.Prober
	// skipped are the locators of Map-Replies that mappings do not have, for `loci explain` alone.
	skipped map[lisp.Prefix][]status.SkippedLocator
	Lost    lost.Table
	// kept are mappings that the mapping system does not have any more, and since when; maxKept at most.
	kept map[lisp.Prefix]timing.Instant
	// displaced are mappings that NAT traversal makes, in whose place the operator has one: no more than of
	// either.
	displaced map[lisp.Prefix]NATMapping
	Named     *simplenat.Mappings
	Ambiguous ambiguousPaths
	// Told is called for each mapping that the data plane is given, after a change or anew, and for each that it
	// loses.
	Told func(lisp.Prefix)
}

// maxKept bounds the kept mappings that are listed, and asked for when an ETR of their site answers an RLOC-probe.
// More are kept all the same, and asked for before their TTL ends; one of them is listed when there is room and it
// was asked for.
const maxKept = 64

// noteKept keeps since when a mapping is used though the mapping system does not have it.
func (c *mapCache) noteKept(p lisp.Prefix) {
	if _, known := c.kept[p]; known || len(c.kept) >= maxKept {
		return
	}
	if c.kept == nil {
		c.kept = map[lisp.Prefix]timing.Instant{}
	}
	c.kept[p] = c.h.Now
}

// KeptMappings lists them in the order of EID-Prefixes.
func (r *ITR) KeptMappings() (list []status.KeptMapping) {
	for p, since := range r.Cache.kept {
		if _, e, ok := r.Cache.Get(p); ok {
			list = append(list, status.KeptMapping{Prefix: p, Since: r.h.Time(since), ExpiresAt: r.h.Time(e.ExpiresAt)})
		}
	}
	slices.SortStableFunc(list, func(a, b status.KeptMapping) int { return a.Prefix.Compare(b.Prefix) })
	return list
}

// maxSkipped bounds the mappings of which skipped locators are kept; of more there are none to show.
const maxSkipped = 1024

// noteSkipped keeps which locators of a mapping were skipped, for as long as the mapping is there.
func (c *mapCache) noteSkipped(p lisp.Prefix, said []message.SkippedLocators) {
	delete(c.skipped, p)
	at := slices.IndexFunc(said, func(s message.SkippedLocators) bool { return s.Prefix == p })
	if at < 0 {
		return
	}
	var list []status.SkippedLocator
	for _, l := range said[at].Locators {
		c.h.Count(counter.LocatorSkipped)
		list = append(list, status.SkippedLocator(l))
	}
	if _, _, known := c.Get(p); !known || len(c.skipped) >= maxSkipped {
		return
	}
	if c.skipped == nil {
		c.skipped = map[lisp.Prefix][]status.SkippedLocator{}
	}
	c.skipped[p] = list
}

// refreshLead bounds how long before its end a mapping in use is asked for again: a quarter of the TTL, and no more
// than this.
const refreshLead = time.Minute

// MaxMoreSpecifics is how many more-specifics a Map-Reply looks at within its event-loop iteration.
const MaxMoreSpecifics = 256

// schedule sets the next deadline of an entry.
func (c *mapCache) schedule(id uint32) {
	e := c.Entries.At(id)
	if e.Static {
		c.Timers.Remove(id)
		return
	}
	next := e.ExpiresAt
	if c.config.IdleTimeout > 0 {
		next = min(next, e.LastUse()+timing.Instant(c.config.IdleTimeout))
	}
	if at := c.refreshAt(e); !e.Refreshing && at > c.h.Now {
		next = min(next, at)
	}
	c.Timers.Set(id, next)
}

// refreshAt is when a mapping in use is asked for again.
func (c *mapCache) refreshAt(e *mapcache.Entry) timing.Instant { return e.ExpiresAt - c.lead(e) }

func (c *mapCache) lead(e *mapcache.Entry) timing.Instant {
	return min((e.ExpiresAt-e.RefreshedAt)/4, timing.Instant(refreshLead))
}

// coveredExpiry is when the first of the more specific entries expires that stay: a
// less specific one is not to outlive them (RFC 9301 s.5.5).
func (c *mapCache) coveredExpiry(p lisp.Prefix, outdated []lisp.Prefix) timing.Instant {
	earliest := timing.Never
	seen := 0
	for prefix, id := range c.Index.Subtree(p) {
		if seen++; seen > MaxMoreSpecifics {
			return earliest
		}
		e := c.Entries.At(id)
		if _, gone := slices.BinarySearchFunc(outdated, prefix, lisp.Prefix.Compare); !gone && prefix != p && !e.Static && !e.Stale {
			earliest = min(earliest, e.ExpiresAt)
		}
	}
	return earliest
}

// Evict removes one entry for another one.
func (c *mapCache) Evict() bool {
	id, ok := c.Victim(c.h.Limits.MapCacheEntries)
	if ok {
		c.h.Count(counter.MappingEvicted)
		p := c.Entries.At(id).Mapping.Prefix
		c.removeCovering(c.Entries.At(id).Mapping.Prefix, effect.RemoveEvicted)
		c.Remove(id, effect.RemoveEvicted)
		c.lookAtStale(p)
	}
	return ok
}

// lookAtStale has what is past its TTL within an EID-Prefix looked at now: the use that kept it may have been of the
// one that went.
func (c *mapCache) lookAtStale(p lisp.Prefix) {
	seen := 0
	for _, id := range c.Index.Subtree(p) {
		if seen++; seen > MaxMoreSpecifics {
			return
		}
		if c.Entries.At(id).Stale {
			c.Timers.Set(id, c.h.Now)
		}
	}
}

// evictStale removes the stale entry whose TTL ended first, if there is any, for one that is not stale.
func (c *mapCache) evictStale() bool { return c.Stales.Size() > 0 && c.Evict() }

// Install puts an entry in, here and in the data plane.
func (c *mapCache) Install(e mapcache.Entry) {
	e.Mapping.Locators = locatorset.WithoutProbeBits(e.Mapping.Locators)
	_, old, known := c.Get(e.Mapping.Prefix)
	hadLocators := known && hasLocators(old)
	changed := !known || !old.Mapping.Equal(e.Mapping) || old.Static != e.Static || old.Gleaned
	e.CreatedAt, e.RefreshedAt = c.h.Now, c.h.Now
	if changed && !e.Gleaned { // an unverified locator is sent no RLOC-probes
		c.prober.Installed(e.Mapping, e.Static) // before the old one leaves: what both have stays
	}
	if changed && known && !old.Gleaned {
		c.prober.Replaced(old.Mapping, old.Static, c.Entry(old).Mapping.Locators.Equal(c.Entry(&e).Mapping.Locators))
	}
	delete(c.kept, e.Mapping.Prefix)
	id, _ := c.Cache.Put(e)
	if !e.Stale {
		c.capCovering(e.Mapping.Prefix, e.ExpiresAt)
	}
	c.h.Count(counter.MappingInstalled)
	c.emitInstall(id)
	c.schedule(id)
	c.noteInstalled(c.Entries.At(id), hadLocators)
	if changed {
		c.countUnusable(e.Mapping.Locators)
		c.noteLoop(c.Entries.At(id))
		if c.h.MayNotice() {
			c.h.Say(effect.Notice{Kind: effect.NoticeMappingInstalled, Prefix: e.Mapping.Prefix, Remote: e.From, Detail: e.Mapping.String()})
		}
	}
}

func (c *mapCache) emitInstall(id uint32) {
	e := c.Entries.At(id)
	installed := c.Entry(e)
	c.h.Emit(effect.InstallMapping{MapCacheEntry: installed})
	if !c.config.IdentifiesPaths {
		c.Ambiguous.note(c.h, e, installed.Mapping.Locators, c.prober.Table.IsOwn)
	}
	c.Told(e.Mapping.Prefix)
}

// Entry is a map-cache entry as the data plane gets it.
func (c *mapCache) Entry(e *mapcache.Entry) effect.MapCacheEntry {
	mapping := settings.WithProxyETRs(settings.WithPolicies(e.Mapping, c.config.LocatorPolicies), e.Static, c.config.ProxyETRs)
	if !e.Static {
		mapping.Locators = c.prober.Private.Used(&e.Mapping, mapping.Locators)
	}
	mapping.Locators = c.withNextHops(mapping.Prefix.Instance(), mapping.Locators)
	if e.Stale {
		mapping.Version = lisp.NullMapVersion // packets carry none (RFC 9302 s.7.1)
	}
	m := effect.MapCacheEntry{
		Mapping: mapping, Static: e.Static, Gleaned: e.Gleaned, Stale: e.Stale, ByNAT: e.ByNAT, Registered: e.Registered,
		CreatedAt: c.h.Time(e.CreatedAt),
	}
	if !e.Static {
		m.ExpiresAt = c.h.Time(e.ExpiresAt)
	}
	return m
}

// Remove takes an entry out, here and in the data plane.
func (c *mapCache) Remove(id uint32, reason effect.RemoveReason) {
	mapping, gleaned, hadLocators := c.Entries.At(id).Mapping, c.Entries.At(id).Gleaned, hasLocators(c.Entries.At(id))
	prefix, static := mapping.Prefix, c.Entries.At(id).Static
	c.Named.Forget(prefix)
	c.Cache.Remove(id)
	delete(c.skipped, prefix)
	delete(c.kept, prefix)
	c.noteRemoved(prefix, hadLocators)
	c.h.Emit(effect.RemoveMapping{Prefix: prefix, Reason: reason})
	c.Told(prefix)
	if !gleaned {
		c.prober.Removed(mapping, static)
	}
	c.h.Notice(effect.Notice{Kind: effect.NoticeMappingRemoved, Prefix: prefix, Reason: string(reason)})
}

// covering lists the entries that are less specific than p, the nearest first.
func (c *mapCache) covering(p lisp.Prefix) []lisp.Prefix {
	var list []lisp.Prefix
	for p.Bits() > 0 {
		wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), p.Bits()-1)
		_, e, ok := c.Longest(wider)
		if err != nil || !ok {
			break
		}
		p = e.Mapping.Prefix
		list = append(list, p)
	}
	return list
}

// removeCovering removes the dynamic entries that are less specific than p, the least
// specific first.
func (c *mapCache) removeCovering(p lisp.Prefix, reason effect.RemoveReason) {
	covering := c.covering(p)
	for i := len(covering) - 1; i >= 0; i-- {
		if id, e, ok := c.Get(covering[i]); ok && !e.Static {
			c.Remove(id, reason)
		}
	}
}

// capCovering lets no less specific dynamic entry live longer than one within it: what is
// in use is asked for again before that, with all that is more specific.
func (c *mapCache) capCovering(p lisp.Prefix, expiresAt timing.Instant) {
	for _, wider := range c.covering(p) {
		id, e, ok := c.Get(wider)
		if !ok || e.Static || e.ExpiresAt <= expiresAt {
			continue
		}
		e.ExpiresAt = expiresAt
		c.emitInstall(id)
		c.schedule(id)
	}
}

// isCovered reports whether a less specific dynamic entry is cached.
func (c *mapCache) isCovered(p lisp.Prefix) bool {
	if p.Bits() == 0 {
		return false
	}
	wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), p.Bits()-1)
	_, e, ok := c.Longest(wider)
	return err == nil && ok && !e.Static
}

// removeIncomplete removes what covers records of a Map-Reply for which there was no
// room.
func (c *mapCache) removeIncomplete(mappings []lisp.Mapping) {
	for _, m := range mappings {
		if _, _, ok := c.Get(m.Prefix); !ok && m.TTLMinutes > 0 {
			c.removeCovering(m.Prefix, effect.RemoveEvicted)
		}
	}
}
