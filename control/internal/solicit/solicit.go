// SPDX-License-Identifier: Apache-2.0

package solicit

// Sending Solicit-Map-Requests when a mapping of ours changed (RFC 9301 s.6.1): to
// the locators of the mappings that we recently forwarded by, to those who asked
// for ours, and to the hops of the paths that ours had. The new mapping is registered first, because the answer to an SMR comes
// from the mapping system. SMRs are not acknowledged, so each is sent a few times,
// unless its receiver is seen to ask. It never sends a mapping.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// SMRTries of one SMR, SMRInterval apart: the RECOMMENDED distance.
	SMRTries    = 3
	SMRInterval = 3 * time.Second // between two tries
	// smrAfterNotify is how long the Map-Notifies are waited for, smrAfterRegister
	// how long when no Map-Server sends any.
	smrAfterNotify   = time.Second
	smrAfterRegister = 20 * time.Millisecond
	// AskerBatch bounds the peers of one event-loop iteration, besides those of the map-cache.
	AskerBatch = 2048
	// askedPrefixes bounds what is remembered of what a peer asked for since it was told.
	askedPrefixes = 32
	// smrPlaces bounds the places of the news that are looked at for one peer at a time, among those that it is not told of.
	smrPlaces = 64
	// maxHops bounds the hops of own paths that are told of their change.
	maxHops = 256
	// NewsRest is how long the list of news counts as full after it was.
	NewsRest = 100 * time.Millisecond
	// usualSMROctets is enough for an SMR about an IPv6 EID-Prefix of any Instance-ID.
	usualSMROctets = 112
)

// peerSource gives the RLOCs that we recently sent packets to, a batch of them from
// a cursor on. more reports that there are further ones from next.
type peerSource func(cursor uint32, yield func(lisp.RLOC)) (next uint32, more bool)

// solicitation is what one peer is told: a range of the news, SMRTries times over.
type solicitation struct {
	rloc     lisp.RLOC
	from, to uint64
	first    []lisp.Prefix // of these, what it is known to have asked for: told first
	Place    uint64        // in the pass: first, then the range
	Pass     int
	at       timing.Instant // when the pass begins
	Asked    []lisp.Prefix  // what it was told and asked for
}

// Solicitor sends SMRs.
type Solicitor struct {
	h      *system.System
	Peers  peerSource
	SiteAt func(lisp.RLOC, lisp.Prefix) lisp.Prefix // by the map-cache: an EID-Prefix like that one of the site behind an RLOC, zero for none
	Askers Askers

	Changed ChangedMappings // wait for their registration
	News    News            // what peers are told
	Telling bool            // peers are being gathered for
	from    uint64          // the news since that number
	left    []lisp.RLOC     // askers, and hops of our paths, that are still to be told
	hops    []lisp.RLOC     // of paths of ours that changed
	cursor  uint32
	roomAt  timing.Instant // until when the list of news counts as full
	Begin   batch.Work     // when the waiting ends, or gathering goes on

	Rows   table.Slab[solicitation]
	ByRLOC map[lisp.RLOC]uint32
	Timers timing.Deadlines
	sent   timing.Buckets[lisp.RLOC]
	total  timing.Bucket
}

// New makes a solicitor without peers.
func New(h *system.System) *Solicitor {
	return &Solicitor{h: h, ByRLOC: make(map[lisp.RLOC]uint32)}
}

// MappingsChanged notes what peers have to be told once it is registered, or when
// that takes too long; at SentAt the last Map-Register about it has gone that no
// Map-Notify answers.
func (s *Solicitor) MappingsChanged(prefixes []lisp.Prefix, acknowledged bool, sentAt timing.Instant) {
	if len(prefixes) == 0 {
		return
	}
	for range s.Changed.Add(prefixes) {
		s.h.Count(counter.RefusedSMRTable)
	}
	at := max(sentAt, s.h.Now) + timing.Instant(smrAfterRegister)
	if acknowledged {
		at = max(at, s.h.After(smrAfterNotify))
	}
	s.Begin.At(at)
}

// Registered begins to tell the peers.
func (s *Solicitor) Registered() {
	if len(s.Changed.List) == 0 {
		return
	}
	from := s.Publish(s.Changed.List)
	if !s.Telling {
		s.from = from
	}
	s.Changed = ChangedMappings{}
	s.Telling, s.cursor, s.left = true, 0, append(s.Askers.List(), s.hops...)
	s.gather()
}

// Publish makes news of EID-Prefixes and returns the number of the first.
func (s *Solicitor) Publish(prefixes []lisp.Prefix) (from uint64) {
	if s.News.LacksRoom(len(prefixes)) {
		s.News.Forget(s.earliest())
	}
	from = s.News.End()
	for range s.News.Add(prefixes) {
		s.h.Count(counter.RefusedSMRTable)
	}
	return from
}

// earliest is the number of the first news that a peer is still to be told.
func (s *Solicitor) earliest() uint64 {
	earliest := s.News.End()
	if s.Telling {
		earliest = s.from
	}
	for _, id := range s.ByRLOC {
		earliest = min(earliest, s.Rows.At(id).from)
	}
	return earliest
}

// gather goes through the askers, then the peers that we send to, a batch per event-loop iteration.
func (s *Solicitor) gather() {
	if !s.Begin.Run(s.h.Now, AskerBatch, s.gatherStep) {
		s.Telling, s.left = false, nil
		if len(s.Changed.List) == 0 {
			s.hops = nil
		}
	}
}

// HopsOf notes the hops of the paths that a mapping of ours had: they relay packets of our peers, and a Map-Server that answers for us
// does not tell who they are. The last hop is an xTR of the site.
func (s *Solicitor) HopsOf(set lisp.LocatorSet) {
	for i := range set {
		path := set[i].Path()
		for at := range path.Len() - 1 {
			if hop := lisp.RLOCFromAddr(path.Hop(at).Addr()); len(s.hops) < maxHops && !slices.Contains(s.hops, hop) {
				s.hops = append(s.hops, hop)
			}
		}
	}
}

// gatherStep tells the next asker, or behind the last one a batch of peers.
func (s *Solicitor) gatherStep() (cost int, more bool) {
	if len(s.left) > 0 {
		s.Tell(s.left[0], s.from, s.News.End())
		s.left = s.left[1:]
		return 1, len(s.left) > 0 || s.Peers != nil
	}
	if s.Peers != nil {
		s.cursor, more = s.Peers(s.cursor, func(rloc lisp.RLOC) { s.Tell(rloc, s.from, s.News.End()) })
	}
	return AskerBatch, more
}

// HandleBegin ends the waiting for Map-Notifies, or goes on gathering.
func (s *Solicitor) HandleBegin() {
	if len(s.Changed.List) > 0 {
		s.Registered()
		return
	}
	s.gather()
}

// Tell queues SMRs about the news from one number up to another to one peer. One that is being told
// of others is told all from the beginning.
func (s *Solicitor) Tell(rloc lisp.RLOC, from, to uint64) {
	if _, ok := s.h.RLOCOf(rloc.Is4()); !ok || slices.Contains(s.h.RLOCs, rloc) {
		return
	}
	id, known := s.ByRLOC[rloc]
	if !known {
		if len(s.ByRLOC) >= s.h.Limits.SMRPeers {
			s.h.Count(counter.RefusedSMRTable)
			return
		}
		id = s.Rows.Add(solicitation{rloc: rloc, from: from, to: to})
		s.ByRLOC[rloc] = id
	}
	row := s.Rows.At(id)
	row.from, row.to = min(row.from, from), max(row.to, to)
	row.Place, row.Pass, row.at, row.Asked = 0, 0, s.h.Now, nil
	isNew := func(p lisp.Prefix) bool { return s.News.Has(p, row.from, row.to) }
	row.first = slices.DeleteFunc(s.Askers.AskedFor(rloc), func(p lisp.Prefix) bool { return !isNew(p) })
	s.Timers.Set(id, s.h.Now)
}

// Outdated tells a peer whose packets carry an old Map-Version, unless it is being told
// (RFC 9302 s.7.1). Then what it asked for has not reached it yet, and is told once more in the
// passes that follow. However many peers are told of an EID-Prefix, it is one of the news.
func (s *Solicitor) Outdated(rloc lisp.RLOC, prefix lisp.Prefix) {
	if id, known := s.ByRLOC[rloc]; known {
		row := s.Rows.At(id)
		if s.News.Has(prefix, row.from, row.to) {
			row.Asked = slices.DeleteFunc(row.Asked, prefix.Overlaps)
			return
		}
	}
	number, listed := s.News.Last[prefix]
	if !listed {
		if s.h.Now < s.roomAt {
			s.h.Count(counter.RefusedSMRTable)
			return
		}
		if number = s.Publish([]lisp.Prefix{prefix}); number == s.News.End() {
			s.roomAt = s.h.After(NewsRest) // to go through all peers in vain takes a while
			return
		}
	}
	s.Tell(rloc, number, number+1)
}

// step goes on to what the peer is told next. A zero EID-Prefix is none yet; ok is false where there is nothing more.
func (s *Solicitor) step(row *solicitation) (p lisp.Prefix, ok bool) {
	for looked := 0; row.Pass < SMRTries; looked++ {
		switch {
		case row.Place >= uint64(len(row.first))+row.to-row.from:
			row.Pass, row.Place = row.Pass+1, 0
			row.at = max(row.at+timing.Instant(SMRInterval), s.h.Now)
			continue
		case looked >= smrPlaces:
			return lisp.Prefix{}, true
		}
		if p, ok = s.current(row); ok && !row.hasAsked(p) {
			return p, true
		}
		row.Place++
	}
	return lisp.Prefix{}, false
}

// current is what stands at the peer's place; ok is false where that is told at another one.
func (s *Solicitor) current(row *solicitation) (p lisp.Prefix, ok bool) {
	if row.Place < uint64(len(row.first)) {
		return row.first[row.Place], true
	}
	p, ok = s.News.At(row.from+row.Place-uint64(len(row.first)), row.to)
	return p, ok && !slices.Contains(row.first, p)
}

func (row *solicitation) hasAsked(p lisp.Prefix) bool {
	return slices.ContainsFunc(row.Asked, p.Overlaps)
}

// Drop forgets a peer; without any there are no news.
func (s *Solicitor) Drop(id uint32) {
	s.Timers.Remove(id)
	delete(s.ByRLOC, s.Rows.At(id).rloc)
	s.Rows.Release(id)
	if len(s.ByRLOC) == 0 && !s.Telling {
		s.News.Forget(s.News.End())
	}
}

// HandleTimeout sends the next SMR to a peer, within the rates.
func (s *Solicitor) HandleTimeout(id uint32) {
	row := s.Rows.At(id)
	p, ok := s.step(row)
	switch total := s.total; {
	case !ok:
		s.Drop(id)
	case row.at > s.h.Now:
		s.Timers.Set(id, row.at)
	case p.IsZero():
		s.Timers.Set(id, s.h.Now+1) // the next event-loop iteration
	case !total.Take(s.h.Now, s.h.Limits.SMRsTotal):
		s.Timers.Set(id, s.h.Now+s.h.Limits.SMRsTotal.Interval())
	case !s.sent.Take(s.h.Now, row.rloc, s.h.Limits.SMRs, s.h.Limits.RateTable):
		s.Timers.Set(id, s.h.Now+s.h.Limits.SMRs.Interval())
	default:
		s.total = total
		s.send(row.rloc, p)
		row.Place++
		s.order(id)
	}
}

// order sets when a peer is next written to, or forgets it when there is nothing more to say.
func (s *Solicitor) order(id uint32) {
	row := s.Rows.At(id)
	p, ok := s.step(row)
	switch {
	case !ok:
		s.Drop(id)
	case p.IsZero():
		s.Timers.Set(id, max(row.at, s.h.Now+1)) // the next event-loop iteration
	default:
		s.Timers.Set(id, max(row.at, s.h.Now))
	}
}

// send sends one SMR, with D: it gets no Map-Reply. RFC 9301 systems look for what changed in the record. Cisco's and
// OpenOverlayRouter look for an EID-Prefix of their own there, and for what changed in the Source EID. A Map-Request has one record
// (RFC 9301 s.5.2), so an SMR is two of them, with one nonce, where an EID-Prefix of the receiver is known.
func (s *Solicitor) send(rloc lisp.RLOC, changed lisp.Prefix) {
	own, ok := s.h.RLOCOf(rloc.Is4())
	if !ok {
		return // the family went while the SMR waited
	}
	m := wire.MapRequest{SMR: true, DontReply: true, LocalXTR: true, Nonce: s.h.Nonce()}
	to := netip.AddrPortFrom(rloc.Addr(), s.h.ControlPort)
	for _, named := range []lisp.Prefix{changed, s.receiver(rloc, changed)} {
		if named.IsZero() {
			continue
		}
		m.Ask(changed.EID(), []lisp.RLOC{own}, named)
		payload, err := m.AppendTo(s.h.Buffer(usualSMROctets))
		if err != nil {
			s.h.Count(counter.RefusedEncoding)
			return
		}
		s.h.Send(netip.AddrPortFrom(own.Addr(), 0), to, s.h.Used(payload))
	}
	s.h.Count(counter.SMRSent)
	s.h.Notice(effect.Notice{Kind: effect.NoticeSolicitMapRequestSent, Prefix: changed, Remote: to})
}

// receiver is an EID-Prefix of the site behind an RLOC, of the Instance-ID and family of what changed; zero where none is known.
func (s *Solicitor) receiver(rloc lisp.RLOC, changed lisp.Prefix) (site lisp.Prefix) {
	if s.SiteAt != nil {
		site = s.SiteAt(rloc, changed)
	}
	if site.IsZero() {
		site = s.Askers.siteAt(rloc, changed)
	}
	if site.Overlaps(changed) {
		return lisp.Prefix{} // it is in front of ours: no EID-Prefix of the receiver alone
	}
	return site
}

// Asked notes who asked for a mapping of ours, and ends the SMRs that made it ask.
func (s *Solicitor) Asked(by lisp.RLOC, m *message.MapRequest, prefix lisp.Prefix) {
	s.Askers.Note(by, Asking{prefix, m.Site(prefix)}, s.h.Limits.SMRPeers)
	if !m.SMRInvoked {
		return
	}
	for _, rloc := range append([]lisp.RLOC{by}, m.ReplyRLOCs...) {
		id, known := s.ByRLOC[rloc]
		if !known {
			continue
		}
		row := s.Rows.At(id)
		if len(row.Asked) < askedPrefixes {
			row.Asked = append(row.Asked, prefix)
		}
		s.order(id)
	}
}
