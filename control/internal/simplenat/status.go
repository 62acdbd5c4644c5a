// SPDX-License-Identifier: Apache-2.0

package simplenat

// How a node looks from outside, and its RTRs.

import (
	"slices"

	"loci/control/internal/settings"
	"loci/control/internal/status"
)

// Status is that of the other protocol, nil for none, with what this one found out: a Map-Server that answers this one
// has one view.
func (n *Node) Status(s *status.NAT) *status.NAT {
	if n.config == nil || len(n.rlocs) == 0 {
		return s
	}
	if s == nil {
		s = &status.NAT{Keepalive: n.config.Keepalive, SentLastHour: n.h.NATSent.Sum(n.h.Now)}
	}
	for _, r := range n.rlocs {
		r.addViews(s)
		r.addRTRs(s)
	}
	return s
}

// addViews adds what Map-Servers say about an RLOC.
func (n *ownRLOC) addViews(s *status.NAT) {
	for _, q := range n.servers {
		if q.answeredAt == 0 && n.node.config.Protocol == settings.NATAuto {
			continue
		}
		isThis := func(v status.NATView) bool { return v.MapServer == q.at && v.Local == n.local }
		s.Views = slices.DeleteFunc(s.Views,
			func(v status.NATView) bool { return isThis(v) && v.AnsweredAt.IsZero() })
		view := status.NATView{
			Protocol: settings.NATSimple, MapServer: q.at, Local: n.local, Prefix: n.about, Seen: q.seen,
			RTRs:   q.rtrs,
			Behind: n.isBehind(q),
		}
		if since, often := q.changes.OftenSince(n.h.Now); often {
			view.OftenChangedSince = n.h.Time(since)
		}
		if q.answeredAt != 0 {
			view.AnsweredAt = n.h.Time(q.answeredAt)
		}
		if !slices.ContainsFunc(s.Views, isThis) {
			s.Views = append(s.Views, view)
		}
	}
}

// addRTRs adds the RTRs by which an RLOC is reached.
func (n *ownRLOC) addRTRs(s *status.NAT) {
	for _, r := range n.rtrs {
		row := status.NATRTR{
			Protocol: settings.NATSimple, Address: r.at, Local: n.local.Addr(), Since: n.h.Time(r.since),
			Silent: r.silent,
		}
		if r.sentAt != 0 {
			row.LastKeepaliveAt = n.h.Time(r.sentAt)
		}
		if r.answeredAt != 0 {
			row.ConfirmedAt = n.h.Time(r.answeredAt)
		}
		s.RTRs = append(s.RTRs, row)
	}
}
