// SPDX-License-Identifier: Apache-2.0

package mapserver

// The Map-Server: takes registrations and answers or forwards Map-Requests for
// them (RFC 9301 s.5.6, s.5.7, s.8.2, s.8.3). Messages arrive authenticated, and
// with EID-Prefixes that their site may register. It never sends anything about an
// EID that is not configured, but that it has no mapping.

import (
	"iter"
	"slices"
	"time"

	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/lisp"
)

// MapServer is the role with its tables.
type MapServer struct {
	h             *system.System
	config        *settings.MapServerConfig
	Owners        owners
	Registrations Registrations
	Answers       answerer
	replay        replay
	Notifier      *notifier
	Journal       journal
	Refusals      refusals
	translated    translated
	Infos         infos
	departures    departures
}

// RegistrationsLast is how many registration intervals a registration lasts (RFC 9301 s.8.2: one minute, three
// minutes).
const RegistrationsLast = 3

// New makes a Map-Server without sites.
func New(h *system.System) *MapServer {
	s := &MapServer{h: h, config: &settings.MapServerConfig{}, Journal: journal{h: h}}
	s.Owners.sites = &s.Registrations.Sites
	s.Answers = answerer{h: h, config: s.config, owners: &s.Owners, registrations: &s.Registrations}
	s.Refusals = refusals{h: h, lasts: func() time.Duration { return s.config.RegistrationTimeout }}
	s.Notifier = newNotifier(h, &s.Registrations)
	s.replay = replay{h: h, owners: &s.Owners, registrations: &s.Registrations, refusals: &s.Refusals, journal: &s.Journal}
	s.Infos.h, s.Notifier.unreachable = h, s.Infos.isByRTR
	s.departures = departures{h, &s.Registrations, &s.Infos}
	return s
}

func seenOf(m *message.MapRegister) SeenNonce {
	n := SeenNonce{Nonce: m.Nonce}
	copy(n.mac[:], m.Authentication)
	return n
}

func xtrOf(m *message.MapRegister, who RegistrantID) XTR {
	return XTR{
		ID: who, From: m.From,
		keyID: m.KeyID, algorithm: m.AlgorithmID, macOctets: uint8(len(m.Authentication)),
		ProxyReply: m.ProxyReply, useTTL: m.UseTTL,
		mergeRequest: m.MergeRequest, wantMapNotify: m.WantMapNotify,
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
		From: x.From, ByRTR: s.Infos.isByRTR(x), XTRID: x.ID.XTRID, SiteID: x.ID.siteID, KeyID: x.keyID, Algorithm: x.algorithm,
		ProxyReply: x.ProxyReply, UseTTL: x.useTTL, MergeRequest: x.mergeRequest, WantMapNotify: x.wantMapNotify,
	}
}
