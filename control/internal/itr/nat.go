// SPDX-License-Identifier: Apache-2.0

package itr

// Mappings that NAT traversal makes: everything to the RTR at a node behind a NAT, a node's EID-Prefix to its
// translated address at the RTR. They are static: they end when NAT traversal says so, and no Map-Reply replaces them.

import (
	"slices"
	"time"

	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/timing"
	"loci/lisp"
)

// adoptedNATLasts is how long such a mapping of an earlier run is used until NAT traversal makes it again.
const adoptedNATLasts = time.Minute

// PutNAT puts such a mapping in, unless the operator has one for the same EID-Prefix.
func (r *ITR) PutNAT(m lisp.Mapping) {
	if _, e, ok := r.Cache.Get(m.Prefix); ok && e.Static && (!e.ByNAT || e.Mapping.Equal(m)) {
		return
	}
	r.Cache.Install(mapcache.Entry{Mapping: m, Static: true, ByNAT: true, ExpiresAt: timing.Never})
}

// RemoveNAT takes one out.
func (r *ITR) RemoveNAT(p lisp.Prefix, reason effect.RemoveReason) {
	if id, e, ok := r.Cache.Get(p); ok && e.ByNAT {
		r.Cache.Remove(id, reason)
	}
}

// isByNAT reports whether a mapping that the data plane kept through a restart is one of them: only they name a port to
// send from.
func isByNAT(m lisp.Mapping) bool {
	return len(m.Locators) > 0 && !slices.ContainsFunc(m.Locators, func(l lisp.Locator) bool { return l.SourcePort == 0 })
}
