// SPDX-License-Identifier: Apache-2.0

package mapserver

// After another configuration the registrations that it does not allow are dropped, a batch per event-loop
// iteration. While a pass is under way, nothing is answered from a row that the configuration does not allow: it
// is dropped when it is met.

import (
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/table"
)

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
	t.Sweep.At(s.h.Now)
	if t.Rows.Len()+len(t.Sites.Numbered) <= RegistrationSweepRows {
		s.HandleSweep()
	}
}

// Sweeping reports whether a pass is under way.
func (s *MapServer) Sweeping() bool { return s.Registrations.Sweep.Waits() }

// HandleSweep passes over a batch. At the end, sites that are gone are forgotten.
func (s *MapServer) HandleSweep() {
	s.Registrations.Sweep.Run(s.h.Now, RegistrationSweepRows, s.sweepStep)
}

// sweepStep looks at the next row, or behind the last one at the next site.
func (s *MapServer) sweepStep() (cost int, more bool) {
	t := &s.Registrations
	rows, sites := uint32(t.Rows.Len()), uint32(len(t.Sites.Numbered))
	cost = 1
	switch {
	case t.swept < rows:
		if !t.Rows.At(t.swept).Prefix.IsZero() && s.dropDisallowed(t.swept) {
			cost = droppedRow
		}
		t.swept++
	case t.sweptSites < sites:
		t.Sites.forgetGone(t.sweptSites)
		t.sweptSites++
	}
	return cost, t.swept < rows || t.sweptSites < sites
}

// dropDisallowed ends a registration that the configuration does not allow any more.
func (s *MapServer) dropDisallowed(id uint32) (dropped bool) {
	t := &s.Registrations
	row := t.Rows.At(id)
	site := t.SiteOf(row)
	if s.Owners.Allows(row.Prefix, site) {
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

// Configure takes over another configuration. Registrations that it does not allow
// any more end; the others, and the nonces seen, stay.
func (s *MapServer) Configure(c *settings.MapServerConfig, prefixes table.Prefixes[message.OwnedPrefix], sites map[string]int) {
	s.config, s.Answers.config, s.Owners.Prefixes, s.Journal.on = c, c, prefixes, c.Journal
	s.Infos.rtrs = c.RTRs
	s.Registrations.Sites.configure(c.Sites, sites)
	if s.Answers.CompleteAt == 0 {
		s.Answers.CompleteAt = s.h.After(c.RegistrationTimeout / RegistrationsLast)
	}
	s.Notifier.keep()
	s.startSweep()
}
