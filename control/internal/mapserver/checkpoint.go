// SPDX-License-Identifier: Apache-2.0

package mapserver

// What the Map-Server writes into its journal: each Map-Register, and everything again a batch at a time.

import (
	"slices"
	"time"

	"loci/control/internal/message"
	"loci/control/internal/timing"
)

// HandleCheckpoint writes a piece.
func (s *MapServer) HandleCheckpoint() {
	j := &s.Journal
	j.open = nil
	if cap(j.pending.Octets) == 0 {
		j.pending.Octets = make([]byte, 0, checkpointOctets)
	}
	if j.Work.Run(j.h.Now, CheckpointBatch, s.checkpointStep) {
		j.Work.At(j.h.After(checkpointPause))
		return
	}
	j.pending.End = true
}

// checkpointStep writes the next row, or behind the last one the next nonce. Nonces begin a piece of their own.
func (s *MapServer) checkpointStep() (cost int, more bool) {
	j, rows := &s.Journal, uint32(s.Registrations.Rows.Len())
	cost = 1
	switch {
	case j.rowsDone:
		s.journalNonce()
	case j.row < rows:
		s.journalRow(s.Registrations.Rows.At(j.row))
		j.row++
	}
	if !j.rowsDone && j.row >= rows {
		j.rowsDone, cost = true, CheckpointBatch
	}
	return cost, !j.rowsDone || j.site < len(s.Registrations.Sites.Numbered)
}

// journalRow says who registered an EID-Prefix, in the order in which they did.
func (s *MapServer) journalRow(row *Registration) {
	if row.Prefix.IsZero() {
		return // a free row
	}
	var few [4]*Registrant
	for _, r := range slices.Backward(s.Registrations.appendEach(few[:0], row)) {
		s.journalRegistrant(row, r, time.Duration(r.ExpiresAt-r.LastAt))
	}
}

func (s *MapServer) journalRegistrant(row *Registration, r *Registrant, lifetime time.Duration) {
	h := entryHead{site: s.Registrations.SiteOf(row).Config.Name, xtr: *s.Registrations.Xtrs.At(r.XTR), lastAt: r.LastAt}
	if !s.Journal.continues(h) {
		s.Journal.entry(h)
	}
	s.Journal.record(s.Registrations.mapping(row.Prefix, r.Content), r.FirstAt, lifetime)
}

// journalNonce writes the last nonce of the next key of a site.
func (s *MapServer) journalNonce() {
	j, sites := &s.Journal, s.Registrations.Sites.Numbered
	if j.site >= len(sites) {
		return
	}
	site := sites[j.site]
	if site == nil || j.nonce >= len(site.nonceKeys) {
		j.site, j.nonce = j.site+1, 0
		return
	}
	k := site.nonceKeys[j.nonce]
	j.nonce++
	j.nonceOf(site, k)
	if inUse, left := site.leftFor(k); left {
		j.nonceOf(site, inUse) // who reads takes the last key for the one in use
	}
}

// journalRegister says what a Map-Register that was taken has left.
func (s *MapServer) journalRegister(site *siteState, m *message.MapRegister, x XTR) {
	j := &s.Journal
	if !j.on {
		return
	}
	if (s.h.Set - j.set).Abs() > journalClock {
		j.Checkpoint() // or a restart would take what is said for old, or new
	}
	j.entry(entryHead{site: site.Config.Name, xtr: x, lastAt: s.h.Now, nonce: seenOf(m), known: !site.Config.AcceptAnyNonce})
	for i := range m.Mappings {
		mapping := &m.Mappings[i]
		firstAt, lifetime := timing.Instant(0), time.Duration(0)
		if mapping.TTLMinutes > 0 {
			lifetime = s.lifetime(m.UseTTL, mapping.TTLMinutes)
			if _, row, ok := s.Registrations.Get(mapping.Prefix); ok && row.newest != noRow {
				firstAt = s.Registrations.Registrants.At(row.newest).FirstAt
			}
		}
		j.record(*mapping, firstAt, lifetime)
	}
}
