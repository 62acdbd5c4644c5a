// SPDX-License-Identifier: Apache-2.0

package control

// The Map-Server: takes registrations and answers or forwards Map-Requests for
// them (RFC 9301 s.5.6, s.5.7, s.8.2, s.8.3). Messages arrive authenticated, and
// with EID-Prefixes that their site may register. It never sends anything about an
// EID that is not configured, but that it is nobody's.

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

// mapServer is the role with its tables.
type mapServer struct {
	h             *host
	config        *MapServerConfig
	prefixes      prefixTable[ownedPrefix] // of all sites
	registrations registrations
	notifier      *notifier
	journal       journal
	choice        etrChoice
	answer        []lisp.Mapping // of a Map-Reply under way; its memory is used again
	completeAt    instant        // one registration interval after the start: who registers here has done so
}

// registrationsLast is how many registration intervals a registration lasts (RFC 9301 s.8.2: one minute, three minutes).
const registrationsLast = 3

// newMapServer makes a Map-Server without sites.
func newMapServer(h *host) *mapServer {
	s := &mapServer{h: h, config: &MapServerConfig{}, journal: journal{h: h}}
	s.notifier = newNotifier(h, &s.registrations)
	return s
}

// configure takes over another configuration. Registrations that it does not allow
// any more end; the others, and the nonces seen, stay.
func (s *mapServer) configure(c *MapServerConfig, prefixes prefixTable[ownedPrefix], sites map[string]int) {
	s.config, s.prefixes, s.journal.on = c, prefixes, c.Journal
	s.registrations.sites.configure(c.Sites, sites)
	if s.completeAt == 0 {
		s.completeAt = s.h.after(c.RegistrationTimeout / registrationsLast)
	}
	s.notifier.keep()
	s.startSweep()
}

// allows reports whether the configuration lets a site register an EID-Prefix.
func (s *mapServer) allows(p lisp.Prefix, site *siteState) bool {
	match, owner, ok := s.prefixes.longest(p)
	return ok && (match == p || owner.moreSpecifics) && s.siteAt(owner) == site
}

// siteAt is the site that owns a configured EID-Prefix.
func (s *mapServer) siteAt(owner ownedPrefix) *siteState {
	return s.registrations.sites.at(owner.site)
}

// denyUnknown says of an EID that no configured EID-Prefix has that it is nobody's.
func (s *mapServer) denyUnknown(m *mapRequest, asked lisp.Prefix) {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	s.h.replyNegative(m, leastSpecificHole(host, 0, s.prefixes.overlaps), negativeTTLMinutes)
}

// handleMapRequest answers for one EID-Prefix of owner's, in the order of RFC 9301 s.8.3.
func (s *mapServer) handleMapRequest(m *mapRequest, asked lisp.Prefix, owner ownedPrefix) {
	configured, site := owner.prefix, s.siteAt(owner)
	if s.deny(m, asked, configured, site) {
		return
	}
	row, ok := s.registered(asked, configured, site, m.foreseen)
	switch {
	case !ok:
		s.replyUnregistered(m, s.unregisteredHole(asked, configured), site)
	case s.answers(row) && !m.Authoritative: // A: the site itself shall answer
		s.replyForSite(m, asked, row, owner)
	default:
		s.forward(m, asked, row)
	}
}

// registered finds the registration to use. One that is less specific than the
// configured EID-Prefix counts only if it is of the same site: another site's
// aggregate says nothing about this one.
func (s *mapServer) registered(asked, configured lisp.Prefix, site *siteState, known foreseen) (*registration, bool) {
	id, ok := s.registrations.nearest(asked, known)
	if !ok {
		return nil, false
	}
	row := s.registrations.rows.at(id)
	if s.sweeping() && s.dropDisallowed(id) {
		return s.registered(asked, configured, site, foreseen{}) // what is less specific, if anything
	}
	return row, row.prefix.Bits() >= configured.Bits() || row.site == site.id
}

// unregisteredHole is the part of a configured EID-Prefix around the asked EID that
// neither is registered nor belongs to a more specific configured one.
func (s *mapServer) unregisteredHole(asked, configured lisp.Prefix) lisp.Prefix {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	return leastSpecificHole(host, configured.Bits(), func(p lisp.Prefix) bool {
		return s.prefixes.holds(p, configured) || s.registrations.index.holds(p, lisp.Prefix{})
	})
}

// answers reports whether the Map-Server answers for the ETRs of a registration.
func (s *mapServer) answers(row *registration) bool {
	switch s.registrations.siteOf(row).config.ProxyReply {
	case ProxyReplyAlways:
		return true
	case ProxyReplyNever:
		return false
	}
	return row.proxyReply
}

// replyForSite answers with what was registered, and with every more specific
// registration; where an ETR answers for one of those itself, the answer is
// narrowed to leave it out (RFC 9301 s.5.5, s.8.3).
func (s *mapServer) replyForSite(m *mapRequest, asked lisp.Prefix, row *registration, owner ownedPrefix) {
	best := row.prefix
	alone := !owner.wide && best.Bits() >= owner.prefix.Bits() // nothing more specific is configured
	all := append(s.answer[:0], s.proxyMapping(row))
	if row.wide {
		all = s.appendMoreSpecifics(all, best)
	}
	if !alone && s.holdsOthers(best, s.registrations.siteOf(row)) {
		all = append(all, lisp.Mapping{})
	}
	s.answer = all
	taken := func(p lisp.Prefix) bool { return s.registrations.index.holds(p, best) || s.prefixes.holds(p, best) }
	s.h.reply(m, reply{sent: ProxyMapReplySent, notice: NoticeMapReplySent, mappings: s.h.complete(m, asked, all, taken)})
}

// appendMoreSpecifics appends the more specific registrations within best, and an empty
// mapping for each that is not ours to tell.
func (s *mapServer) appendMoreSpecifics(all []lisp.Mapping, best lisp.Prefix) []lisp.Mapping {
	for p, id := range s.registrations.index.subtree(best) {
		if len(all) > s.h.limits.MoreSpecificsPerReply {
			break // too many in any case
		}
		if p == best {
			continue
		}
		more := s.registrations.rows.at(id)
		if s.sweeping() && !s.allows(p, s.registrations.siteOf(more)) {
			continue
		}
		if s.answers(more) {
			all = append(all, s.proxyMapping(more))
			continue
		}
		all = append(all, lisp.Mapping{})
	}
	return all
}

// holdsOthers reports whether other sites have EID-Prefixes within best that they have
// not registered: an answer that covers those would bring their packets to this site.
func (s *mapServer) holdsOthers(best lisp.Prefix, site *siteState) bool {
	seen := 0
	for p, owner := range s.prefixes.subtree(best) {
		if seen++; seen > s.h.limits.MoreSpecificsPerReply {
			return true // perhaps: the smaller answer is right in any case
		}
		_, _, registered := s.registrations.get(p)
		if !registered && p != best && s.siteAt(owner) != site {
			return true
		}
	}
	return false
}

// proxyMapping is what the Map-Server says for a site.
func (s *mapServer) proxyMapping(row *registration) lisp.Mapping {
	m := s.registrations.merged(row)
	m.TTLMinutes = s.registrations.siteOf(row).config.Policy.proxyTTL(m)
	return m
}

// forward passes the Map-Request to one of the ETRs.
func (s *mapServer) forward(m *mapRequest, asked lisp.Prefix, row *registration) {
	s.h.forward(m, netip.AddrPortFrom(s.etrFor(m, asked, row), s.h.controlPort), row.prefix)
}

// handleMapRegister takes the records of a Map-Register that nothing stands against, and
// acknowledges those when asked to (RFC 9301 s.5.6, s.5.7).
func (s *mapServer) handleMapRegister(m *mapRegister) {
	site := s.registrations.sites.named(m.site)
	if site == nil {
		s.h.count(RefusedUnknownSite)
		return
	}
	if refused := s.checkRate(site); refused != nil {
		s.refuse(m, refused)
		return
	}
	fresh, refused := s.checkNonce(site, m)
	if refused != nil {
		s.refuse(m, refused)
		return
	}
	s.siftRecords(site, m)
	for _, r := range m.refused {
		s.refuseRecord(m, r)
	}
	if len(m.mappings) == 0 {
		return
	}
	s.h.count(MapRegisterReceived)
	if fresh {
		s.takeAll(site, m)
	}
	if m.WantMapNotify {
		s.acknowledge(m)
	}
}

// refuse refuses a Map-Register as a whole.
func (s *mapServer) refuse(m *mapRegister, why *Refusal) {
	r := refusedRecord{why: why}
	if len(m.mappings) > 0 {
		r.prefix = m.mappings[0].Prefix
	}
	s.refuseRecord(m, r)
}

func (s *mapServer) refuseRecord(m *mapRegister, r refusedRecord) {
	reason := r.why.Reason
	s.h.count(reason)
	s.h.noticeRefusal(Notice{Kind: NoticeRegistrationRefused, Prefix: r.prefix, Remote: m.from, Site: m.site,
		Reason: reason.Reason(), Detail: reason.Reason() + ": " + r.why.Err.Error()})
}

// checkNonce reports whether the message is new. An exact duplicate is no replay:
// its Map-Notify may have been lost (RFC 9301 s.5.6). Nonces grow under each key of an
// xTR apart, because who cannot store his takes a new key. To a key that it left, as in a
// rotation, an xTR comes back only with a nonce above those under the key that it left it
// for: a message that was lost under the old one would take it back.
func (s *mapServer) checkNonce(site *siteState, m *mapRegister) (fresh bool, refused *Refusal) {
	if site.config.AcceptAnyNonce {
		return true, nil
	}
	seen, known := site.nonces[nonceKeyOf(m)]
	switch {
	case !known && len(site.nonces) >= s.h.limits.ReplayEntriesPerSite:
		return false, refuse(RefusedReplayTable, "the site has registered with %d xTR-IDs and keys", len(site.nonces))
	case !known:
		return true, nil
	case m.Nonce > seen.nonce:
		since, left := site.sinceLeft(nonceKeyOf(m))
		if left && m.Nonce <= since {
			return false, refuse(RefusedReplay, "nonce 0x%016x with key %d, which the xTR left for another one; the last one was 0x%016x", m.Nonce, m.KeyID, since)
		}
		return true, nil
	case seenOf(m) == seen:
		return false, nil
	}
	return false, refuse(RefusedReplay, "nonce 0x%016x, the last one was 0x%016x", m.Nonce, seen.nonce)
}

func seenOf(m *mapRegister) seenNonce {
	n := seenNonce{nonce: m.Nonce}
	copy(n.mac[:], m.Authentication)
	return n
}

// siftRecords refuses the records that the tables stand against.
func (s *mapServer) siftRecords(site *siteState, m *mapRegister) {
	for i := range m.mappings {
		s.registrations.comes(&m.mappings[i].Prefix)
	}
	s.registrations.come()
	added := 0
	m.sift(func(mapping lisp.Mapping) *Refusal {
		if mapping.TTLMinutes == 0 {
			return nil
		}
		_, row, known := s.registrations.get(mapping.Prefix)
		if known {
			return s.checkRegistrant(row, m, mapping)
		}
		if refused := s.checkSizes(site, added+1); refused != nil {
			return refused
		}
		added++
		return nil
	})
}

// checkSizes refuses more EID-Prefixes than there may be.
func (s *mapServer) checkSizes(site *siteState, added int) *Refusal {
	switch {
	case s.registrations.index.size+added > s.h.limits.Registrations:
		return refuse(RefusedRegistrationTable, "%d EID-Prefixes are registered", s.registrations.index.size)
	case site.registrations+added > s.maxRegistrations(site):
		return refuse(RefusedSiteTable, "site %s has registered %d EID-Prefixes", site.config.Name, site.registrations)
	}
	return nil
}

func (s *mapServer) checkRegistrant(row *registration, m *mapRegister, mapping lisp.Mapping) *Refusal {
	t := &s.registrations
	if t.find(row, registrantOf(m)) == nil && t.count(row) >= s.h.limits.RegistrantsPerPrefix {
		return refuse(RefusedRegistrants, "%d xTRs have registered %s", t.count(row), mapping.Prefix)
	}
	if newest := t.newestVersion(row); lisp.CompareMapVersions(mapping.Version, newest) < 0 {
		return refuse(RefusedVersion, "Map-Version %d of %s, %d is registered", mapping.Version, mapping.Prefix, newest)
	}
	if !m.MergeRequest {
		return nil
	}
	if err := t.mergeable(row, registrantOf(m), mapping.Locators); err != nil {
		return refuse(RefusedLocators, "%s: %w", mapping.Prefix, err)
	}
	return nil
}

func xtrOf(m *mapRegister) xtr {
	return xtr{
		id: registrantOf(m), from: m.from, keyID: m.KeyID, algorithm: m.AlgorithmID, macOctets: uint8(len(m.Authentication)),
		proxyReply: m.ProxyReply, useTTL: m.UseTTL, mergeRequest: m.MergeRequest, wantMapNotify: m.WantMapNotify,
	}
}

// lifetime is how long a registration lasts: by its TTL when the ETR says so with
// T, else by the configured time (RFC 9301 s.5.6, s.8.2).
func (s *mapServer) lifetime(useTTL bool, ttlMinutes uint32) time.Duration {
	if !useTTL {
		return s.config.RegistrationTimeout
	}
	return lisp.Lifetime(ttlMinutes, s.config.RegistrationTimeout)
}

// takeAll takes the records of a Map-Register.
func (s *mapServer) takeAll(site *siteState, m *mapRegister) {
	site.saw(nonceKeyOf(m), seenOf(m))
	x := xtrOf(m)
	id := s.registrations.xtrs.acquire(x)
	for i := range m.mappings {
		s.take(site, m, m.mappings[i], id)
	}
	s.registrations.xtrs.release(id)
	s.journalRegister(site, m, x)
}

// take takes one record; TTL 0 withdraws.
func (s *mapServer) take(site *siteState, m *mapRegister, mapping lisp.Mapping, xtr uint32) {
	n := Notice{Prefix: mapping.Prefix, Remote: m.from, Site: m.site}
	if mapping.TTLMinutes == 0 {
		s.withdraw(m, n)
		return
	}
	s.h.count(RegistrationAccepted)
	fresh, changed := s.registrations.put(site, mapping, registrant{
		xtr: xtr, firstAt: s.h.now, lastAt: s.h.now, expiresAt: s.h.after(s.lifetime(m.UseTTL, mapping.TTLMinutes)),
	})
	if !fresh && !changed {
		return
	}
	n.Kind = NoticeRegistrationChanged
	if fresh {
		n.Kind = NoticeRegistered
	}
	if s.h.mayNotice() {
		n.Detail = mapping.String()
		s.h.say(n)
	}
	if _, row, ok := s.registrations.get(mapping.Prefix); ok && changed {
		s.notifier.changed(row, registrantOf(m))
	}
}

// withdraw takes out what an xTR registered; n is the start of its notice.
func (s *mapServer) withdraw(m *mapRegister, n Notice) {
	found, changed := s.registrations.removeRegistrant(n.Prefix, registrantOf(m))
	if !found {
		return
	}
	s.h.count(RegistrationWithdrawn)
	n.Kind = NoticeRegistrationWithdrawn
	s.h.notice(n)
	if _, row, ok := s.registrations.get(n.Prefix); ok && changed {
		s.notifier.changed(row, registrantOf(m))
	}
}

// acknowledge sends the Map-Notify, to the control port whatever port the
// Map-Register came from (RFC 9301 s.8.2), with a MAC of the length received.
func (s *mapServer) acknowledge(m *mapRegister) {
	if !s.h.mayNotify(m.from.Addr()) {
		return
	}
	notify := &wire.MapNotify{
		Nonce: m.Nonce, KeyID: m.KeyID, AlgorithmID: m.AlgorithmID,
		Authentication: make([]byte, len(m.Authentication)), Records: m.Records,
	}
	payload, err := wire.AppendSigned(s.h.room(usualSignedOctets+len(m.Records)*usualRecordOctets), notify, m.key.Secret)
	if err != nil {
		s.h.count(RefusedEncoding)
		return
	}
	s.h.send(s.h.answerFrom(m.local), netip.AddrPortFrom(m.from.Addr(), s.h.controlPort), s.h.used(payload))
	s.h.count(MapNotifySent)
}

// handleTimeout ends what was not refreshed.
func (s *mapServer) handleTimeout(id uint32) {
	row := s.registrations.rows.at(id)
	prefix, site := row.prefix, s.registrations.siteOf(row).config.Name
	expired, gone, changed := s.registrations.expire(id, s.h.now)
	if expired == 0 {
		return // it was refreshed
	}
	if changed && !gone {
		s.notifier.changed(row, registrantID{})
	}
	s.h.count(RegistrationExpired)
	n := Notice{Kind: NoticeRegistrationExpired, Prefix: prefix, Site: site}
	if !gone {
		n.Detail = "of one xTR; others remain"
	}
	s.h.notice(n)
}

// status yields every registration, one value for each xTR, who registered last comes last.
func (s *mapServer) status() iter.Seq[Registration] {
	return func(yield func(Registration) bool) {
		for _, id := range s.registrations.index.all() {
			if !s.statusOf(s.registrations.rows.at(id), yield) {
				return
			}
		}
	}
}

// statusOf yields who registered an EID-Prefix, and reports whether to go on.
func (s *mapServer) statusOf(row *registration, yield func(Registration) bool) bool {
	var few [4]*registrant
	for _, r := range slices.Backward(s.registrations.appendEach(few[:0], row)) {
		if !yield(s.registrationStatus(row, r)) {
			return false
		}
	}
	return true
}

func (s *mapServer) registrationStatus(row *registration, r *registrant) Registration {
	x := s.registrations.xtrs.at(r.xtr)
	return Registration{
		Site: s.registrations.siteOf(row).config.Name, Prefix: row.prefix,
		Mapping: s.registrations.mapping(row.prefix, r.content), Merged: s.registrations.merged(row),
		AsAnswered: s.registrations.isAnswered(row, r), InForce: s.registrations.isInForce(row, r),
		FirstRegisteredAt: s.h.time(r.firstAt), LastRegisteredAt: s.h.time(r.lastAt), ExpiresAt: s.h.time(r.expiresAt),
		From: x.from, XTRID: x.id.xtrID, SiteID: x.id.siteID, KeyID: x.keyID, Algorithm: x.algorithm,
		ProxyReply: x.proxyReply, UseTTL: x.useTTL, MergeRequest: x.mergeRequest, WantMapNotify: x.wantMapNotify,
	}
}
