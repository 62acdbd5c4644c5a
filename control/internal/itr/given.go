// SPDX-License-Identifier: Apache-2.0

package itr

// Mappings that one xTR of a site gives another when it hands over the site's packets. They are the mapping system's, with what is left of
// their TTL, and end as those that were asked for here. Those that are used past their TTLs are given as such.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/settings"
	"loci/control/internal/timing"
	"loci/lisp"
)

// givenUse is how lately a mapping must have been used to be given.
const givenUse = time.Minute + settings.UsageDelay

// InUse is the EID-Prefix of a row of the map-cache with those within it, if it was used in the last minute; more is
// false behind the last row. One that has too many within it is left out: packets for those would go astray.
func (r *ITR) InUse(row uint32) (group []lisp.Prefix, more bool) {
	rows := uint32(r.Cache.Entries.Len())
	if row >= rows {
		return nil, false
	}
	e := r.Cache.Entries.At(row)
	more = row+1 < rows
	used := max(e.LastUsedAt, e.CreatedAt)
	if !mayBeGiven(e) || r.h.Now >= e.ExpiresAt && !r.Stales.gives(e) || r.h.Now-used > timing.Instant(givenUse) {
		return nil, more
	}
	group = []lisp.Prefix{e.Mapping.Prefix}
	for p, id := range r.Cache.Index.Subtree(e.Mapping.Prefix) {
		switch {
		case p == e.Mapping.Prefix:
		case len(group) == settings.MaxRequestRecords || !mayBeGiven(r.Cache.Entries.At(id)):
			return nil, more
		default:
			group = append(group, p)
		}
	}
	return group, more
}

func mayBeGiven(e *mapcache.Entry) bool { return !e.Mapping.Prefix.IsZero() && !e.Static && !e.Gleaned }

// Left is a mapping with the TTL that is left, in seconds. One that is used past its TTL has a TTL of 0, and in place of its
// Map-Version, which does not count any more, the minutes since its TTL ended.
func (r *ITR) Left(p lisp.Prefix) (lisp.Mapping, bool) {
	_, e, ok := r.Cache.Get(p)
	if !ok || !mayBeGiven(e) || e.ExpiresAt-r.h.Now < timing.Instant(time.Second) && !r.Stales.gives(e) {
		return lisp.Mapping{}, false
	}
	m := e.Mapping
	m.Authoritative = false
	if e.Stale {
		m.TTLMinutes, m.Version = 0, uint16(time.Duration(max(r.h.Now-e.ExpiresAt, 0))/time.Minute)+1
		return m, true
	}
	m.TTLMinutes = lisp.TTLOf(time.Duration(e.ExpiresAt - r.h.Now))
	return m, true
}

// TakeGiven takes mappings where there is none, the more specific ones first, and returns how many that were.
func (r *ITR) TakeGiven(mappings []lisp.Mapping, from netip.AddrPort) (taken int) {
	slices.SortStableFunc(mappings, func(a, b lisp.Mapping) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	for i, m := range mappings {
		given := mapcache.Entry{Mapping: m, From: from, ExpiresAt: r.h.After(lisp.Lifetime(m.TTLMinutes, r.config.UnlimitedTTL))}
		if m.TTLMinutes == 0 && !r.Stales.takes(&given) || r.Cache.isDecided(m) {
			continue
		}
		_, known, ok := r.Cache.Get(m.Prefix)
		switch {
		case ok && !known.Gleaned:
			known.LastUsedAt = r.h.Now // it will be: it must not be removed as idle before that is reported
			continue
		case !ok && r.Cache.Size() >= r.h.Limits.MapCacheEntries && (given.Stale || !r.Cache.Evict()):
			r.Cache.removeIncomplete(mappings[:i+1])
			return taken
		}
		gleaned := r.Cache.gleanedWithin(m.Prefix) // they were used until this one came, and must not end it
		if !given.Stale {
			given.ExpiresAt = min(given.ExpiresAt, r.Cache.coveredExpiry(m.Prefix, gleaned))
		}
		r.Cache.Install(given)
		if _, e, ok := r.Cache.Get(m.Prefix); ok && given.Stale {
			e.LastUsedAt = r.h.Now // by the sibling
		}
		for _, p := range gleaned {
			if id, _, ok := r.Cache.Get(p); ok {
				r.Cache.Remove(id, effect.RemoveReplaced)
			}
		}
		taken++
	}
	return taken
}

// isDecided reports whether a given mapping would overrule what is known though it is of another EID-Prefix: the operator's word, or,
// by a negative one, any mapping.
func (c *mapCache) isDecided(m lisp.Mapping) bool {
	_, covering, ok := c.Longest(m.Prefix)
	return ok && covering.Mapping.Prefix != m.Prefix && !covering.Gleaned && (covering.Static || m.Negative())
}

// gleanedWithin are the gleaned mappings within an EID-Prefix, in order.
func (c *mapCache) gleanedWithin(p lisp.Prefix) (list []lisp.Prefix) {
	seen := 0
	for prefix, id := range c.Index.Subtree(p) {
		if seen++; seen > MaxMoreSpecifics {
			break
		}
		if prefix != p && c.Entries.At(id).Gleaned {
			list = append(list, prefix)
		}
	}
	slices.SortFunc(list, lisp.Prefix.Compare)
	return list
}
