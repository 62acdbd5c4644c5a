// SPDX-License-Identifier: Apache-2.0

package control

// Sending Solicit-Map-Requests when a mapping of ours changed (RFC 9301 s.6.1): to
// the locators of the mappings that we recently forwarded by, and to those who asked
// for ours. The new mapping is registered first, because the answer to an SMR comes
// from the mapping system. SMRs are not acknowledged, so each is sent a few times,
// unless its receiver is seen to ask. It never sends a mapping.

import (
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// smrTries of one SMR, smrInterval apart: the RECOMMENDED distance.
	smrTries    = 3
	smrInterval = 3 * time.Second
	// smrPrefixes bounds the EID-Prefixes that one peer is told about at a time.
	smrPrefixes = 16
	// smrAfterNotify is how long the Map-Notifies are waited for, smrAfterRegister
	// how long when no Map-Server sends any.
	smrAfterNotify   = time.Second
	smrAfterRegister = 20 * time.Millisecond
	// peerActive: RFC 9301 s.6.1 speaks of the last minute; use is reported late.
	peerActive = time.Minute + usageDelay
	// peerBatch bounds the peers that one turn looks at.
	peerBatch = 4096
)

// peerSource gives the RLOCs that we recently sent packets to, a batch of them from
// a cursor on. more reports that there are further ones from next.
type peerSource func(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool)

// solicitation is what one peer is to be told.
type solicitation struct {
	rloc    lisp.RLOC
	waiting []solicitedPrefix // earliest first
}

type solicitedPrefix struct {
	prefix lisp.Prefix
	tries  int
	at     instant // not before
}

// solicitor sends SMRs.
type solicitor struct {
	h      *host
	peers  peerSource
	askers askers

	changed []lisp.Prefix // wait for their registration
	telling []lisp.Prefix // peers are being gathered for
	cursor  uint32
	begin   deadlines // one row: when the waiting ends, or gathering goes on

	rows   slab[solicitation]
	byRLOC map[lisp.RLOC]uint32
	timers deadlines
	sent   buckets[lisp.RLOC]
	total  bucket
}

func newSolicitor(h *host) *solicitor {
	return &solicitor{h: h, byRLOC: make(map[lisp.RLOC]uint32)}
}

// mappingsChanged notes what peers have to be told once it is registered, or when
// that takes too long; at sentAt the last Map-Register about it has gone that no
// Map-Notify answers.
func (s *solicitor) mappingsChanged(prefixes []lisp.Prefix, acknowledged bool, sentAt instant) {
	if len(prefixes) == 0 {
		return
	}
	s.changed = appendNew(s.changed, prefixes)
	at := max(sentAt, s.h.now) + instant(smrAfterRegister)
	if acknowledged {
		at = max(at, s.h.after(smrAfterNotify))
	}
	s.begin.set(0, at)
}

func appendNew(list, more []lisp.Prefix) []lisp.Prefix {
	for _, p := range more {
		if !slices.Contains(list, p) && len(list) < smrPrefixes {
			list = append(list, p)
		}
	}
	return list
}

// registered begins to tell the peers.
func (s *solicitor) registered() {
	if len(s.changed) == 0 {
		return
	}
	s.telling = appendNew(s.telling, s.changed)
	s.changed, s.cursor = nil, 0
	for _, rloc := range s.askers.list() {
		s.tell(rloc, s.telling)
	}
	s.gather()
}

// gather goes through the peers that we send to, a batch a turn.
func (s *solicitor) gather() {
	more := false
	if s.peers != nil {
		s.cursor, more = s.peers(s.cursor, func(rloc lisp.RLOC) { s.tell(rloc, s.telling) })
	}
	switch {
	case more:
		s.begin.set(0, s.h.now+1) // the next turn
	case len(s.changed) == 0:
		s.begin.remove(0)
	}
	if !more {
		s.telling = nil
	}
}

// handleBegin ends the waiting for Map-Notifies, or goes on gathering.
func (s *solicitor) handleBegin(uint32) {
	if len(s.changed) > 0 {
		s.registered()
		return
	}
	s.gather()
}

// tell queues SMRs to one peer.
func (s *solicitor) tell(rloc lisp.RLOC, prefixes []lisp.Prefix) {
	if _, ok := s.h.rlocOf(rloc.Is4()); !ok || slices.Contains(s.h.rlocs, rloc) {
		return
	}
	id, known := s.byRLOC[rloc]
	if !known {
		if len(s.byRLOC) >= s.h.limits.SMRPeers {
			s.h.count(RefusedSMRTable)
			return
		}
		id = s.rows.add(solicitation{rloc: rloc})
		s.byRLOC[rloc] = id
	}
	row := s.rows.at(id)
	for _, p := range prefixes {
		row.waiting = slices.DeleteFunc(row.waiting, func(w solicitedPrefix) bool { return w.prefix == p })
		if len(row.waiting) >= smrPrefixes {
			s.h.count(RefusedSMRTable)
			continue
		}
		row.waiting = append(row.waiting, solicitedPrefix{prefix: p, at: s.h.now})
	}
	s.order(id)
}

// outdated tells a peer whose packets carry an old Map-Version, unless it is being told
// (RFC 9302 s.7.1).
func (s *solicitor) outdated(rloc lisp.RLOC, prefix lisp.Prefix) {
	if id, known := s.byRLOC[rloc]; known &&
		slices.ContainsFunc(s.rows.at(id).waiting, func(w solicitedPrefix) bool { return w.prefix == prefix }) {
		return
	}
	s.tell(rloc, []lisp.Prefix{prefix})
}

// order sets when a peer is next written to, or forgets it when there is nothing
// more to say.
func (s *solicitor) order(id uint32) {
	row := s.rows.at(id)
	if len(row.waiting) == 0 {
		s.timers.remove(id)
		delete(s.byRLOC, row.rloc)
		s.rows.release(id)
		return
	}
	slices.SortStableFunc(row.waiting, func(a, b solicitedPrefix) int { return int(a.at - b.at) })
	s.timers.set(id, row.waiting[0].at)
}

// handleTimeout sends the next SMR to a peer, within the rates.
func (s *solicitor) handleTimeout(id uint32) {
	row := s.rows.at(id)
	total := s.total
	if !total.take(s.h.now, s.h.limits.SMRsTotal) {
		s.timers.set(id, s.h.now+s.h.limits.SMRsTotal.interval())
		return
	}
	if !s.sent.take(s.h.now, row.rloc, s.h.limits.SMRs, s.h.limits.RateTable) {
		s.timers.set(id, s.h.now+s.h.limits.SMRs.interval())
		return
	}
	s.total = total
	w := &row.waiting[0]
	s.send(row.rloc, w.prefix)
	if w.tries++; w.tries >= smrTries {
		row.waiting = row.waiting[1:]
	} else {
		w.at = s.h.after(smrInterval)
	}
	s.order(id)
}

// send sends one SMR, with D: nobody answers it with a Map-Reply. Its Source EID is
// one of the changed EID-Prefix, as RFC 6830 systems want it.
func (s *solicitor) send(rloc lisp.RLOC, changed lisp.Prefix) {
	own, ok := s.h.rlocOf(rloc.Is4())
	if !ok {
		return // the family went while the SMR waited
	}
	m := wire.MapRequest{
		SMR: true, DontReply: true, LocalXTR: true, Nonce: s.h.nonce(),
		SourceEID: wire.EIDAddress(changed.Instance(), changed.EID()), ITRRLOCs: []wire.Address{wire.RLOCAddress(own)},
		Records: []wire.RequestRecord{{EID: wire.AddressOf(changed), MaskLen: uint8(changed.Bits())}},
	}
	payload, err := m.AppendTo(nil)
	if err != nil {
		s.h.count(RefusedEncoding)
		return
	}
	to := netip.AddrPortFrom(rloc.Addr(), s.h.controlPort)
	s.h.send(netip.AddrPortFrom(own.Addr(), 0), to, payload)
	s.h.count(SMRSent)
	s.h.notice(Notice{Kind: NoticeSolicitMapRequestSent, Prefix: changed, Remote: to})
}

// asked notes who asked for a mapping of ours, and ends the SMRs that made it ask.
func (s *solicitor) asked(by lisp.RLOC, m *mapRequest, prefix lisp.Prefix) {
	s.askers.note(by, s.h.limits.SMRPeers)
	if !m.SMRInvoked {
		return
	}
	for _, rloc := range append([]lisp.RLOC{by}, m.itrRLOCs...) {
		id, known := s.byRLOC[rloc]
		if !known {
			continue
		}
		row := s.rows.at(id)
		row.waiting = slices.DeleteFunc(row.waiting, func(w solicitedPrefix) bool { return w.prefix.Overlaps(prefix) })
		s.order(id)
	}
}

// askers are the RLOCs that asked for our mappings, the recent ones: two generations
// of half the limit each.
type askers struct{ current, previous map[lisp.RLOC]struct{} }

func (a *askers) note(rloc lisp.RLOC, limit int) {
	if _, known := a.current[rloc]; known {
		return
	}
	if a.current == nil || len(a.current) >= max(limit/2, 1) {
		a.previous, a.current = a.current, make(map[lisp.RLOC]struct{})
	}
	a.current[rloc] = struct{}{}
}

// list is all of them in order.
func (a *askers) list() []lisp.RLOC {
	var all []lisp.RLOC
	for rloc := range a.current {
		all = append(all, rloc)
	}
	for rloc := range a.previous {
		if _, newer := a.current[rloc]; !newer {
			all = append(all, rloc)
		}
	}
	slices.SortFunc(all, lisp.RLOC.Compare)
	return all
}
