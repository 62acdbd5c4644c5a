// SPDX-License-Identifier: Apache-2.0

package mapserver

import (
	"loci/control/internal/effect"
	"loci/control/internal/timing"
)

// What is too much for one turn at a million registrations: to drop those that another
// configuration does not allow any more, and to list them all, a batch a turn. While a pass is under way, nothing is answered from a row that the
// configuration does not allow: it is dropped when it is met.

const (
	// RegistrationSweepRows is one batch.
	RegistrationSweepRows = 2048
	// droppedRow is how many rows that stay are as much work as one that is dropped.
	droppedRow = 8
)

// startSweep begins a pass; a small table is passed over at once.
func (s *MapServer) startSweep() {
	t := &s.Registrations
	t.swept, t.sweptSites = 0, 0
	t.Sweep.Set(0, s.h.Now)
	if t.Rows.Len()+len(t.Sites.Numbered) <= RegistrationSweepRows {
		t.Sweep.Remove(0)
		s.HandleSweep(0)
	}
}

// Sweeping reports whether a pass is under way.
func (s *MapServer) Sweeping() bool { return s.Registrations.Sweep.Next() != timing.Never }

// HandleSweep passes over a batch. At the end, sites that are gone are forgotten.
func (s *MapServer) HandleSweep(uint32) {
	t := &s.Registrations
	rows, sites := uint32(t.Rows.Len()), uint32(len(t.Sites.Numbered))
	left := RegistrationSweepRows
	for ; left > 0 && t.swept < rows; t.swept++ {
		left--
		if !t.Rows.At(t.swept).Prefix.IsZero() && s.dropDisallowed(t.swept) {
			left -= droppedRow - 1
		}
	}
	for ; left > 0 && t.sweptSites < sites; left-- {
		t.Sites.forgetGone(t.sweptSites)
		t.sweptSites++
	}
	if t.swept < rows || t.sweptSites < sites {
		t.Sweep.Set(0, s.h.Now+1) // the next turn
	}
}

// dropDisallowed ends a registration that the configuration does not allow any more.
func (s *MapServer) dropDisallowed(id uint32) (dropped bool) {
	t := &s.Registrations
	row := t.Rows.At(id)
	site := t.SiteOf(row)
	if s.Allows(row.Prefix, site) {
		return false
	}
	s.h.Notice(effect.Notice{Kind: effect.NoticeRegistrationRemoved, Prefix: row.Prefix, Site: site.Config.Name})
	if s.Journal.on {
		for r := range t.Each(row) {
			s.journalRegistrant(row, r, 0)
		}
	}
	t.Remove(id)
	return true
}
