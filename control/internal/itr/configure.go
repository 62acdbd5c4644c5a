// SPDX-License-Identifier: Apache-2.0

package itr

// Another configuration, and what of the map-cache it changes.

import (
	"maps"
	"reflect"
	"slices"

	"loci/control/internal/settings"
	"loci/lisp"
)

// Configure takes over another configuration and brings the static mappings into
// line with it.
func (r *ITR) Configure(c *settings.ITRConfig, static StaticChange, begins bool) {
	changed := Sweep{rlocs: changedRLOCs(r.own, r.h.RLOCs), reschedule: r.config.IdleTimeout != c.IdleTimeout || r.config.ServeStale != c.ServeStale}
	changed.Reinstall = !reflect.DeepEqual(r.config.LocatorPolicies, c.LocatorPolicies) || !r.config.ProxyETRs.Equal(c.ProxyETRs) ||
		hasAny(c.ProxyETRs, changed.rlocs) || !maps.Equal(r.relaying, r.h.Relaying) ||
		r.config.IdentifiesPaths != c.IdentifiesPaths
	r.config, r.Cache.config, r.own, r.relaying = c, c, slices.Clone(r.h.RLOCs), r.h.Relaying
	if c.IdentifiesPaths {
		r.Cache.Ambiguous = ambiguousPaths{}
	}
	r.Requester.Resolvers.Configure(c.MapResolvers)
	if r.Cache.Size() > 0 && (changed.Reinstall || changed.reschedule || len(changed.rlocs) > 0) {
		r.Sweeps.Start(changed)
	}
	r.Prober.SetProxyETRs(c.ProxyETRs)
	r.Prober.Configure(c.RLOCProbing)
	r.Prober.Probed.Set(c.ProbedPeers)
	r.Statics.configure(static, c.StaticMappings, begins)
}

// changedRLOCs are those of one list that the other one lacks.
func changedRLOCs(were, are []lisp.RLOC) (changed []lisp.RLOC) {
	for _, r := range were {
		if !slices.Contains(are, r) {
			changed = append(changed, r)
		}
	}
	for _, r := range are {
		if !slices.Contains(were, r) {
			changed = append(changed, r)
		}
	}
	return changed
}

// hasAny reports whether one of those RLOCs is a locator of a set by itself.
func hasAny(set lisp.LocatorSet, rlocs []lisp.RLOC) bool {
	return slices.ContainsFunc(set, func(l lisp.Locator) bool {
		return l.Behind == "" && slices.ContainsFunc(rlocs, func(r lisp.RLOC) bool { return r.Addr() == l.RLOC.Addr() })
	})
}
