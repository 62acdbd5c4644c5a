// SPDX-License-Identifier: Apache-2.0

package itr

// Changes of the map-cache, here and in the data plane. Nothing here asks for a mapping.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/mapcache"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// MaxMoreSpecifics is how many more-specifics a Map-Reply looks at within its event-loop iteration.
const MaxMoreSpecifics = 256

// schedule sets the next deadline of an entry.
func (r *ITR) schedule(id uint32) {
	e := r.Cache.Entries.At(id)
	if e.Static {
		r.Cache.Timers.Remove(id)
		return
	}
	next := e.ExpiresAt
	if r.config.IdleTimeout > 0 {
		next = min(next, e.LastUse()+timing.Instant(r.config.IdleTimeout))
	}
	if at := r.refreshAt(e); !e.Refreshing && at > r.h.Now {
		next = min(next, at)
	}
	r.Cache.Timers.Set(id, next)
}

// refreshAt is when a mapping in use is asked for again.
func (r *ITR) refreshAt(e *mapcache.Entry) timing.Instant { return e.ExpiresAt - r.lead(e) }

func (r *ITR) lead(e *mapcache.Entry) timing.Instant {
	return min((e.ExpiresAt-e.RefreshedAt)/4, timing.Instant(refreshLead))
}

// coveredExpiry is when the first of the more specific entries expires that stay: a
// less specific one is not to outlive them (RFC 9301 s.5.5).
func (r *ITR) coveredExpiry(p lisp.Prefix, outdated []lisp.Prefix) timing.Instant {
	earliest := timing.Never
	seen := 0
	for prefix, id := range r.Cache.Index.Subtree(p) {
		if seen++; seen > MaxMoreSpecifics {
			return earliest
		}
		e := r.Cache.Entries.At(id)
		if _, gone := slices.BinarySearchFunc(outdated, prefix, lisp.Prefix.Compare); !gone && prefix != p && !e.Static {
			earliest = min(earliest, e.ExpiresAt)
		}
	}
	return earliest
}

// Evict removes one entry for another one.
func (r *ITR) Evict() bool {
	id, ok := r.Cache.Victim(r.h.Limits.MapCacheEntries)
	if ok {
		r.h.Count(counter.MappingEvicted)
		r.removeCovering(r.Cache.Entries.At(id).Mapping.Prefix, effect.RemoveEvicted)
		r.Remove(id, effect.RemoveEvicted)
	}
	return ok
}

// Put installs an entry.
func (r *ITR) Put(e mapcache.Entry) {
	e.Mapping.Locators = locatorset.WithoutProbeBits(e.Mapping.Locators)
	_, old, known := r.Cache.Get(e.Mapping.Prefix)
	changed := !known || !old.Mapping.Equal(e.Mapping) || old.Static != e.Static || old.Gleaned
	e.CreatedAt, e.RefreshedAt = r.h.Now, r.h.Now
	if changed && !e.Gleaned { // an unverified locator is sent no RLOC-probes
		r.Prober.Installed(e.Mapping) // before the old one leaves: what both have stays
	}
	if changed && known && !old.Gleaned {
		r.Prober.Replaced(old.Mapping, r.Entry(old).Mapping.Locators.Equal(r.Entry(&e).Mapping.Locators))
	}
	id, _ := r.Cache.Put(e)
	r.capCovering(e.Mapping.Prefix, e.ExpiresAt)
	r.h.Count(counter.MappingInstalled)
	r.emitInstall(id)
	r.schedule(id)
	if changed {
		if r.h.MayNotice() {
			r.h.Say(effect.Notice{Kind: effect.NoticeMappingInstalled, Prefix: e.Mapping.Prefix, Remote: e.From, Detail: e.Mapping.String()})
		}
	}
}

func (r *ITR) emitInstall(id uint32) {
	r.h.Emit(effect.InstallMapping{MapCacheEntry: r.Entry(r.Cache.Entries.At(id))})
}

// Entry is a map-cache entry as the data plane gets it.
func (r *ITR) Entry(e *mapcache.Entry) effect.MapCacheEntry {
	mapping := settings.WithProxyETRs(settings.WithPolicies(e.Mapping, r.config.LocatorPolicies), e.Static, r.config.ProxyETRs)
	m := effect.MapCacheEntry{Mapping: mapping, Static: e.Static, Gleaned: e.Gleaned, CreatedAt: r.h.Time(e.CreatedAt)}
	if !e.Static {
		m.ExpiresAt = r.h.Time(e.ExpiresAt)
	}
	return m
}

// Remove takes an entry out, here and in the data plane.
func (r *ITR) Remove(id uint32, reason effect.RemoveReason) {
	mapping, gleaned := r.Cache.Entries.At(id).Mapping, r.Cache.Entries.At(id).Gleaned
	prefix := mapping.Prefix
	r.Cache.Remove(id)
	r.h.Emit(effect.RemoveMapping{Prefix: prefix, Reason: reason})
	if !gleaned {
		r.Prober.Removed(mapping)
	}
	r.h.Notice(effect.Notice{Kind: effect.NoticeMappingRemoved, Prefix: prefix, Detail: string(reason)})
}

// covering lists the entries that are less specific than p, the nearest first.
func (r *ITR) covering(p lisp.Prefix) []lisp.Prefix {
	var list []lisp.Prefix
	for p.Bits() > 0 {
		wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), p.Bits()-1)
		_, e, ok := r.Cache.Longest(wider)
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
func (r *ITR) removeCovering(p lisp.Prefix, reason effect.RemoveReason) {
	covering := r.covering(p)
	for i := len(covering) - 1; i >= 0; i-- {
		if id, e, ok := r.Cache.Get(covering[i]); ok && !e.Static {
			r.Remove(id, reason)
		}
	}
}

// capCovering lets no less specific dynamic entry live longer than one within it: what is
// in use is asked for again before that, with all that is more specific.
func (r *ITR) capCovering(p lisp.Prefix, expiresAt timing.Instant) {
	for _, wider := range r.covering(p) {
		id, e, ok := r.Cache.Get(wider)
		if !ok || e.Static || e.ExpiresAt <= expiresAt {
			continue
		}
		e.ExpiresAt = expiresAt
		r.emitInstall(id)
		r.schedule(id)
	}
}

// isCovered reports whether a less specific dynamic entry is cached.
func (r *ITR) isCovered(p lisp.Prefix) bool {
	if p.Bits() == 0 {
		return false
	}
	wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), p.Bits()-1)
	_, e, ok := r.Cache.Longest(wider)
	return err == nil && ok && !e.Static
}

// removeIncomplete removes what covers records of a Map-Reply for which there was no
// room.
func (r *ITR) removeIncomplete(mappings []lisp.Mapping) {
	for _, m := range mappings {
		if _, _, ok := r.Cache.Get(m.Prefix); !ok && m.TTLMinutes > 0 {
			r.removeCovering(m.Prefix, effect.RemoveEvicted)
		}
	}
}
