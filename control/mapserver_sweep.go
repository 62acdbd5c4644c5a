// SPDX-License-Identifier: Apache-2.0

package control

// What is too much for one turn at a million registrations: to drop those that another
// configuration does not allow any more, and to list them all, a batch a turn. While a pass is under way, nothing is answered from a row that the
// configuration does not allow: it is dropped when it is met.

const (
	// registrationSweepRows is one batch.
	registrationSweepRows = 2048
	// droppedRow is how many rows that stay are as much work as one that is dropped.
	droppedRow = 8
)

// startSweep begins a pass; a small table is passed over at once.
func (s *mapServer) startSweep() {
	t := &s.registrations
	t.swept, t.sweptSites = 0, 0
	t.sweep.set(0, s.h.now)
	if t.rows.len()+len(t.sites.numbered) <= registrationSweepRows {
		t.sweep.remove(0)
		s.handleSweep(0)
	}
}

// sweeping reports whether a pass is under way.
func (s *mapServer) sweeping() bool { return s.registrations.sweep.next() != never }

// handleSweep passes over a batch. At the end, sites that are gone are forgotten.
func (s *mapServer) handleSweep(uint32) {
	t := &s.registrations
	rows, sites := uint32(t.rows.len()), uint32(len(t.sites.numbered))
	left := registrationSweepRows
	for ; left > 0 && t.swept < rows; t.swept++ {
		left--
		if !t.rows.at(t.swept).prefix.IsZero() && s.dropDisallowed(t.swept) {
			left -= droppedRow - 1
		}
	}
	for ; left > 0 && t.sweptSites < sites; left-- {
		t.sites.forgetGone(t.sweptSites)
		t.sweptSites++
	}
	if t.swept < rows || t.sweptSites < sites {
		t.sweep.set(0, s.h.now+1) // the next turn
	}
}

// dropDisallowed ends a registration that the configuration does not allow any more.
func (s *mapServer) dropDisallowed(id uint32) (dropped bool) {
	t := &s.registrations
	row := t.rows.at(id)
	site := t.siteOf(row)
	if s.allows(row.prefix, site) {
		return false
	}
	s.h.notice(Notice{Kind: NoticeRegistrationRemoved, Prefix: row.prefix, Site: site.config.Name})
	if s.journal.on {
		for r := range t.each(row) {
			s.journalRegistrant(row, r, 0)
		}
	}
	t.remove(id)
	return true
}
