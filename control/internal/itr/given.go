// SPDX-License-Identifier: Apache-2.0

package itr

// Mappings that one xTR of a site gives another when it hands over the site's packets. They are the mapping system's, with what is left of
// their TTL, and end as those that were asked for here.

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
	if !mayBeGiven(e) || r.h.Now >= e.ExpiresAt || r.h.Now-e.LastUse() > timing.Instant(givenUse) {
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

// Left is a mapping with the TTL that is left, in seconds.
func (r *ITR) Left(p lisp.Prefix) (lisp.Mapping, bool) {
	_, e, ok := r.Cache.Get(p)
	if !ok || !mayBeGiven(e) || e.ExpiresAt-r.h.Now < timing.Instant(time.Second) {
		return lisp.Mapping{}, false
	}
	m := e.Mapping
	m.TTLMinutes = lisp.TTLOf(time.Duration(e.ExpiresAt - r.h.Now))
	m.Authoritative = false
	return m, true
}

// TakeGiven takes mappings where there is none, the more specific ones first, and returns how many that were.
func (r *ITR) TakeGiven(mappings []lisp.Mapping, from netip.AddrPort) (taken int) {
	slices.SortStableFunc(mappings, func(a, b lisp.Mapping) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	for i, m := range mappings {
		_, known, ok := r.Cache.Longest(m.Prefix)
		switch {
		case m.TTLMinutes == 0:
			continue
		case ok && !known.Gleaned:
			known.LastUsedAt = r.h.Now // it will be: it must not be removed as idle before that is reported
			continue
		case !ok && r.Cache.Size() >= r.h.Limits.MapCacheEntries && !r.Cache.Evict():
			r.Cache.removeIncomplete(mappings[:i+1])
			return taken
		}
		gleaned := r.Cache.gleanedWithin(m.Prefix) // they were used until this one came, and must not end it
		expiresAt := min(r.h.After(lisp.Lifetime(m.TTLMinutes, r.config.UnlimitedTTL)), r.Cache.coveredExpiry(m.Prefix, gleaned))
		r.Cache.Install(mapcache.Entry{Mapping: m, From: from, ExpiresAt: expiresAt})
		for _, p := range gleaned {
			if id, _, ok := r.Cache.Get(p); ok {
				r.Cache.Remove(id, effect.RemoveReplaced)
			}
		}
		taken++
	}
	return taken
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
