// SPDX-License-Identifier: Apache-2.0

package itr

// What a negative Map-Reply means for a mapping that is in use. That a site's registration
// is missing may be its control plane's fault, or the Map-Server's that has just started:
// while the site's locators answer RLOC-probes or send packets, the mapping is kept until
// its TTL ends (RFC 9301 s.5.4), and asked for again. Nothing here is about mappings whose
// TTL is over.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/lisp"
)

// keeps reports whether a mapping stays though a Map-Reply to a request for it is negative.
// It does not where the site itself asked for the request by an SMR, as when it gives an
// EID-Prefix up, and where the answer is a decision: to drop, to have nothing cached, or to use locators that we cannot send to.
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
	e.Refreshing, e.RefreshedAt = false, r.h.Now
	r.Cache.schedule(id)
	return true
}

// saysMore reports whether a record says anything but that nothing is registered.
func saysMore(m lisp.Mapping) bool {
	return !m.Negative() || m.TTLMinutes == 0 || m.Action != lisp.ActionNoAction && m.Action != lisp.ActionNativelyForward
}
