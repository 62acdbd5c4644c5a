// SPDX-License-Identifier: Apache-2.0

package mapserver

// Map-Registers: checked against the tables, taken, acknowledged (RFC 9301 s.5.6, s.5.7).

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// HandleMapRegister takes the records of a Map-Register that nothing stands against, and
// acknowledges those when asked to (RFC 9301 s.5.6, s.5.7).
func (s *MapServer) HandleMapRegister(m *message.MapRegister) {
	site := s.Registrations.Sites.Named(m.Site)
	if site == nil {
		s.h.Count(counter.RefusedUnknownSite)
		return
	}
	if refused := s.checkRate(site); refused != nil {
		s.refuse(m, refused)
		s.Refusals.others.note(&s.Refusals, m.From, refused)
		return
	}
	fresh, refused := s.checkNonce(site, m)
	if refused != nil {
		s.Refusals.noteRefusedMessage(m.From, m.Site, s.refuse(m, refused), refused)
		return
	}
	who := registrantOf(m)
	places := s.siftRecords(site, m, who)
	for _, r := range m.Refused {
		s.refuseRecord(m, r)
		s.Refusals.noteRefusedRecord(m.From, m.Site, r.Prefix, r.Why)
	}
	if len(m.Mappings) == 0 {
		return
	}
	s.h.Count(counter.MapRegisterReceived)
	to := s.acknowledgeTo(m, who, places)
	if fresh {
		s.takeAll(site, m, who, places)
	}
	if m.WantMapNotify && (fresh || !s.Infos.isRelayed(m) || s.awaitsNotify(m, who, places)) {
		s.acknowledge(m, to)
	}
}

// refuse refuses a Map-Register as a whole, and names an EID-Prefix in it.
func (s *MapServer) refuse(m *message.MapRegister, why *message.Refusal) lisp.Prefix {
	r := message.RefusedRecord{Why: why}
	if len(m.Mappings) > 0 {
		r.Prefix = m.Mappings[0].Prefix
	}
	s.refuseRecord(m, r)
	return r.Prefix
}

func (s *MapServer) refuseRecord(m *message.MapRegister, r message.RefusedRecord) {
	reason := r.Why.Reason
	s.h.Count(reason)
	s.h.NoticeRefusal(effect.Notice{Kind: effect.NoticeRegistrationRefused, Prefix: r.Prefix, Remote: m.From, Site: m.Site,
		Reason: reason.Reason(), Detail: r.Why.Err.Error()})
}

// checkNonce reports whether the message is new. An exact duplicate is no replay:
// its Map-Notify may have been lost (RFC 9301 s.5.6). Nonces grow under each key of an
// xTR apart, because who cannot store his takes a new key. To a key that it left, as in a
// rotation, an xTR comes back only with a nonce above those under the key that it left it
// for: a message that was lost under the old one would take it back.
func (s *MapServer) checkNonce(site *siteState, m *message.MapRegister) (fresh bool, refused *message.Refusal) {
	if site.Config.AcceptAnyNonce {
		return true, nil
	}
	seen, known := site.Nonces[nonceKeyOf(m)]
	switch {
	case !known && len(site.Nonces) >= s.h.Limits.ReplayEntriesPerSite:
		return false, message.Refuse(counter.RefusedReplayTable, "the site has registered with %d xTR-IDs and keys", len(site.Nonces))
	case !known:
		return true, nil
	case m.Nonce > seen.Nonce:
		since, left := site.sinceLeft(nonceKeyOf(m))
		if left && m.Nonce <= since {
			return false, message.Refuse(counter.RefusedReplay, "nonce 0x%016x with key %d, which the xTR left for another one; the last one was 0x%016x", m.Nonce, m.KeyID, since)
		}
		return true, nil
	case seenOf(m) == seen:
		return false, nil
	}
	return false, message.Refuse(counter.RefusedReplay, "nonce 0x%016x, the last one was 0x%016x", m.Nonce, seen.Nonce)
}

// siftRecords refuses the records that the tables stand against, and returns the places of those that are left.
func (s *MapServer) siftRecords(site *siteState, m *message.MapRegister, who RegistrantID) []Place {
	added, places := 0, s.Registrations.places[:0]
	m.Sift(func(mapping lisp.Mapping) (refused *message.Refusal) {
		at := s.Registrations.PlaceOf(mapping.Prefix)
		switch {
		case mapping.TTLMinutes == 0:
		case at.known:
			refused = s.checkRegistrant(at.row, m, who, mapping)
		default:
			if refused = s.Registrations.checkSizes(&s.h.Limits, site, added+1); refused == nil {
				added++
			}
		}
		if refused == nil {
			places = append(places, at)
		}
		return refused
	})
	s.Registrations.places = places
	return places
}

// duplicateLasts is how long after a Map-Register that an RTR relayed a duplicate is acknowledged again. A later one
// is a replay, and so is one by another RTR: an RTR that lost its bindings in between, or has not seen that
// Map-Register, would forward the node's packets to where the replay comes from.
const duplicateLasts = settings.NATPendingLast

// awaitsNotify reports whether a router registered something of that by the same RTR, so lately that it may await the
// Map-Notify still.
func (s *MapServer) awaitsNotify(m *message.MapRegister, who RegistrantID, places []Place) bool {
	return slices.ContainsFunc(places, func(at Place) bool {
		if !at.known {
			return false
		}
		r := s.Registrations.find(at.row, who)
		return r != nil && s.Registrations.Xtrs.At(r.XTR).From.Addr() == m.From.Addr() &&
			s.h.Now-r.LastAt < timing.Instant(duplicateLasts)
	})
}

func (s *MapServer) checkRegistrant(
	row *Registration, m *message.MapRegister, who RegistrantID, mapping lisp.Mapping,
) *message.Refusal {
	t := &s.Registrations
	if t.find(row, who) == nil && t.Count(row) >= s.h.Limits.RegistrantsPerPrefix {
		return message.Refuse(counter.RefusedRegistrants, "%d xTRs have registered %s", t.Count(row), mapping.Prefix)
	}
	if newest := t.newestVersion(row); lisp.CompareMapVersions(mapping.Version, newest) < 0 {
		return message.Refuse(counter.RefusedVersion, "Map-Version %d of %s, %d is registered", mapping.Version, mapping.Prefix, newest)
	}
	if !m.MergeRequest {
		return nil
	}
	if err := t.mergeable(row, who, mapping.Locators); err != nil {
		return message.Refuse(counter.RefusedLocators, "%s: %w", mapping.Prefix, err)
	}
	return nil
}

// takeAll takes the records of a Map-Register, each at its place.
func (s *MapServer) takeAll(site *siteState, m *message.MapRegister, who RegistrantID, places []Place) {
	site.Saw(nonceKeyOf(m), seenOf(m))
	s.Refusals.registered(m.From.Addr(), s.h.Now)
	x := xtrOf(m, who)
	id := s.Registrations.Xtrs.Acquire(x)
	for i := range m.Mappings {
		s.take(site, m, record{m.Mappings[i], places[i]}, id)
		s.Refusals.accepted(m.From.Addr(), m.Site, m.Mappings[i].Prefix)
		s.translated.note(m.Mappings[i].Prefix, isTranslated(m.Mappings[i].Locators, m.From.Addr()))
	}
	s.Registrations.Xtrs.Release(id)
	s.journalRegister(site, m, x)
}

// record is one of a Map-Register, and where it is registered.
type record struct {
	lisp.Mapping
	at Place
}

// take takes one record; TTL 0 withdraws.
func (s *MapServer) take(site *siteState, m *message.MapRegister, r record, xtr uint32) {
	n := effect.Notice{Prefix: r.Prefix, Remote: m.From, Site: m.Site}
	at := s.Registrations.renewed(r.at, r.Prefix)
	if r.TTLMinutes == 0 {
		s.withdraw(at, xtr, n)
		return
	}
	s.h.Count(counter.RegistrationAccepted)
	rtrs := s.departures.rtrsAt(at)
	id, fresh, changed := s.Registrations.Put(at, site, r.Mapping, Registrant{
		XTR: xtr, FirstAt: s.h.Now, LastAt: s.h.Now, ExpiresAt: s.h.After(s.lifetime(m.UseTTL, r.TTLMinutes)),
	})
	if s.Infos.isRelayed(m) {
		s.Registrations.replaceDirect(r.Mapping)
	}
	if !fresh && !changed {
		return
	}
	n.Kind = effect.NoticeRegistrationChanged
	if fresh {
		n.Kind = effect.NoticeRegistered
	}
	if s.h.MayNotice() {
		n.Detail = r.Mapping.String()
		s.h.Say(n)
	}
	if changed {
		s.Notifier.changed(s.Registrations.Rows.At(id), s.Registrations.Xtrs.At(xtr).ID)
		// A router behind a NAT begins with its private RLOCs, and comes back to its RTR.
		if !isTranslated(r.Mapping.Locators, m.From.Addr()) {
			s.departures.tell(rtrs, s.Registrations.Rows.At(id))
		}
	}
}

// withdraw takes out what an xTR registered; n is the start of its notice.
func (s *MapServer) withdraw(at Place, xtr uint32, n effect.Notice) {
	who := s.Registrations.Xtrs.At(xtr).ID
	found, gone, changed := s.Registrations.removeAt(at, who)
	if !found {
		return
	}
	s.h.Count(counter.RegistrationWithdrawn)
	n.Kind = effect.NoticeRegistrationWithdrawn
	s.h.Notice(n)
	if changed && !gone {
		s.Notifier.changed(at.row, who)
	}
}

// acknowledgeTo is where the Map-Notify goes: to the control port, whatever port the Map-Register came from (RFC 9301
// s.8.2). By simple-nat it goes to that port, for the NAT lets nothing else in. A withdrawal has no locators that say
// so: what is registered does. Where that is gone, with a Map-Notify that was lost, it goes to both.
func (s *MapServer) acknowledgeTo(m *message.MapRegister, who RegistrantID, places []Place) []netip.AddrPort {
	direct := netip.AddrPortFrom(m.From.Addr(), s.h.ControlPort)
	unknown := false
	for i, mapping := range m.Mappings {
		set := mapping.Locators
		if mapping.TTLMinutes == 0 {
			set = s.registeredSet(places[i], who)
			unknown = unknown || set == nil
		}
		if isBehindNAT(lisp.Mapping{Locators: set}) {
			return []netip.AddrPort{m.From}
		}
	}
	if unknown && m.From != direct {
		return []netip.AddrPort{direct, m.From}
	}
	return []netip.AddrPort{direct}
}

// registeredSet is what an xTR has registered, nil for nothing.
func (s *MapServer) registeredSet(at Place, who RegistrantID) lisp.LocatorSet {
	if !at.known {
		return nil
	}
	r := s.Registrations.find(at.row, who)
	if r == nil {
		return nil
	}
	return s.Registrations.Sets.At(r.Content.Locators)
}

// acknowledge sends the Map-Notify, with a MAC of the length received.
func (s *MapServer) acknowledge(m *message.MapRegister, to []netip.AddrPort) {
	if !s.h.MayNotify(m.From.Addr()) {
		return
	}
	notify := &wire.MapNotify{
		Nonce: m.Nonce, KeyID: m.KeyID, AlgorithmID: m.AlgorithmID,
		Authentication: make([]byte, len(m.Authentication)), Records: m.Records,
	}
	// an RTR and the ETR behind it know each other by it (draft-ermagan-lisp-nat-traversal s.4.4)
	if s.Infos.isRelayed(m) {
		notify.XTRIDPresent, notify.XTRID, notify.SiteID = m.XTRIDPresent, m.XTRID, m.SiteID
	}
	buffer := s.h.Buffer(system.UsualSignedOctets + len(m.Records)*system.UsualRecordOctets)
	payload, err := s.Infos.appendNotify(buffer, m, notify)
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	if m.Relayed != nil {
		s.Infos.acknowledgeByRTR(m, s.h.Used(payload))
		return
	}
	payload = s.h.Used(payload)
	for _, a := range to {
		s.h.Send(s.h.AnswerFrom(m.Local), a, payload)
		s.h.Count(counter.MapNotifySent)
	}
}

// HandleTimeout ends what was not refreshed.
func (s *MapServer) HandleTimeout(id uint32) {
	row := s.Registrations.Rows.At(id)
	prefix, site := row.Prefix, s.Registrations.SiteOf(row).Config.Name
	expired, gone, changed := s.Registrations.expire(id, s.h.Now)
	if expired == 0 {
		return // it was refreshed
	}
	if changed && !gone {
		s.Notifier.changed(row, RegistrantID{})
	}
	s.h.Count(counter.RegistrationExpired)
	n := effect.Notice{Kind: effect.NoticeRegistrationExpired, Prefix: prefix, Site: site}
	if !gone {
		n.Detail = "of one xTR; others remain"
	}
	s.h.Notice(n)
}

// checkRate refuses Map-Registers beyond the site's own rate. Its ETR sends it again.
func (s *MapServer) checkRate(site *siteState) *message.Refusal {
	rate := site.Config.Policy.MapRegisters
	if rate == (timing.Rate{}) || site.registers.Take(s.h.Now, rate) {
		return nil
	}
	return message.Refuse(counter.RefusedSiteRate, "more than %v Map-Registers a second, %d at once", rate.PerSecond, rate.Burst)
}
