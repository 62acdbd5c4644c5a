// SPDX-License-Identifier: Apache-2.0

package mapserver

// The Map-Server: takes registrations and answers or forwards Map-Requests for
// them (RFC 9301 s.5.6, s.5.7, s.8.2, s.8.3). Messages arrive authenticated, and
// with EID-Prefixes that their site may register. It never sends anything about an
// EID that is not configured, but that it is nobody's.

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

// MapServer is the role with its tables.
type MapServer struct {
	h             *system.System
	config        *settings.MapServerConfig
	Prefixes      table.Prefixes[message.OwnedPrefix] // of all sites
	Registrations Registrations
	Notifier      *notifier
	Journal       journal
	choice        etrChoice
	answer        []lisp.Mapping // of a Map-Reply under way; its memory is used again
	CompleteAt    timing.Instant // one registration interval after the start: who registers here has done so
}

// RegistrationsLast is how many registration intervals a registration lasts (RFC 9301 s.8.2: one minute, three minutes).
const RegistrationsLast = 3

// New makes a Map-Server without sites.
func New(h *system.System) *MapServer {
	s := &MapServer{h: h, config: &settings.MapServerConfig{}, Journal: journal{h: h}}
	s.Notifier = newNotifier(h, &s.Registrations)
	return s
}

// Configure takes over another configuration. Registrations that it does not allow
// any more end; the others, and the nonces seen, stay.
func (s *MapServer) Configure(c *settings.MapServerConfig, prefixes table.Prefixes[message.OwnedPrefix], sites map[string]int) {
	s.config, s.Prefixes, s.Journal.on = c, prefixes, c.Journal
	s.Registrations.Sites.configure(c.Sites, sites)
	if s.CompleteAt == 0 {
		s.CompleteAt = s.h.After(c.RegistrationTimeout / RegistrationsLast)
	}
	s.Notifier.keep()
	s.startSweep()
}

// Allows reports whether the configuration lets a site register an EID-Prefix.
func (s *MapServer) Allows(p lisp.Prefix, site *siteState) bool {
	match, owner, ok := s.Prefixes.Longest(p)
	return ok && (match == p || owner.MoreSpecifics) && s.siteAt(owner) == site
}

// siteAt is the site that owns a configured EID-Prefix.
func (s *MapServer) siteAt(owner message.OwnedPrefix) *siteState {
	return s.Registrations.Sites.At(owner.Site)
}

// DenyUnknown says of an EID that no configured EID-Prefix has that it is nobody's.
func (s *MapServer) DenyUnknown(m *message.MapRequest, asked lisp.Prefix) {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	s.h.ReplyNegative(m, table.LeastSpecificHole(host, 0, s.Prefixes.Overlaps), settings.NegativeTTLMinutes)
}

// HandleMapRequest answers for one EID-Prefix of owner's, in the order of RFC 9301 s.8.3.
func (s *MapServer) HandleMapRequest(m *message.MapRequest, asked lisp.Prefix, owner message.OwnedPrefix) {
	configured, site := owner.Prefix, s.siteAt(owner)
	if s.deny(m, asked, configured, site) {
		return
	}
	row, ok := s.Registered(asked, configured, site, m.Foreseen)
	switch {
	case !ok:
		s.replyUnregistered(m, s.unregisteredHole(asked, configured), site)
	case s.answers(row) && !m.Authoritative: // A: the site itself shall answer
		s.replyForSite(m, asked, row, owner)
	default:
		s.forward(m, asked, row)
	}
}

// Registered finds the registration to use. One that is less specific than the
// configured EID-Prefix counts only if it is of the same site: another site's
// aggregate says nothing about this one.
func (s *MapServer) Registered(asked, configured lisp.Prefix, site *siteState, known message.Foreseen) (*Registration, bool) {
	id, ok := s.Registrations.nearest(asked, known)
	if !ok {
		return nil, false
	}
	row := s.Registrations.Rows.At(id)
	if s.Sweeping() && s.dropDisallowed(id) {
		return s.Registered(asked, configured, site, message.Foreseen{}) // what is less specific, if anything
	}
	return row, row.Prefix.Bits() >= configured.Bits() || row.site == site.id
}

// unregisteredHole is the part of a configured EID-Prefix around the asked EID that
// neither is registered nor belongs to a more specific configured one.
func (s *MapServer) unregisteredHole(asked, configured lisp.Prefix) lisp.Prefix {
	host := lisp.HostPrefix(asked.Instance(), asked.EID())
	return table.LeastSpecificHole(host, configured.Bits(), func(p lisp.Prefix) bool {
		return s.Prefixes.Holds(p, configured) || s.Registrations.Index.Holds(p, lisp.Prefix{})
	})
}

// answers reports whether the Map-Server answers for the ETRs of a registration.
func (s *MapServer) answers(row *Registration) bool {
	switch s.Registrations.SiteOf(row).Config.ProxyReply {
	case settings.ProxyReplyAlways:
		return true
	case settings.ProxyReplyNever:
		return false
	}
	return row.proxyReply
}

// replyForSite answers with what was registered, and with every more specific
// registration; where an ETR answers for one of those itself, the answer is
// narrowed to leave it out (RFC 9301 s.5.5, s.8.3).
func (s *MapServer) replyForSite(m *message.MapRequest, asked lisp.Prefix, row *Registration, owner message.OwnedPrefix) {
	best := row.Prefix
	alone := !owner.Wide && best.Bits() >= owner.Prefix.Bits() // nothing more specific is configured
	all := append(s.answer[:0], s.proxyMapping(row))
	if row.wide {
		all = s.appendMoreSpecifics(all, best)
	}
	if !alone && s.holdsOthers(best, s.Registrations.SiteOf(row)) {
		all = append(all, lisp.Mapping{})
	}
	s.answer = all
	taken := func(p lisp.Prefix) bool { return s.Registrations.Index.Holds(p, best) || s.Prefixes.Holds(p, best) }
	s.h.Reply(m, system.Reply{Sent: counter.ProxyMapReplySent, Notice: effect.NoticeMapReplySent, Mappings: s.h.Complete(m, asked, all, taken)})
}

// appendMoreSpecifics appends the more specific registrations within best, and an empty
// mapping for each that is not ours to tell.
func (s *MapServer) appendMoreSpecifics(all []lisp.Mapping, best lisp.Prefix) []lisp.Mapping {
	for p, id := range s.Registrations.Index.Subtree(best) {
		if len(all) > s.h.Limits.MoreSpecificsPerReply {
			break // too many in any case
		}
		if p == best {
			continue
		}
		more := s.Registrations.Rows.At(id)
		if s.Sweeping() && !s.Allows(p, s.Registrations.SiteOf(more)) {
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
func (s *MapServer) holdsOthers(best lisp.Prefix, site *siteState) bool {
	seen := 0
	for p, owner := range s.Prefixes.Subtree(best) {
		if seen++; seen > s.h.Limits.MoreSpecificsPerReply {
			return true // perhaps: the smaller answer is right in any case
		}
		_, _, registered := s.Registrations.Get(p)
		if !registered && p != best && s.siteAt(owner) != site {
			return true
		}
	}
	return false
}

// proxyMapping is what the Map-Server says for a site.
func (s *MapServer) proxyMapping(row *Registration) lisp.Mapping {
	m := s.Registrations.merged(row)
	m.TTLMinutes = s.Registrations.SiteOf(row).Config.Policy.ProxyTTL(m)
	return m
}

// forward passes the Map-Request to one of the ETRs.
func (s *MapServer) forward(m *message.MapRequest, asked lisp.Prefix, row *Registration) {
	s.h.Forward(m, netip.AddrPortFrom(s.etrFor(m, asked, row), s.h.ControlPort), row.Prefix)
}

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
		return
	}
	fresh, refused := s.checkNonce(site, m)
	if refused != nil {
		s.refuse(m, refused)
		return
	}
	s.siftRecords(site, m)
	for _, r := range m.Refused {
		s.refuseRecord(m, r)
	}
	if len(m.Mappings) == 0 {
		return
	}
	s.h.Count(counter.MapRegisterReceived)
	if fresh {
		s.takeAll(site, m)
	}
	if m.WantMapNotify {
		s.acknowledge(m)
	}
}

// refuse refuses a Map-Register as a whole.
func (s *MapServer) refuse(m *message.MapRegister, why *message.Refusal) {
	r := message.RefusedRecord{Why: why}
	if len(m.Mappings) > 0 {
		r.Prefix = m.Mappings[0].Prefix
	}
	s.refuseRecord(m, r)
}

func (s *MapServer) refuseRecord(m *message.MapRegister, r message.RefusedRecord) {
	reason := r.Why.Reason
	s.h.Count(reason)
	s.h.NoticeRefusal(effect.Notice{Kind: effect.NoticeRegistrationRefused, Prefix: r.Prefix, Remote: m.From, Site: m.Site,
		Reason: reason.Reason(), Detail: reason.Reason() + ": " + r.Why.Err.Error()})
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

func seenOf(m *message.MapRegister) SeenNonce {
	n := SeenNonce{Nonce: m.Nonce}
	copy(n.mac[:], m.Authentication)
	return n
}

// siftRecords refuses the records that the tables stand against.
func (s *MapServer) siftRecords(site *siteState, m *message.MapRegister) {
	for i := range m.Mappings {
		s.Registrations.comes(&m.Mappings[i].Prefix)
	}
	s.Registrations.come()
	added := 0
	m.Sift(func(mapping lisp.Mapping) *message.Refusal {
		if mapping.TTLMinutes == 0 {
			return nil
		}
		_, row, known := s.Registrations.Get(mapping.Prefix)
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
func (s *MapServer) checkSizes(site *siteState, added int) *message.Refusal {
	switch {
	case s.Registrations.Index.Size+added > s.h.Limits.Registrations:
		return message.Refuse(counter.RefusedRegistrationTable, "%d EID-Prefixes are registered", s.Registrations.Index.Size)
	case site.Registrations+added > s.maxRegistrations(site):
		return message.Refuse(counter.RefusedSiteTable, "site %s has registered %d EID-Prefixes", site.Config.Name, site.Registrations)
	}
	return nil
}

func (s *MapServer) checkRegistrant(row *Registration, m *message.MapRegister, mapping lisp.Mapping) *message.Refusal {
	t := &s.Registrations
	if t.find(row, registrantOf(m)) == nil && t.Count(row) >= s.h.Limits.RegistrantsPerPrefix {
		return message.Refuse(counter.RefusedRegistrants, "%d xTRs have registered %s", t.Count(row), mapping.Prefix)
	}
	if newest := t.newestVersion(row); lisp.CompareMapVersions(mapping.Version, newest) < 0 {
		return message.Refuse(counter.RefusedVersion, "Map-Version %d of %s, %d is registered", mapping.Version, mapping.Prefix, newest)
	}
	if !m.MergeRequest {
		return nil
	}
	if err := t.mergeable(row, registrantOf(m), mapping.Locators); err != nil {
		return message.Refuse(counter.RefusedLocators, "%s: %w", mapping.Prefix, err)
	}
	return nil
}

func xtrOf(m *message.MapRegister) XTR {
	return XTR{
		ID: registrantOf(m), From: m.From, keyID: m.KeyID, algorithm: m.AlgorithmID, macOctets: uint8(len(m.Authentication)),
		ProxyReply: m.ProxyReply, useTTL: m.UseTTL, mergeRequest: m.MergeRequest, wantMapNotify: m.WantMapNotify,
	}
}

// lifetime is how long a registration lasts: by its TTL when the ETR says so with
// T, else by the configured time (RFC 9301 s.5.6, s.8.2).
func (s *MapServer) lifetime(useTTL bool, ttlMinutes uint32) time.Duration {
	if !useTTL {
		return s.config.RegistrationTimeout
	}
	return lisp.Lifetime(ttlMinutes, s.config.RegistrationTimeout)
}

// takeAll takes the records of a Map-Register.
func (s *MapServer) takeAll(site *siteState, m *message.MapRegister) {
	site.Saw(nonceKeyOf(m), seenOf(m))
	x := xtrOf(m)
	id := s.Registrations.Xtrs.Acquire(x)
	for i := range m.Mappings {
		s.take(site, m, m.Mappings[i], id)
	}
	s.Registrations.Xtrs.Release(id)
	s.journalRegister(site, m, x)
}

// take takes one record; TTL 0 withdraws.
func (s *MapServer) take(site *siteState, m *message.MapRegister, mapping lisp.Mapping, xtr uint32) {
	n := effect.Notice{Prefix: mapping.Prefix, Remote: m.From, Site: m.Site}
	if mapping.TTLMinutes == 0 {
		s.withdraw(m, n)
		return
	}
	s.h.Count(counter.RegistrationAccepted)
	fresh, changed := s.Registrations.Put(site, mapping, Registrant{
		XTR: xtr, FirstAt: s.h.Now, LastAt: s.h.Now, ExpiresAt: s.h.After(s.lifetime(m.UseTTL, mapping.TTLMinutes)),
	})
	if !fresh && !changed {
		return
	}
	n.Kind = effect.NoticeRegistrationChanged
	if fresh {
		n.Kind = effect.NoticeRegistered
	}
	if s.h.MayNotice() {
		n.Detail = mapping.String()
		s.h.Say(n)
	}
	if _, row, ok := s.Registrations.Get(mapping.Prefix); ok && changed {
		s.Notifier.changed(row, registrantOf(m))
	}
}

// withdraw takes out what an xTR registered; n is the start of its notice.
func (s *MapServer) withdraw(m *message.MapRegister, n effect.Notice) {
	found, changed := s.Registrations.removeRegistrant(n.Prefix, registrantOf(m))
	if !found {
		return
	}
	s.h.Count(counter.RegistrationWithdrawn)
	n.Kind = effect.NoticeRegistrationWithdrawn
	s.h.Notice(n)
	if _, row, ok := s.Registrations.Get(n.Prefix); ok && changed {
		s.Notifier.changed(row, registrantOf(m))
	}
}

// acknowledge sends the Map-Notify, to the control port whatever port the
// Map-Register came from (RFC 9301 s.8.2), with a MAC of the length received.
func (s *MapServer) acknowledge(m *message.MapRegister) {
	if !s.h.MayNotify(m.From.Addr()) {
		return
	}
	notify := &wire.MapNotify{
		Nonce: m.Nonce, KeyID: m.KeyID, AlgorithmID: m.AlgorithmID,
		Authentication: make([]byte, len(m.Authentication)), Records: m.Records,
	}
	payload, err := wire.AppendSigned(s.h.Buffer(system.UsualSignedOctets+len(m.Records)*system.UsualRecordOctets), notify, m.Key.Secret)
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	s.h.Send(s.h.AnswerFrom(m.Local), netip.AddrPortFrom(m.From.Addr(), s.h.ControlPort), s.h.Used(payload))
	s.h.Count(counter.MapNotifySent)
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

// Status yields every registration, one value for each xTR, who registered last comes last.
func (s *MapServer) Status() iter.Seq[status.Registration] {
	return func(yield func(status.Registration) bool) {
		for _, id := range s.Registrations.Index.All() {
			if !s.StatusOf(s.Registrations.Rows.At(id), yield) {
				return
			}
		}
	}
}

// StatusOf yields who registered an EID-Prefix, and reports whether to go on.
func (s *MapServer) StatusOf(row *Registration, yield func(status.Registration) bool) bool {
	var few [4]*Registrant
	for _, r := range slices.Backward(s.Registrations.appendEach(few[:0], row)) {
		if !yield(s.registrationStatus(row, r)) {
			return false
		}
	}
	return true
}

func (s *MapServer) registrationStatus(row *Registration, r *Registrant) status.Registration {
	x := s.Registrations.Xtrs.At(r.XTR)
	return status.Registration{
		Site: s.Registrations.SiteOf(row).Config.Name, Prefix: row.Prefix,
		Mapping: s.Registrations.mapping(row.Prefix, r.Content), Merged: s.Registrations.merged(row),
		AsAnswered: s.Registrations.isAnswered(row, r), InForce: s.Registrations.isInForce(row, r),
		FirstRegisteredAt: s.h.Time(r.FirstAt), LastRegisteredAt: s.h.Time(r.LastAt), ExpiresAt: s.h.Time(r.ExpiresAt),
		From: x.From, XTRID: x.ID.XTRID, SiteID: x.ID.siteID, KeyID: x.keyID, Algorithm: x.algorithm,
		ProxyReply: x.ProxyReply, UseTTL: x.useTTL, MergeRequest: x.mergeRequest, WantMapNotify: x.wantMapNotify,
	}
}
