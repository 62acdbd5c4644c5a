// SPDX-License-Identifier: Apache-2.0

package control

// What a negative Map-Reply means for a mapping that is in use. That a site's registration
// is missing may be its control plane's fault, or the Map-Server's that has just started:
// while the site's locators answer RLOC-probes or send packets, the mapping is kept until
// its TTL ends (RFC 9301 s.5.4), and asked for again. Nothing here is about mappings whose
// TTL is over.

import (
	"slices"

	"loci/lisp"
)

// keeps reports whether a mapping stays though a Map-Reply to a request for it is negative.
// It does not where the site itself asked for the request by an SMR, as when it gives an
// EID-Prefix up, and where the answer is a decision: to drop, or to have nothing cached.
func (r *itr) keeps(asked lisp.Prefix, solicited bool, m *mapReply) bool {
	if solicited || slices.ContainsFunc(m.mappings, saysMore) {
		return false
	}
	id, e, ok := r.cache.longest(asked)
	if !ok || e.static || e.gleaned || e.mapping.Negative() || r.h.now >= e.expiresAt || !r.prober.showsLife(e.mapping.Locators) {
		return false
	}
	r.h.count(MappingKept)
	r.h.notice(Notice{Kind: NoticeMappingKept, Prefix: e.mapping.Prefix, Remote: m.from})
	// What is left of the TTL counts as a new one for refreshAt: the nearer its end, the
	// sooner it is asked for again.
	e.refreshing, e.refreshedAt = false, r.h.now
	r.schedule(id)
	return true
}

// saysMore reports whether a record says anything but that nothing is registered.
func saysMore(m lisp.Mapping) bool {
	return !m.Negative() || m.TTLMinutes == 0 || m.Action != lisp.ActionNoAction && m.Action != lisp.ActionNativelyForward
}
