// SPDX-License-Identifier: Apache-2.0

package itr

// Gleaning (RFC 9300 s.4.2, s.9): the outer source of a data packet serves as the one
// locator of its inner source while the mapping system is asked. Off by default, and
// never on over the public Internet: a forged packet redirects the answers
// for as long as that takes. A gleaned mapping covers one EID for three seconds, is not
// prolonged, pushes nothing out of the map-cache, and replaces no mapping.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/maprequest"
	"loci/control/internal/report"
	"loci/control/internal/timing"
	"loci/lisp"
)

// GleanLifetime is how long a gleaned mapping is used unless it is verified (RFC 9300 s.9).
const GleanLifetime = 3 * time.Second

// Gleanings bounds the mappings that data packets bring in, and with them the Map-Requests
// that verify them.
func Gleanings() timing.Rate { return timing.Rate{PerSecond: 100, Burst: 500} }

// HandleGleaned installs a gleaned mapping and asks the mapping system for the real one.
func (r *ITR) HandleGleaned(g report.Gleaned) {
	prefix := lisp.HostPrefix(g.Instance, g.Source)
	if _, e, ok := r.Cache.Longest(prefix); ok && e.Mapping.Action != lisp.ActionSendMapRequest {
		return // known meanwhile, or gleaned already
	}
	if !r.mayGlean(prefix, g.From) || !r.Requester.Ask(maprequest.Request{Prefix: prefix, Source: g.Destination}) {
		r.h.Count(counter.RefusedGleaning)
		return
	}
	_, q, _ := r.Requester.Pending.Get(prefix)
	q.Gleaned = true
	r.h.Count(counter.MappingGleaned)
	r.Cache.Install(mapcache.Entry{
		Mapping: gleanedMapping(prefix, g.From), Gleaned: true, ExpiresAt: r.h.After(GleanLifetime),
		From: netip.AddrPortFrom(g.From.Addr(), 0),
	})
}

// mayGlean reports whether a packet is believed for the moment: once for each Map-Request
// that verifies it, and about no RLOC that is known to be down, or our own. While all Map-Resolvers are silent nothing verifies it.
func (r *ITR) mayGlean(p lisp.Prefix, from lisp.RLOC) bool {
	if !r.config.Gleaning || !r.Trusts() || r.Requester.Resolvers.OneByOne() || slices.Contains(r.h.RLOCs, from) {
		return false
	}
	if _, q, ok := r.Requester.Pending.Get(p); ok && (q.Gleaned || !q.Waits()) {
		return false
	}
	if _, l, known := r.Prober.Table.Get(from); known && l.State == effect.LocatorDown {
		return false
	}
	return r.Cache.Size() < r.h.Limits.MapCacheEntries && r.gleans.Take(r.h.Now, Gleanings())
}

// gleanedMapping has the one RLOC, with the best priority and a weight of zero (RFC 9300 s.9).
// It has no TTL.
func gleanedMapping(p lisp.Prefix, from lisp.RLOC) lisp.Mapping {
	l := lisp.NewLocator(from)
	l.Weight = 0
	return lisp.Mapping{Prefix: p, Locators: lisp.LocatorSet{l}}
}
