// SPDX-License-Identifier: Apache-2.0

package mapserver

// RTRs that a registration names no more are told, once (draft-ermagan-lisp-nat-traversal s.5.5): they ask for the
// mapping then, and forward by that. One that is not told forwards to its ETR's old address until its binding ends.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/lisp"
	"loci/wire"
)

// rtrsOf are the offered RTRs that a registration names, of those that believe what comes unasked: by a key.
func (s *MapServer) rtrsOf(set lisp.LocatorSet) (list []netip.Addr) {
	for _, r := range s.Infos.rtrs {
		isIt := func(l lisp.Locator) bool { return l.RLOC == lisp.RLOCFromAddr(r.Address) }
		if len(r.Keys) > 0 && slices.ContainsFunc(set, isIt) {
			list = append(list, r.Address)
		}
	}
	return list
}

// rtrsAt are those of the registration at a place, if there is one.
func (s *MapServer) rtrsAt(at Place) []netip.Addr {
	if !at.known || len(s.Infos.rtrs) == 0 {
		return nil
	}
	return s.rtrsOf(s.Registrations.merged(at.row).Locators)
}

// tellDeparted tells the RTRs of a registration that it names no more.
func (s *MapServer) tellDeparted(were []netip.Addr, row *Registration) {
	if len(were) == 0 {
		return
	}
	m := s.Registrations.merged(row)
	are := s.rtrsOf(m.Locators)
	for _, rtr := range were {
		if !slices.Contains(are, rtr) {
			s.tellRTR(rtr, row, m)
		}
	}
}

// tellRTR sends a Map-Notify that is for the RTR itself. It has a MAC of the site like any other.
func (s *MapServer) tellRTR(rtr netip.Addr, row *Registration, m lisp.Mapping) {
	site := s.Registrations.SiteOf(row).Config
	own, has := s.h.RLOCOf(rtr.Is4())
	if len(site.Keys) == 0 || !has || !s.h.MayNotify(rtr) {
		return
	}
	key := site.Keys[0]
	notify, err := wire.AppendSigned(nil, &wire.MapNotify{
		Nonce: s.h.Nonce(), KeyID: key.ID, AlgorithmID: key.Algorithm, Authentication: make([]byte, key.MACOctets()),
		Records: []wire.Record{wire.RecordOf(m)},
	}, key.Secret)
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	if s.Infos.sendByRTR(s.h.FromControlPort(), rtr, own.Addr(), rtr, notify) {
		s.h.Count(counter.MapNotifyUnsolicitedSent)
		remote := netip.AddrPortFrom(rtr, s.h.ControlPort)
		s.h.Notice(effect.Notice{Kind: effect.NoticeMapNotifySent, Prefix: row.Prefix, Remote: remote, Site: site.Name})
	}
}
