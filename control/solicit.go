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
	// smrAfterNotify is how long the Map-Notifies are waited for, smrAfterRegister
	// how long when no Map-Server sends any.
	smrAfterNotify   = time.Second
	smrAfterRegister = 20 * time.Millisecond
	// askerBatch bounds the peers that one turn looks at, besides those of the map-cache.
	askerBatch = 2048
	// askedPrefixes bounds what is remembered of what a peer asked for since it was told.
	askedPrefixes = 32
	// smrPlaces bounds the places of the news that are looked at for one peer at a time, among those that it is not told of.
	smrPlaces = 64
	// newsRest is how long nobody looks for room among the news after there was none.
	newsRest = 100 * time.Millisecond
	// usualSMROctets is enough for an SMR about an IPv6 EID-Prefix of any Instance-ID.
	usualSMROctets = 112
)

// peerSource gives the RLOCs that we recently sent packets to, a batch of them from
// a cursor on. more reports that there are further ones from next.
type peerSource func(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool)

// solicitation is what one peer is told: a range of the news, smrTries times over.
type solicitation struct {
	rloc     lisp.RLOC
	from, to uint64
	first    []lisp.Prefix // of these, what it is known to have asked for: told first
	place    uint64        // in the pass: first, then the range
	pass     int
	at       instant       // when the pass begins
	asked    []lisp.Prefix // what it was told and asked for
}

// solicitor sends SMRs.
type solicitor struct {
	h      *host
	peers  peerSource
	siteAt func(lisp.RLOC, lisp.Prefix) lisp.Prefix // by the map-cache: an EID-Prefix like that one of the site behind an RLOC, zero for none
	askers askers

	changed changedMappings // wait for their registration
	news    news            // what peers are told
	telling bool            // peers are being gathered for
	from    uint64          // the news since that number
	left    []lisp.RLOC     // askers that are still to be told
	cursor  uint32
	roomAt  instant   // when room for an outdated peer's EID-Prefix is looked for again
	begin   deadlines // one row: when the waiting ends, or gathering goes on

	rows   slab[solicitation]
	byRLOC map[lisp.RLOC]uint32
	timers deadlines
	sent   buckets[lisp.RLOC]
	total  bucket
}

// newSolicitor makes a solicitor without peers.
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
	for range s.changed.add(prefixes) {
		s.h.count(RefusedSMRTable)
	}
	at := max(sentAt, s.h.now) + instant(smrAfterRegister)
	if acknowledged {
		at = max(at, s.h.after(smrAfterNotify))
	}
	s.begin.set(0, at)
}

// registered begins to tell the peers.
func (s *solicitor) registered() {
	if len(s.changed.list) == 0 {
		return
	}
	from := s.publish(s.changed.list)
	if !s.telling {
		s.from = from
	}
	s.changed = changedMappings{}
	s.telling, s.cursor, s.left = true, 0, s.askers.list()
	s.gather()
}

// publish makes news of EID-Prefixes and returns the number of the first.
func (s *solicitor) publish(prefixes []lisp.Prefix) (from uint64) {
	if s.news.lacksRoom(len(prefixes)) {
		s.news.forget(s.earliest())
	}
	from = s.news.end()
	for range s.news.add(prefixes) {
		s.h.count(RefusedSMRTable)
	}
	return from
}

// earliest is the number of the first news that anybody is still to be told.
func (s *solicitor) earliest() uint64 {
	earliest := s.news.end()
	if s.telling {
		earliest = s.from
	}
	for _, id := range s.byRLOC {
		earliest = min(earliest, s.rows.at(id).from)
	}
	return earliest
}

// gather goes through the askers, then the peers that we send to, a batch a turn.
func (s *solicitor) gather() {
	batch := s.left[:min(len(s.left), askerBatch)]
	for _, rloc := range batch {
		s.tell(rloc, s.from, s.news.end())
	}
	s.left = s.left[len(batch):]
	more := len(s.left) > 0
	if !more && s.peers != nil {
		s.cursor, more = s.peers(s.cursor, func(rloc lisp.RLOC) { s.tell(rloc, s.from, s.news.end()) })
	}
	switch {
	case more:
		s.begin.set(0, s.h.now+1) // the next turn
		return
	case len(s.changed.list) == 0:
		s.begin.remove(0)
	}
	s.telling, s.left = false, nil
}

// handleBegin ends the waiting for Map-Notifies, or goes on gathering.
func (s *solicitor) handleBegin(uint32) {
	if len(s.changed.list) > 0 {
		s.registered()
		return
	}
	s.gather()
}

// tell queues SMRs about the news from one number up to another to one peer. One that is being told
// of others is told all from the beginning.
func (s *solicitor) tell(rloc lisp.RLOC, from, to uint64) {
	if _, ok := s.h.rlocOf(rloc.Is4()); !ok || slices.Contains(s.h.rlocs, rloc) {
		return
	}
	id, known := s.byRLOC[rloc]
	if !known {
		if len(s.byRLOC) >= s.h.limits.SMRPeers {
			s.h.count(RefusedSMRTable)
			return
		}
		id = s.rows.add(solicitation{rloc: rloc, from: from, to: to})
		s.byRLOC[rloc] = id
	}
	row := s.rows.at(id)
	row.from, row.to = min(row.from, from), max(row.to, to)
	row.place, row.pass, row.at, row.asked = 0, 0, s.h.now, nil
	isNew := func(p lisp.Prefix) bool { return s.news.has(p, row.from, row.to) }
	row.first = slices.DeleteFunc(s.askers.askedFor(rloc), func(p lisp.Prefix) bool { return !isNew(p) })
	s.timers.set(id, s.h.now)
}

// outdated tells a peer whose packets carry an old Map-Version, unless it is being told
// (RFC 9302 s.7.1). Then what it asked for has not reached it yet, and is told once more in the
// passes that follow. However many peers are told of an EID-Prefix, it is one of the news.
func (s *solicitor) outdated(rloc lisp.RLOC, prefix lisp.Prefix) {
	if id, known := s.byRLOC[rloc]; known {
		row := s.rows.at(id)
		if s.news.has(prefix, row.from, row.to) {
			row.asked = slices.DeleteFunc(row.asked, prefix.Overlaps)
			return
		}
	}
	number, listed := s.news.last[prefix]
	if !listed {
		if s.h.now < s.roomAt {
			s.h.count(RefusedSMRTable)
			return
		}
		if number = s.publish([]lisp.Prefix{prefix}); number == s.news.end() {
			s.roomAt = s.h.after(newsRest) // to go through all peers in vain takes a while
			return
		}
	}
	s.tell(rloc, number, number+1)
}

// step goes on to what the peer is told next. A zero EID-Prefix is none yet; ok is false where there is nothing more.
func (s *solicitor) step(row *solicitation) (p lisp.Prefix, ok bool) {
	for looked := 0; row.pass < smrTries; looked++ {
		switch {
		case row.place >= uint64(len(row.first))+row.to-row.from:
			row.pass, row.place = row.pass+1, 0
			row.at = max(row.at+instant(smrInterval), s.h.now)
			continue
		case looked >= smrPlaces:
			return lisp.Prefix{}, true
		}
		if p, ok = s.current(row); ok && !row.hasAsked(p) {
			return p, true
		}
		row.place++
	}
	return lisp.Prefix{}, false
}

// current is what stands at the peer's place; ok is false where that is told at another one.
func (s *solicitor) current(row *solicitation) (p lisp.Prefix, ok bool) {
	if row.place < uint64(len(row.first)) {
		return row.first[row.place], true
	}
	p, ok = s.news.at(row.from+row.place-uint64(len(row.first)), row.to)
	return p, ok && !slices.Contains(row.first, p)
}

func (row *solicitation) hasAsked(p lisp.Prefix) bool {
	return slices.ContainsFunc(row.asked, p.Overlaps)
}

// drop forgets a peer; without any there are no news.
func (s *solicitor) drop(id uint32) {
	s.timers.remove(id)
	delete(s.byRLOC, s.rows.at(id).rloc)
	s.rows.release(id)
	if len(s.byRLOC) == 0 && !s.telling {
		s.news.forget(s.news.end())
	}
}

// handleTimeout sends the next SMR to a peer, within the rates.
func (s *solicitor) handleTimeout(id uint32) {
	row := s.rows.at(id)
	p, ok := s.step(row)
	switch total := s.total; {
	case !ok:
		s.drop(id)
	case row.at > s.h.now:
		s.timers.set(id, row.at)
	case p.IsZero():
		s.timers.set(id, s.h.now+1) // the next turn
	case !total.take(s.h.now, s.h.limits.SMRsTotal):
		s.timers.set(id, s.h.now+s.h.limits.SMRsTotal.interval())
	case !s.sent.take(s.h.now, row.rloc, s.h.limits.SMRs, s.h.limits.RateTable):
		s.timers.set(id, s.h.now+s.h.limits.SMRs.interval())
	default:
		s.total = total
		s.send(row.rloc, p)
		row.place++
		s.order(id)
	}
}

// order sets when a peer is next written to, or forgets it when there is nothing more to say.
func (s *solicitor) order(id uint32) {
	row := s.rows.at(id)
	p, ok := s.step(row)
	switch {
	case !ok:
		s.drop(id)
	case p.IsZero():
		s.timers.set(id, max(row.at, s.h.now+1)) // the next turn
	default:
		s.timers.set(id, max(row.at, s.h.now))
	}
}

// send sends one SMR, with D: nobody answers it with a Map-Reply. RFC 9301 systems look for what changed in the record. Cisco's and
// OpenOverlayRouter look for an EID-Prefix of their own there, and for what changed in the Source EID. A Map-Request has one record
// (RFC 9301 s.5.2), so an SMR is two of them, with one nonce, where an EID-Prefix of the receiver is known.
func (s *solicitor) send(rloc lisp.RLOC, changed lisp.Prefix) {
	own, ok := s.h.rlocOf(rloc.Is4())
	if !ok {
		return // the family went while the SMR waited
	}
	m := wire.MapRequest{SMR: true, DontReply: true, LocalXTR: true, Nonce: s.h.nonce()}
	to := netip.AddrPortFrom(rloc.Addr(), s.h.controlPort)
	for _, named := range []lisp.Prefix{changed, s.receiver(rloc, changed)} {
		if named.IsZero() {
			continue
		}
		m.Ask(changed.EID(), []lisp.RLOC{own}, named)
		payload, err := m.AppendTo(s.h.room(usualSMROctets))
		if err != nil {
			s.h.count(RefusedEncoding)
			return
		}
		s.h.send(netip.AddrPortFrom(own.Addr(), 0), to, s.h.used(payload))
	}
	s.h.count(SMRSent)
	s.h.notice(Notice{Kind: NoticeSolicitMapRequestSent, Prefix: changed, Remote: to})
}

// receiver is an EID-Prefix of the site behind an RLOC, of the Instance-ID and family of what changed; zero where none is known.
func (s *solicitor) receiver(rloc lisp.RLOC, changed lisp.Prefix) (site lisp.Prefix) {
	if s.siteAt != nil {
		site = s.siteAt(rloc, changed)
	}
	if site.IsZero() {
		site = s.askers.siteAt(rloc, changed)
	}
	if site.Overlaps(changed) {
		return lisp.Prefix{} // it is in front of ours: no EID-Prefix of the receiver alone
	}
	return site
}

// asked notes who asked for a mapping of ours, and ends the SMRs that made it ask.
func (s *solicitor) asked(by lisp.RLOC, m *mapRequest, prefix lisp.Prefix) {
	s.askers.note(by, asking{prefix, m.site(prefix)}, s.h.limits.SMRPeers)
	if !m.SMRInvoked {
		return
	}
	for _, rloc := range append([]lisp.RLOC{by}, m.itrRLOCs...) {
		id, known := s.byRLOC[rloc]
		if !known {
			continue
		}
		row := s.rows.at(id)
		if len(row.asked) < askedPrefixes {
			row.asked = append(row.asked, prefix)
		}
		s.order(id)
	}
}
