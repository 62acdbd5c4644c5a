// SPDX-License-Identifier: Apache-2.0

package control

// Work on the map-cache that is too much for one turn: what a wide Map-Reply means for
// many thousand more specific entries (RFC 9301 s.5.5), or another policy or idle time for all
// of them. A sweep goes once through the rows of the table, a batch a turn. It never
// touches an entry that is newer than itself.

import (
	"slices"

	"loci/lisp"
)

const (
	// coveredInTurn is how many more-specifics a Map-Reply's turn looks at itself.
	coveredInTurn = 256
	// sweepRows and sweepChanges bound one turn of a sweep.
	sweepRows    = 8192
	sweepChanges = 512
	// maxSweeps bounds those that wait.
	maxSweeps = 64
)

// sweep is one pass over the rows of the map-cache.
type sweep struct {
	reinstall  bool // tell the data plane every entry anew
	reschedule bool // work out every entry's deadline anew; the rest is for wide replies
	startedAt  instant
	cursor     uint32
	asked      lisp.Prefix
	whole      lisp.Prefix // what the reply speaks of
	records    []sweptRecord
}

// sweptRecord is a record of a wide reply, and when it expires because of what it covers.
type sweptRecord struct {
	prefix    lisp.Prefix
	expiresAt instant
}

// sweeps are the passes that wait, the first under way.
type sweeps struct {
	queue  []sweep
	timers deadlines // one row
}

// startSweep queues a pass.
func (r *itr) startSweep(s sweep) {
	if len(r.sweeps.queue) >= maxSweeps {
		r.h.count(RefusedSweepTable)
		return
	}
	s.startedAt = r.h.now
	r.sweeps.queue = append(r.sweeps.queue, s)
	r.sweeps.timers.set(0, r.h.now+1)
}

// handleSweepTimeout does one batch of the first pass.
func (r *itr) handleSweepTimeout(uint32) {
	s := &r.sweeps.queue[0]
	rows := uint32(r.cache.entries.len())
	end := min(s.cursor+sweepRows, rows)
	changes := 0
	for ; s.cursor < end && changes < sweepChanges; s.cursor++ {
		if r.sweepRow(s, s.cursor) {
			changes++
		}
	}
	if s.cursor >= rows {
		r.endSweep(s)
		r.sweeps.queue = slices.Delete(r.sweeps.queue, 0, 1)
	}
	if len(r.sweeps.queue) > 0 {
		r.sweeps.timers.set(0, r.h.now+1) // the next turn
	}
}

// sweepRow looks at one entry and reports whether that was much work.
func (r *itr) sweepRow(s *sweep, id uint32) (changed bool) {
	e := r.cache.entries.at(id)
	switch {
	case e.mapping.Prefix.IsZero():
		return false
	case s.reinstall || s.reschedule:
		if s.reinstall {
			r.emitInstall(id)
		}
		if s.reschedule {
			r.schedule(id)
		}
		return true
	case e.static || e.refreshedAt > s.startedAt || !s.whole.Covers(e.mapping.Prefix) || s.names(e.mapping.Prefix):
		return false
	case contradicts(s.asked, e):
		r.remove(id, RemoveReplaced)
		return true
	}
	for i := range s.records {
		if s.records[i].prefix.Covers(e.mapping.Prefix) {
			s.records[i].expiresAt = min(s.records[i].expiresAt, e.expiresAt)
		}
	}
	return false
}

func (s *sweep) names(p lisp.Prefix) bool {
	return slices.ContainsFunc(s.records, func(r sweptRecord) bool { return r.prefix == p })
}

// endSweep shortens the lives of the records that cover others which end earlier.
func (r *itr) endSweep(s *sweep) {
	for _, record := range s.records {
		id, e, ok := r.cache.get(record.prefix)
		if !ok || e.static || e.refreshedAt > s.startedAt || record.expiresAt >= e.expiresAt {
			continue
		}
		e.expiresAt = max(record.expiresAt, r.h.now)
		r.emitInstall(id)
		r.schedule(id)
	}
}

// contradicts reports whether a Map-Reply about asked that does not name the entry
// means that it is over: it covers what was asked, or says that there is nothing. Other
// positive entries may be of another site.
func contradicts(asked lisp.Prefix, e *cacheEntry) bool {
	return e.mapping.Prefix.Covers(asked) || e.mapping.Negative() || e.gleaned
}
