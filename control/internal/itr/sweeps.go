// SPDX-License-Identifier: Apache-2.0

package itr

// Work on the map-cache that is too much for one event-loop iteration: what a wide Map-Reply means for
// many thousand more specific entries (RFC 9301 s.5.5), or another policy or idle time for all
// of them. A sweep goes once through the rows of the table, a batch per event-loop iteration. It never
// touches an entry that is newer than itself.

import (
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/lisp"
)

const (
	// SweepBatch bounds the rows of one event-loop iteration.
	SweepBatch = 8192
	// SweptChangeCost is how many of them a row counts for that is changed.
	SweptChangeCost = 16
	// MaxSweeps bounds those that wait.
	MaxSweeps = 64
)

// StartSweep queues a pass.
func (r *ITR) StartSweep(s Sweep) {
	if len(r.Sweeps.Queue) >= MaxSweeps {
		r.h.Count(counter.RefusedSweepTable)
		return
	}
	s.startedAt = r.h.Now
	r.Sweeps.Queue = append(r.Sweeps.Queue, s)
	r.Sweeps.Work.At(r.h.Now + 1)
}

// HandleSweep does one batch.
func (r *ITR) HandleSweep() { r.Sweeps.Work.Run(r.h.Now, SweepBatch, r.sweepStep) }

// sweepStep looks at the next row of the first pass.
func (r *ITR) sweepStep() (cost int, more bool) {
	s := &r.Sweeps.Queue[0]
	rows := uint32(r.Cache.Entries.Len())
	cost = 1
	if s.Cursor < rows && r.sweepRow(s, s.Cursor) {
		cost = SweptChangeCost
	}
	if s.Cursor++; s.Cursor >= rows {
		r.endSweep(s)
		r.Sweeps.Queue = slices.Delete(r.Sweeps.Queue, 0, 1)
	}
	return cost, len(r.Sweeps.Queue) > 0
}

// sweepRow looks at one entry and reports whether that was much work.
func (r *ITR) sweepRow(s *Sweep, id uint32) (changed bool) {
	e := r.Cache.Entries.At(id)
	switch {
	case e.Mapping.Prefix.IsZero():
		return false
	case s.Reinstall || s.reschedule:
		if s.Reinstall {
			r.emitInstall(id)
		}
		if s.reschedule {
			r.schedule(id)
		}
		return true
	case e.Static || e.RefreshedAt > s.startedAt || !s.whole.Covers(e.Mapping.Prefix) || s.names(e.Mapping.Prefix):
		return false
	case contradicts(s.asked, e):
		r.Remove(id, effect.RemoveReplaced)
		return true
	}
	for i := range s.records {
		if s.records[i].prefix.Covers(e.Mapping.Prefix) {
			s.records[i].expiresAt = min(s.records[i].expiresAt, e.ExpiresAt)
		}
	}
	return false
}

func (s *Sweep) names(p lisp.Prefix) bool {
	return slices.ContainsFunc(s.records, func(r sweptRecord) bool { return r.prefix == p })
}

// endSweep shortens the lives of the records that cover others which end earlier.
func (r *ITR) endSweep(s *Sweep) {
	for _, record := range s.records {
		id, e, ok := r.Cache.Get(record.prefix)
		if !ok || e.Static || e.RefreshedAt > s.startedAt || record.expiresAt >= e.ExpiresAt {
			continue
		}
		e.ExpiresAt = max(record.expiresAt, r.h.Now)
		r.emitInstall(id)
		r.schedule(id)
	}
}

// contradicts reports whether a Map-Reply about asked that does not name the entry
// means that it is over: it covers what was asked, or says that there is nothing. Other
// positive entries may be of another site.
func contradicts(asked lisp.Prefix, e *mapcache.Entry) bool {
	return e.Mapping.Prefix.Covers(asked) || e.Mapping.Negative() || e.Gleaned
}
