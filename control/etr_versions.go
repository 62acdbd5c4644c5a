// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"loci/lisp"
	"net/netip"
)

// What the Map-Versions of data packets mean for the ETR (RFC 9302 s.7.1).

// handleVersion compares the destination version with the Database (RFC 9302 s.7.1).
func (e *etr) handleVersion(v MapVersions) {
	_, own, ok := e.database.index.longest(lisp.HostPrefix(v.Instance, v.Destination))
	if !ok {
		return
	}
	switch order := lisp.CompareMapVersions(v.DestinationVersion, own.Version); {
	case order > 0:
		e.h.count(MapVersionInvalid)
		e.h.noticeRefusal(Notice{Kind: NoticeMapVersionInvalid, Prefix: own.Prefix, Remote: netip.AddrPortFrom(v.From.Addr(), 0),
			Detail: fmt.Sprintf("version %d, ours is %d", v.DestinationVersion, own.Version)})
	case order < 0:
		e.h.count(MapVersionOutdated)
		e.solicitor.outdated(v.From, own.Prefix)
	}
}
