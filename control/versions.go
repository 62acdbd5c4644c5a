// SPDX-License-Identifier: Apache-2.0

package control

// What the Map-Versions of data packets mean for the control plane (RFC 9302 s.7): who
// has an old mapping of ours is solicited, and an old mapping of theirs is asked for
// again. Whether the packet is forwarded is the data plane's to say.

import (
	"fmt"
	"net/netip"
	"time"

	"loci/lisp"
)

// MapVersions are the Map-Versions that a data packet carried, with the V bit. Report
// those that differ from the tables, at a bounded rate; trusted networks only.
type MapVersions struct {
	Instance            lisp.InstanceID
	Source, Destination lisp.EID  // of the inner packet
	From                lisp.RLOC // outer source address
	SourceVersion       uint16
	DestinationVersion  uint16
}

// HandleMapVersions acts on the Map-Versions of a data packet. The rates of SMRs and of
// SMR-invoked Map-Requests bound what forged packets can cause.
func (n *Node) HandleMapVersions(now time.Time, v MapVersions) {
	n.host.turn(now)
	if n.etr != nil {
		n.etr.handleVersion(v)
	}
	if n.itr != nil {
		n.itr.handleVersion(v)
	}
}

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
