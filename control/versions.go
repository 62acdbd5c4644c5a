// SPDX-License-Identifier: Apache-2.0

package control

// What the Map-Versions of data packets mean for the control plane (RFC 9302 s.7): who
// has an old mapping of ours is solicited, and an old mapping of theirs is asked for
// again. Whether the packet is forwarded is the data plane's to say.

import (
	"loci/lisp"
)

// handleVersion compares the source version with the map-cache (RFC 9302 s.7.2).
func (r *itr) handleVersion(v MapVersions) {
	_, e, ok := r.cache.longest(lisp.HostPrefix(v.Instance, v.Source))
	if !ok || e.static || lisp.CompareMapVersions(v.SourceVersion, e.mapping.Version) <= 0 {
		return
	}
	r.h.count(MapVersionOutdated)
	if !r.smrs.take(r.h.now, e.mapping.Prefix, r.h.limits.SMRInvoked, r.h.limits.RateTable) {
		r.h.count(RefusedSMRLimit)
		return
	}
	r.ask(pendingRequest{prefix: e.mapping.Prefix})
}
