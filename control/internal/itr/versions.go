// SPDX-License-Identifier: Apache-2.0

package itr

// What the Map-Versions of data packets mean for the control plane (RFC 9302 s.7): who
// has an old mapping of ours is solicited, and an old mapping of theirs is asked for
// again. Whether the packet is forwarded is the data plane's to say.

import (
	"loci/control/internal/counter"
	"loci/control/internal/report"
	"loci/lisp"
)

// HandleVersion compares the source version with the map-cache (RFC 9302 s.7.2).
func (r *ITR) HandleVersion(v report.MapVersions) {
	_, e, ok := r.Cache.Longest(lisp.HostPrefix(v.Instance, v.Source))
	if !ok || e.Static || lisp.CompareMapVersions(v.SourceVersion, e.Mapping.Version) <= 0 {
		return
	}
	r.h.Count(counter.MapVersionOutdated)
	r.Requester.askForNews(PendingRequest{Prefix: e.Mapping.Prefix}, e.Mapping.Prefix)
}
