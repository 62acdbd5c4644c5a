// SPDX-License-Identifier: Apache-2.0

package control

// The static mappings of a configuration, brought into the map-cache a batch a turn: first those that
// are gone are taken out, then the others are put in where they are not as they should be. Until its
// turn comes a mapping stays as it was. Few, and those that a Node begins with, take no turn of their own.

import "loci/lisp"

const (
	// staticRows and staticChanges bound one turn.
	staticRows    = 1024
	staticChanges = 128
)

// staticChange is how the static mappings differ from those before.
type staticChange struct {
	gone   []lisp.Prefix // static before, and not now
	wanted map[lisp.Prefix]struct{}
}

// statics is the pass under way.
type statics struct {
	gone    []lisp.Prefix // to be taken out, unless wanted says otherwise by now
	wanted  map[lisp.Prefix]struct{}
	to      []lisp.Mapping // to be put in
	timers  deadlines      // one row: the next batch
	changes int            // of the batch
}

// configureStatic begins a pass; what an unfinished one has left to take out comes first.
func (r *itr) configureStatic(c staticChange, atOnce bool) {
	s := &r.statics
	if len(s.gone) == 0 {
		s.gone = c.gone
	} else {
		s.gone = append(s.gone[:len(s.gone):len(s.gone)], c.gone...)
	}
	s.wanted, s.to = c.wanted, r.config.StaticMappings
	for r.handleStatic(0); atOnce && r.statics.timers.next() != never; {
		r.handleStatic(0)
	}
}

// handleStatic does one batch.
func (r *itr) handleStatic(uint32) {
	s := &r.statics
	s.changes = 0
	s.timers.remove(0)
	left := staticRows
	for ; left > 0 && len(s.gone) > 0 && s.changes < staticChanges; left-- {
		r.takeOutStatic(s.gone[0])
		s.gone = s.gone[1:]
	}
	for ; left > 0 && len(s.to) > 0 && s.changes < staticChanges; left-- {
		r.putStatic(s.to[0])
		s.to = s.to[1:]
	}
	if len(s.gone)+len(s.to) > 0 {
		s.timers.set(0, r.h.now+1) // the next turn
		return
	}
	s.gone, s.to, s.wanted = nil, nil, nil
}

func (r *itr) takeOutStatic(p lisp.Prefix) {
	if _, again := r.statics.wanted[p]; again {
		return
	}
	if id, _, ok := r.cache.get(p); ok {
		r.remove(id, RemoveConfigured)
		r.statics.changes++
	}
}

func (r *itr) putStatic(m lisp.Mapping) {
	if _, e, ok := r.cache.get(m.Prefix); !ok || !e.static || !e.mapping.Equal(m) {
		r.put(cacheEntry{mapping: m, static: true, expiresAt: never})
		r.statics.changes++
	}
}
