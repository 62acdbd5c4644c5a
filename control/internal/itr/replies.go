// SPDX-License-Identifier: Apache-2.0

package itr

// Map-Replies: what answers one of our Map-Requests comes into the map-cache (RFC 9301 s.5.3 to s.5.5).

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/message"
	"loci/control/internal/timing"
	"loci/lisp"
)

// HandleMapReply takes what answers one of our Map-Requests (RFC 9301 s.5.3).
func (r *ITR) HandleMapReply(m *message.MapReply) {
	if m.Probe {
		r.handleProbeReply(m)
		return
	}
	id, resolver, sentAt, ok := r.Requester.Pending.Answered(m.Nonce)
	if !ok && r.Requester.Resolvers.Takes(m) {
		if about := r.Requester.CheckedStale(); !about.IsZero() && related(about, m.Mappings) {
			r.Take(about, m) // not for the map-cache, but any Map-Reply ends the use past the TTL
		}
		return
	}
	if !ok {
		r.h.Count(counter.RefusedNonce)
		return
	}
	asked, solicited := r.Requester.Pending.Requests.At(id).Prefix,
		r.Requester.Pending.Requests.At(id).IsSolicited(r.h.Now)
	if !related(asked, m.Mappings) {
		r.h.Count(counter.RefusedUnrelatedPrefix)
		return
	}
	r.Requester.Resolvers.Answered(resolver, r.h.Now-sentAt)
	r.h.CoreAnswered(resolver.Addr(), m.From.Addr(), sentAt)
	r.h.Resolutions.Add(time.Duration(r.h.Now - r.Requester.Pending.Requests.At(id).FirstSentAt()))
	r.Requester.Settle(id)
	r.h.Notice(effect.Notice{Kind: effect.NoticeMapReplyReceived, Prefix: asked, Remote: m.From})
	if !r.keeps(asked, solicited, m) {
		r.Take(asked, m)
	}
}

// Take brings the map-cache into line with a Map-Reply: more specific records
// first, so that no packet meets a covering one alone. What it means for very many
// entries follows in later event-loop iterations.
func (r *ITR) Take(asked lisp.Prefix, m *message.MapReply) {
	unregistered := saysUnregistered(m.Mappings)
	mappings := r.Cache.withLost(asked, slices.Clone(m.Mappings))
	slices.SortStableFunc(mappings, func(a, b lisp.Mapping) int { return b.Prefix.Bits() - a.Prefix.Bits() })
	whole := mappings[len(mappings)-1].Prefix
	if asked.Covers(whole) {
		whole = asked
	}
	outdated, all := r.outdated(asked, whole, unregistered, mappings)
	for _, mapping := range mappings {
		r.Cache.Named.Tell(mapping.Prefix, m.Named)
		left := r.Departures.has(asked, mapping)
		if r.TakeRecord(mapping, m.From, outdated); left {
			r.Departures.relayOn(mapping.Prefix)
		}
		r.Cache.noteSkipped(mapping.Prefix, m.Skipped)
	}
	r.named.settle(m.Named)
	r.Cache.removeIncomplete(mappings)
	for _, p := range outdated {
		if id, e, ok := r.Cache.Get(p); ok && !e.Static {
			r.Cache.Remove(id, effect.RemoveReplaced)
		}
	}
	if unregistered {
		r.Cache.putAside(m.Mappings[0].Prefix)
	}
	if all {
		return
	}
	s := Sweep{asked: asked, whole: whole, unregistered: unregistered}
	for _, mapping := range mappings {
		s.records = append(s.records, sweptRecord{prefix: mapping.Prefix, expiresAt: timing.Never})
	}
	r.Sweeps.Start(s)
}

// outdated lists the cached prefixes that a Map-Reply contradicts (RFC 9301 s.5.5).
// A reply has the longest match with all its more-specifics: a cached one that
// covers the asked EID-Prefix and that it does not name is gone, and so is a negative
// one within what has a mapping now. all reports that none is left to look at.
func (r *ITR) outdated(asked, whole lisp.Prefix, unregistered bool, mappings []lisp.Mapping) (prefixes []lisp.Prefix, all bool) {
	seen := 0
	for p, id := range r.Cache.Index.Subtree(whole) {
		if seen++; seen > MaxMoreSpecifics {
			return prefixes, false
		}
		named := slices.ContainsFunc(mappings, func(m lisp.Mapping) bool { return m.Prefix == p })
		if !named && r.Cache.contradicts(asked, unregistered, r.Cache.Entries.At(id)) {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, true
}

// TakeRecord takes over one record of a Map-Reply.
func (r *ITR) TakeRecord(m lisp.Mapping, from netip.AddrPort, outdated []lisp.Prefix) {
	id, known, ok := r.Cache.Get(m.Prefix)
	switch {
	case ok && known.Static:
		return // the operator's word
	case ok && !known.Stale && lisp.CompareMapVersions(m.Version, known.Mapping.Version) < 0:
		r.h.Count(counter.RefusedVersion) // who answered is behind (RFC 9302 s.7)
		known.Refreshing, known.Denied = false, true
		return
	case m.TTLMinutes == 0 && ok: // RFC 9301 s.5.4: remove at once
		r.Cache.Remove(id, effect.RemoveWithdrawn)
		return
	case m.TTLMinutes == 0:
		return
	case !ok && r.Cache.Size() >= r.h.Limits.MapCacheEntries && !r.Cache.Evict():
		return
	}
	m = r.Cache.Named.Translate(m)
	refreshed := ok && known.Refreshing && known.Mapping.Equal(m)
	if ok && known.Refreshing {
		r.h.Count(counter.MappingRefreshed)
	}
	expiresAt := min(r.h.After(lisp.Lifetime(m.TTLMinutes, r.config.UnlimitedTTL)), r.Cache.coveredExpiry(m.Prefix, outdated))
	relayed := ok && known.Registered && !known.ByNAT && !known.Refreshing // until the TTL of the first one ends
	r.Cache.Install(mapcache.Entry{Mapping: m, From: from, ExpiresAt: expiresAt, Registered: relayed})
	if ok {
		r.Prober.ReleaseStatusBits(m)
	}
	if refreshed {
		r.h.Notice(effect.Notice{Kind: effect.NoticeMappingRefreshed, Prefix: m.Prefix, Remote: from})
	}
}

// namedHosts keeps the map-cache in line with the hosts that mappings name.
type namedHosts struct {
	cache     *mapCache
	requester *maprequest.Requester
}

// settle forgets the hosts of mappings that did not come into the map-cache.
func (n namedHosts) settle(locators []message.NamedLocator) {
	for _, l := range locators {
		if _, e, ok := n.cache.Get(l.Prefix); !ok || e.Static {
			n.cache.Named.Forget(l.Prefix)
		}
	}
}

// lookAt installs a mapping anew whose hosts have other ports now. Where one may have moved it is asked for again,
// at the rate that such Map-Requests have.
func (n namedHosts) lookAt(p lisp.Prefix, news bool) {
	_, e, ok := n.cache.Get(p)
	if !ok || e.Static {
		return
	}
	again := *e
	if again.Mapping = n.cache.Named.Translate(e.Mapping); !again.Mapping.Equal(e.Mapping) {
		n.cache.Install(again)
	}
	if news {
		n.requester.AskForNews(maprequest.Request{Prefix: p}, p)
	}
}

// related reports whether the records speak about what was asked: one covers it
// and the others lie within that one; or all lie within what was asked, when a
// cached EID-Prefix fell apart. Anything else could poison the map-cache.
func related(asked lisp.Prefix, mappings []lisp.Mapping) bool {
	whole := asked
	for _, m := range mappings {
		if m.Prefix.Covers(whole) {
			whole = m.Prefix
		}
	}
	for _, m := range mappings {
		if !whole.Covers(m.Prefix) {
			return false
		}
	}
	return whole != asked || !asked.IsHost() || slices.ContainsFunc(mappings, func(m lisp.Mapping) bool { return m.Prefix == asked })
}

// keeps reports whether a mapping stays though a Map-Reply to a request for it is negative. That a site's
// registration is missing may be its control plane's fault, or the Map-Server's that has just started: while the
// site's locators answer RLOC-probes or send packets, the mapping is kept until its TTL ends (RFC 9301 s.5.4), and
// asked for again. It does not where the site itself asked for the request by an SMR, as when it gives an
// EID-Prefix up, and where the answer is a decision: to drop, to have nothing cached, or to use locators that we
// cannot send to.
func (r *ITR) keeps(asked lisp.Prefix, solicited bool, m *message.MapReply) bool {
	if solicited || len(m.Skipped) > 0 || slices.ContainsFunc(m.Mappings, saysMore) {
		return false
	}
	id, e, ok := r.Cache.Longest(asked)
	if !ok || e.Static || e.Gleaned || e.Mapping.Negative() || r.h.Now >= e.ExpiresAt || !r.Prober.ShowsLife(e.Mapping.Locators) {
		return false
	}
	r.h.Count(counter.MappingKept)
	r.Cache.noteKept(e.Mapping.Prefix)
	r.h.Notice(effect.Notice{Kind: effect.NoticeMappingKept, Prefix: e.Mapping.Prefix, Remote: m.From})
	// What is left of the TTL counts as a new one for refreshAt: the nearer its end, the
	// sooner it is asked for again.
	e.Refreshing, e.Denied, e.RefreshedAt = false, true, r.h.Now
	r.Cache.schedule(id)
	return true
}

// saysMore reports whether a record says anything but that nothing is registered.
func saysMore(m lisp.Mapping) bool {
	return !m.Negative() || m.TTLMinutes == 0 || m.Action != lisp.ActionNoAction && m.Action != lisp.ActionNativelyForward
}
