// SPDX-License-Identifier: Apache-2.0

package itr

// EID-Prefixes that had locators lately, and are not registered now: a site whose registration expired comes back, and
// an ITR that sends to it without return traffic gets no sign of that. While packets use the negative entry, the
// mapping system is asked again in short intervals, and not only when the TTL ends. Nothing here concerns an
// EID-Prefix that never had locators.

import (
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/timing"
	"loci/lisp"
)

// lostUse is how lately packets must have used a negative entry for its EID-Prefix to be in use.
const lostUse = time.Minute

// isUnregistered reports whether a mapping says that nothing is registered. That a policy denies us is a decision, and where the
// mapping system is to be asked packets do so.
func isUnregistered(m lisp.Mapping) bool {
	return m.Negative() && m.Action != lisp.ActionSendMapRequest && m.Action != lisp.ActionDropPolicyDenied
}

// hasLocators reports whether an entry is a mapping of the mapping system with locators.
func hasLocators(e *mapcache.Entry) bool { return !e.Static && !e.Gleaned && !e.Mapping.Negative() }

// noteInstalled follows an entry that was put in, in place of one with locators or not.
func (c *mapCache) noteInstalled(e *mapcache.Entry, hadLocators bool) {
	p := e.Mapping.Prefix
	switch {
	case hasLocators(e):
		c.Lost.Found(p)
		return
	case hadLocators:
		c.Lost.Had(p, c.h.Now)
	}
	if e.Static || !isUnregistered(e.Mapping) {
		c.Lost.End(p)
		return
	}
	if c.Lost.Begin(p, c.h.Now) && c.isInUse(e) {
		c.tellLost(e)
	}
}

// noteRemoved follows an entry that was taken out.
func (c *mapCache) noteRemoved(p lisp.Prefix, hadLocators bool) {
	c.Lost.End(p)
	if hadLocators {
		c.Lost.Had(p, c.h.Now)
	}
}

// isInUse reports whether packets use an entry: a new one counts as used if they asked for it.
func (c *mapCache) isInUse(e *mapcache.Entry) bool {
	if e.Aside && e.LastUsedAt == 0 {
		return false
	}
	return c.h.Now-e.LastUse() <= timing.Instant(lostUse)
}

// tellLost says once that an EID-Prefix in use is lost.
func (c *mapCache) tellLost(e *mapcache.Entry) {
	if !c.Lost.Tell(e.Mapping.Prefix) {
		return
	}
	c.h.Count(counter.MappingLost)
	c.h.Notice(effect.Notice{Kind: effect.NoticeMappingLost, Prefix: e.Mapping.Prefix, Remote: e.From, Detail: e.Mapping.Action.String()})
}

// withLost is a negative Map-Reply with a record of its own for the EID-Prefix that had locators, where the reply's
// covers more: so the data plane reports whether that one is in use.
func (c *mapCache) withLost(asked lisp.Prefix, mappings []lisp.Mapping) []lisp.Mapping {
	if !saysUnregistered(mappings) {
		return mappings
	}
	m := mappings[0]
	had := c.Lost.Within(asked, c.h.Now)
	if _, e, ok := c.Longest(asked); ok && hasLocators(e) {
		had = e.Mapping.Prefix
	}
	if had.IsZero() || had == m.Prefix || !m.Prefix.Covers(had) {
		return mappings
	}
	m.Prefix = had
	return append(mappings, m)
}

// putAside gives the other EID-Prefixes within a negative entry that had locators entries of their own: the answer was
// about another EID, but packets to these would use it too. They are no reason to evict anything.
func (c *mapCache) putAside(hole lisp.Prefix) {
	_, e, ok := c.Get(hole)
	if !ok || e.Static || !isUnregistered(e.Mapping) {
		return
	}
	entry := mapcache.Entry{Mapping: e.Mapping, From: e.From, ExpiresAt: e.ExpiresAt, Aside: true}
	for p := range c.Lost.Inside(hole, c.h.Now) {
		_, used, _ := c.Longest(p)
		if c.Size() >= c.h.Limits.MapCacheEntries {
			return
		}
		if used.Mapping.Prefix != p && !used.Static && used.Mapping.Negative() {
			entry.Mapping.Prefix = p
			c.Install(entry)
		}
	}
}

// saysUnregistered reports whether a Map-Reply is one record, which says that nothing is registered.
func saysUnregistered(mappings []lisp.Mapping) bool {
	return len(mappings) == 1 && mappings[0].TTLMinutes > 0 && isUnregistered(mappings[0])
}

// HandleLostTimeout asks again for what was lost, while it is in use.
func (r *ITR) HandleLostTimeout(id uint32) {
	p := r.Cache.Lost.At(id).Prefix
	_, e, ok := r.Cache.Get(p)
	switch {
	case !ok: // what is in its place is known by its own name
		r.Cache.Lost.End(p)
		return
	case !r.Cache.isInUse(e):
		r.Cache.Lost.Unused(id, r.h.Now)
		return
	}
	r.Cache.tellLost(e)
	if r.Cache.Lost.Take(id, r.h.Now) && r.Requester.Ask(maprequest.Request{Prefix: p}) {
		r.h.Count(counter.LostMapRequestSent)
	}
}

// LostMappings lists what is lost and in use, at most so many, and counts all.
func (r *ITR) LostMappings(most int) (list []status.LostMapping, count int) {
	for p, next := range r.Cache.Lost.All() {
		l, ok := r.lostStatus(p, next)
		if !ok {
			continue
		}
		if count++; count <= most {
			list = append(list, l)
		}
	}
	return list, count
}

func (r *ITR) lostStatus(p lisp.Prefix, next timing.Instant) (l status.LostMapping, ok bool) {
	_, e, known := r.Cache.Get(p)
	since, until, lately := r.Cache.Lost.Since(p, r.h.Now)
	if !known || !lately || !r.Cache.Lost.Has(p) || !r.Cache.isInUse(e) {
		return l, false
	}
	told := r.Cache.Entry(e)
	l = status.LostMapping{
		Prefix: p, Since: r.h.Time(since), HadUntil: r.h.Time(until), From: e.From, Action: e.Mapping.Action,
		ByProxyETR: settings.ByProxyETR(told.Mapping), NextRequestAt: r.h.Time(min(next, r.Cache.refreshAt(e))),
	}
	return l, true
}
