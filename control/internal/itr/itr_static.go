// SPDX-License-Identifier: Apache-2.0

package itr

// The static mappings of a configuration, brought into the map-cache a batch a turn: first those that
// are gone are taken out, then the others are put in where they are not as they should be. Until its
// turn comes a mapping stays as it was. Few, and those that a Node begins with, take no turn of their own.

import (
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// StaticRows and StaticChanges bound one turn.
	StaticRows    = 1024
	StaticChanges = 128 // changes
)

// StaticChange is how the static mappings differ from those before.
type StaticChange struct {
	Gone   []lisp.Prefix // static before, and not now
	Wanted map[lisp.Prefix]struct{}
}

// statics is the pass under way.
type statics struct {
	gone    []lisp.Prefix // to be taken out, unless wanted says otherwise by now
	wanted  map[lisp.Prefix]struct{}
	To      []lisp.Mapping   // to be put in
	Timers  timing.Deadlines // one row: the next batch
	changes int              // of the batch
}

// configureStatic begins a pass; what an unfinished one has left to take out comes first.
func (r *ITR) configureStatic(c StaticChange, atOnce bool) {
	s := &r.Statics
	if len(s.gone) == 0 {
		s.gone = c.Gone
	} else {
		s.gone = append(s.gone[:len(s.gone):len(s.gone)], c.Gone...)
	}
	s.wanted, s.To = c.Wanted, r.config.StaticMappings
	for r.HandleStatic(0); atOnce && r.Statics.Timers.Next() != timing.Never; {
		r.HandleStatic(0)
	}
}

// HandleStatic does one batch.
func (r *ITR) HandleStatic(uint32) {
	s := &r.Statics
	s.changes = 0
	s.Timers.Remove(0)
	left := StaticRows
	for ; left > 0 && len(s.gone) > 0 && s.changes < StaticChanges; left-- {
		r.takeOutStatic(s.gone[0])
		s.gone = s.gone[1:]
	}
	for ; left > 0 && len(s.To) > 0 && s.changes < StaticChanges; left-- {
		r.putStatic(s.To[0])
		s.To = s.To[1:]
	}
	if len(s.gone)+len(s.To) > 0 {
		s.Timers.Set(0, r.h.Now+1) // the next turn
		return
	}
	s.gone, s.To, s.wanted = nil, nil, nil
}

func (r *ITR) takeOutStatic(p lisp.Prefix) {
	if _, again := r.Statics.wanted[p]; again {
		return
	}
	if id, _, ok := r.Cache.Get(p); ok {
		r.Remove(id, effect.RemoveConfigured)
		r.Statics.changes++
	}
}

func (r *ITR) putStatic(m lisp.Mapping) {
	if _, e, ok := r.Cache.Get(m.Prefix); !ok || !e.Static || !e.Mapping.Equal(m) {
		r.Put(mapcache.Entry{Mapping: m, Static: true, ExpiresAt: timing.Never})
		r.Statics.changes++
	}
}
