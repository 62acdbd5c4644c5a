// SPDX-License-Identifier: Apache-2.0

package itr

// Work on the map-cache that is too much for one event-loop iteration: what a wide Map-Reply means for
// many thousand more specific entries (RFC 9301 s.5.5), another policy or idle time for all of them, or a NAT that a
// router came behind. A sweep goes once through the rows of the table, a batch per event-loop iteration. It never
// touches an entry that is newer than itself.

import (
	"slices"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/system"
	"loci/control/internal/timing"
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

// Sweep is one pass over the rows of the map-cache.
type Sweep struct {
	Reinstall  bool          // tell the data plane every entry anew
	Defaults   []lisp.Prefix // go to RTRs now: what was learnt of more specific EID-Prefixes ends
	reschedule bool          // work out every entry's deadline anew
	// came to be ours, or are no more: entries with them are told anew; the rest is for wide replies
	rlocs     []lisp.RLOC
	startedAt timing.Instant
	Cursor    uint32
	asked     lisp.Prefix
	whole     lisp.Prefix // what the reply speaks of
	records   []sweptRecord

	unregistered bool // it says that nothing is registered
}

// sweptRecord is a record of a wide reply, and when it expires because of what it covers.
type sweptRecord struct {
	prefix    lisp.Prefix
	expiresAt timing.Instant
}

// sweeps are the passes that wait, the first under way.
type sweeps struct {
	h     *system.System
	cache *mapCache
	Queue []Sweep
	Work  batch.Work
}

// Start queues a pass.
func (w *sweeps) Start(s Sweep) {
	if len(w.Queue) >= MaxSweeps {
		w.h.Count(counter.RefusedSweepTable)
		return
	}
	s.startedAt = w.h.Now
	w.Queue = append(w.Queue, s)
	w.Work.At(w.h.Now + 1)
}

// Handle does one batch.
func (w *sweeps) Handle() { w.Work.Run(w.h.Now, SweepBatch, w.step) }

// step looks at the next row of the first pass.
func (w *sweeps) step() (cost int, more bool) {
	s := &w.Queue[0]
	rows := uint32(w.cache.Entries.Len())
	cost = 1
	if s.Cursor < rows && w.row(s, s.Cursor) {
		cost = SweptChangeCost
	}
	if s.Cursor++; s.Cursor >= rows {
		w.end(s)
		w.Queue = slices.Delete(w.Queue, 0, 1)
	}
	return cost, len(w.Queue) > 0
}

// row looks at one entry and reports whether that was much work.
func (w *sweeps) row(s *Sweep, id uint32) (changed bool) {
	e := w.cache.Entries.At(id)
	switch {
	case e.Mapping.Prefix.IsZero():
		return false
	case len(s.Defaults) > 0:
		return w.endLearnt(s, id)
	case s.Reinstall || s.reschedule || len(s.rlocs) > 0:
		install := s.Reinstall || hasAny(e.Mapping.Locators, s.rlocs)
		if install {
			w.cache.emitInstall(id)
		}
		if s.reschedule {
			w.cache.schedule(id)
		}
		return install || s.reschedule
	case e.Static || e.RefreshedAt > s.startedAt || !s.whole.Covers(e.Mapping.Prefix) || s.names(e.Mapping.Prefix):
		return false
	case w.cache.contradicts(s.asked, s.unregistered, e):
		w.cache.Remove(id, effect.RemoveReplaced)
		return true
	}
	for i := range s.records {
		if s.records[i].prefix.Covers(e.Mapping.Prefix) {
			s.records[i].expiresAt = min(s.records[i].expiresAt, e.ExpiresAt)
		}
	}
	return false
}

// endLearnt removes an entry that was learnt before its packets were to go to RTRs: an ETR that checks sources takes
// nothing from the address of a NAT, and no answer to an RLOC-probe would pass it.
func (w *sweeps) endLearnt(s *Sweep, id uint32) (changed bool) {
	e := w.cache.Entries.At(id)
	covers := func(p lisp.Prefix) bool { return p.Covers(e.Mapping.Prefix) }
	if e.Static || e.RefreshedAt > s.startedAt || !slices.ContainsFunc(s.Defaults, covers) {
		return false
	}
	w.cache.Remove(id, effect.RemoveReplaced)
	return true
}

func (s *Sweep) names(p lisp.Prefix) bool {
	return slices.ContainsFunc(s.records, func(r sweptRecord) bool { return r.prefix == p })
}

// end shortens the lives of the records that cover others which end earlier.
func (w *sweeps) end(s *Sweep) {
	for _, record := range s.records {
		id, e, ok := w.cache.Get(record.prefix)
		if !ok || e.Static || e.RefreshedAt > s.startedAt || record.expiresAt >= e.ExpiresAt {
			continue
		}
		e.ExpiresAt = max(record.expiresAt, w.h.Now)
		w.cache.emitInstall(id)
		w.cache.schedule(id)
	}
}

// contradicts reports whether a Map-Reply about asked that does not name the entry
// means that it is over: it covers what was asked, says that there is nothing, or is past its TTL. Other
// positive entries may be of another site, and one that was lost says the same as an answer that nothing is registered.
func (c *mapCache) contradicts(asked lisp.Prefix, unregistered bool, e *mapcache.Entry) bool {
	p := e.Mapping.Prefix
	if unregistered && !p.Covers(asked) && c.Lost.Has(p) {
		return false
	}
	return p.Covers(asked) || e.Mapping.Negative() || e.Gleaned || e.Stale
}
