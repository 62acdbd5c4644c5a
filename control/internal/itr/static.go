// SPDX-License-Identifier: Apache-2.0

package itr

// The static mappings of a configuration, brought into the map-cache a batch per event-loop iteration: first those that
// are gone are taken out, then the others are put in where they are not as they should be. Until then a
// mapping stays as it was. Few, and those that a Node begins with, are put in at once.

import (
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// StaticBatch bounds the mappings of one event-loop iteration.
	StaticBatch = 1024
	// StaticChangeCost is how many of them one counts for that is put in or taken out.
	StaticChangeCost = 8
)

// configureStatic begins a pass; what an unfinished one has left to take out comes first.
func (r *ITR) configureStatic(c StaticChange, atOnce bool) {
	s := &r.Statics
	if len(s.gone) == 0 {
		s.gone = c.Gone
	} else {
		s.gone = append(s.gone[:len(s.gone):len(s.gone)], c.Gone...)
	}
	s.wanted, s.To = c.Wanted, r.config.StaticMappings
	for r.HandleStatic(); atOnce && s.Work.Waits(); {
		r.HandleStatic()
	}
}

// HandleStatic does one batch.
func (r *ITR) HandleStatic() {
	s := &r.Statics
	if !s.Work.Run(r.h.Now, StaticBatch, r.staticStep) {
		s.gone, s.To, s.wanted = nil, nil, nil
	}
}

// staticStep takes out the next mapping that is gone, or else puts in the next one.
func (r *ITR) staticStep() (cost int, more bool) {
	s, changed := &r.Statics, false
	switch {
	case len(s.gone) > 0:
		changed = r.takeOutStatic(s.gone[0])
		s.gone = s.gone[1:]
	case len(s.To) > 0:
		changed = r.putStatic(s.To[0])
		s.To = s.To[1:]
	}
	if cost = 1; changed {
		cost = StaticChangeCost
	}
	return cost, len(s.gone)+len(s.To) > 0
}

func (r *ITR) takeOutStatic(p lisp.Prefix) (changed bool) {
	if _, again := r.Statics.wanted[p]; again {
		return false
	}
	id, _, ok := r.Cache.Get(p)
	if ok {
		r.Remove(id, effect.RemoveConfigured)
	}
	return ok
}

func (r *ITR) putStatic(m lisp.Mapping) (changed bool) {
	if _, e, ok := r.Cache.Get(m.Prefix); ok && e.Static && e.Mapping.Equal(m) {
		return false
	}
	r.Put(mapcache.Entry{Mapping: m, Static: true, ExpiresAt: timing.Never})
	return true
}
