// SPDX-License-Identifier: Apache-2.0

package etr

// What the Map-Versions of data packets mean for the ETR (RFC 9302 s.7.1).

import (
	"fmt"
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/report"
	"loci/lisp"
)

// HandleVersion compares the destination version with the Database (RFC 9302 s.7.1).
func (e *ETR) HandleVersion(v report.MapVersions) {
	_, own, ok := e.Database.Index.Longest(lisp.HostPrefix(v.Instance, v.Destination))
	if !ok {
		return
	}
	switch order := lisp.CompareMapVersions(v.DestinationVersion, own.Version); {
	case order > 0:
		e.h.Count(counter.MapVersionInvalid)
		e.h.NoticeRefusal(effect.Notice{Kind: effect.NoticeMapVersionInvalid, Prefix: own.Prefix, Remote: netip.AddrPortFrom(v.From.Addr(), 0),
			Detail: fmt.Sprintf("version %d, ours is %d", v.DestinationVersion, own.Version)})
	case order < 0:
		e.h.Count(counter.MapVersionOutdated)
		e.Solicitor.Outdated(v.From, own.Prefix)
	}
}
