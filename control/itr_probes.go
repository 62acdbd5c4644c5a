// SPDX-License-Identifier: Apache-2.0

package control

// What the answers to RLOC-probes mean for the map-cache (RFC 9301 s.7.1): they say
// what the site believes its mapping to be. That is a hint, no more: a mapping only
// comes into the map-cache from the mapping system.

import (
	"slices"

	"loci/lisp"
)

// handleProbeReply takes the answer to an RLOC-probe.
func (r *itr) handleProbeReply(m *mapReply) {
	l, ok := r.prober.handleReply(m, &r.cache)
	if !ok {
		return
	}
	at := slices.IndexFunc(m.mappings, func(m lisp.Mapping) bool { return m.Prefix == l.prefix })
	if e, cached := l.entryIn(&r.cache); at >= 0 && cached && !e.static {
		r.hearNews(l, e.mapping, m.mappings[at])
	}
}

// hearNews asks the mapping system when a probed site tells of other locators than
// the cached ones; once for each thing that it tells, because two ETRs of one site may
// differ for ever.
func (r *itr) hearNews(l *locator, cached, told lisp.Mapping) {
	if sameButReplyBits(told.Locators, cached.Locators) {
		l.probes.differing = nil
		return
	}
	news := withoutReplyBits(told.Locators)
	switch {
	case len(news) == 0, lisp.CompareMapVersions(told.Version, cached.Version) < 0, slices.Equal(news, l.probes.differing):
		return
	case !r.smrs.take(r.h.now, cached.Prefix, r.h.limits.SMRInvoked, r.h.limits.RateTable):
		r.h.count(RefusedSMRLimit)
		return
	}
	l.probes.differing = news
	r.h.count(RLOCProbeNews)
	r.ask(pendingRequest{prefix: cached.Prefix})
}

// locatorsOf are the locators of a cached mapping.
func (r *itr) locatorsOf(p lisp.Prefix) (lisp.LocatorSet, bool) {
	_, e, ok := r.cache.get(p)
	if !ok {
		return nil, false
	}
	return e.mapping.Locators, true
}

// handleProbeTimeout sends a locator's next RLOC-probe.
func (r *itr) handleProbeTimeout(id uint32) { r.prober.due(id, &r.cache) }
