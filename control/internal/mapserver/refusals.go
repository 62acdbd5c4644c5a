// SPDX-License-Identifier: Apache-2.0

package mapserver

// Registrations that were refused lately (RFC 9301 s.5.6), for who runs the Map-Server. Senders can be forged: only one whose key fits, or
// who sends from the address of an ETR that registered before, is told by itself. All others are counted together.

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/message"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// maxRefusals bounds what is told one by one.
	maxRefusals = 64
	// maxSenders bounds the addresses that are remembered, senderMemory how long.
	maxSenders   = 8192
	senderMemory = 24 * time.Hour
)

// refusalKey tells refusals apart: of an EID-Prefix under a key that fits, or all of a sender.
type refusalKey struct {
	from   netip.Addr
	site   string      // empty where the sender alone tells it
	prefix lisp.Prefix // likewise
}

type refusal struct {
	status.RefusedRegistration
	lastAt timing.Instant
}

// refusals are the recent ones.
type refusals struct {
	h                 *system.System
	lasts             func() time.Duration // how long a registration does
	rows              map[refusalKey]*refusal
	others            refusal
	current, previous map[netip.Addr]timing.Instant // when an ETR registered from there last: half of maxSenders each
}

// registered notes from where a Map-Register was taken.
func (s *refusals) registered(from netip.Addr, at timing.Instant) {
	if _, known := s.current[from]; !known && (s.current == nil || len(s.current) >= maxSenders/2) {
		s.previous, s.current = s.current, make(map[netip.Addr]timing.Instant)
	}
	s.current[from] = at
	delete(s.rows, refusalKey{from: from})
}

// accepted ends what is told of an EID-Prefix.
func (s *refusals) accepted(from netip.Addr, site string, p lisp.Prefix) {
	if len(s.rows) > 0 {
		delete(s.rows, refusalKey{from, site, p})
	}
}

// knows reports whether an ETR registered from an address within a day.
func (s *refusals) knows(from netip.Addr, now timing.Instant) bool {
	at, known := s.current[from]
	if !known {
		at, known = s.previous[from]
	}
	return known && now-at < timing.Instant(senderMemory)
}

// noteRefusedRecord notes a record that was refused under a key that fits.
func (s *refusals) noteRefusedRecord(from netip.AddrPort, site string, p lisp.Prefix, why *message.Refusal) {
	s.noteRefused(refusalKey{from.Addr(), site, p}, from, status.RefusedRegistration{Site: site, Prefix: p, KeyFits: true}, why)
}

// noteRefusedMessage notes a Map-Register that was refused for its nonce or its key.
func (s *refusals) noteRefusedMessage(from netip.AddrPort, site string, p lisp.Prefix, why *message.Refusal) {
	if !s.knows(from.Addr(), s.h.Now) {
		s.others.note(s, from, why)
		return
	}
	s.noteRefused(refusalKey{from: from.Addr()}, from, status.RefusedRegistration{Site: site, Prefix: p}, why)
}

func (s *refusals) noteRefused(key refusalKey, from netip.AddrPort, about status.RefusedRegistration, why *message.Refusal) {
	row := s.rows[key]
	if row == nil && len(s.rows) >= maxRefusals {
		s.endRefusals()
	}
	switch {
	case row != nil:
	case len(s.rows) >= maxRefusals:
		s.others.note(s, from, why)
		return
	case s.rows == nil:
		s.rows = map[refusalKey]*refusal{}
		fallthrough
	default:
		row = &refusal{RefusedRegistration: about}
		row.Since = s.h.Time(s.h.Now)
		s.rows[key] = row
	}
	row.note(s, from, why)
}

// note counts one more.
func (r *refusal) note(s *refusals, from netip.AddrPort, why *message.Refusal) {
	if r.Count == 0 || !s.isRecent(r) {
		r.Count, r.Since = 0, s.h.Time(s.h.Now)
	}
	r.Count++
	r.From, r.LastAt, r.lastAt = from, s.h.Time(s.h.Now), s.h.Now
	r.Reason, r.Detail = why.Reason.Reason(), why.Err.Error()
}

// isRecent reports whether a refusal is younger than a registration may be.
func (s *refusals) isRecent(r *refusal) bool {
	return r.Count > 0 && s.h.Now-r.lastAt < timing.Instant(s.lasts())
}

// endRefusals forgets those that were not repeated.
func (s *refusals) endRefusals() {
	for key, row := range s.rows {
		if !s.isRecent(row) {
			delete(s.rows, key)
		}
	}
}

// RefusedRegistrations lists what was refused within the last lifetime of a registration and tells whom it concerns, by sender and
// EID-Prefix, and all others as one, whose Count is 0 for none.
func (s *refusals) RefusedRegistrations() (list []status.RefusedRegistration, others status.RefusedRegistration) {
	s.endRefusals()
	for _, row := range s.rows {
		list = append(list, row.RefusedRegistration)
	}
	slices.SortStableFunc(list, func(a, b status.RefusedRegistration) int {
		return cmp.Or(a.From.Addr().Compare(b.From.Addr()), cmp.Compare(a.Site, b.Site), a.Prefix.Compare(b.Prefix))
	})
	if s.isRecent(&s.others) {
		others = s.others.RefusedRegistration
	}
	return list, others
}

// NoteRefusal notes a Map-Register that was refused before it got here.
func (s *refusals) NoteRefusal(r *message.Refusal) {
	switch {
	case r.KeyFits:
		s.noteRefusedRecord(r.From, r.Site, r.Prefix, r)
	case r.Reason == counter.RefusedAuthentication, r.Reason == counter.RefusedUnknownKey, r.Reason == counter.RefusedAlgorithm:
		s.noteRefusedMessage(r.From, r.Site, r.Prefix, r)
	default:
		s.others.note(s, r.From, r)
	}
}

// NoteAuthFailure remembers that a message of a site did not authenticate.
func (s *MapServer) NoteAuthFailure(site string) {
	if state := s.Registrations.Sites.Named(site); state != nil {
		state.authFailedAt = s.h.Now
	}
}
