// SPDX-License-Identifier: Apache-2.0

package itr

// The static mappings of a configuration, brought into the map-cache a batch per event-loop iteration: first those
// that are gone are taken out, then the others are put in where they are not as they should be. Until then a
// mapping stays as it was. Few, and those that a Node begins with, are put in at once.

import (
	"loci/control/internal/batch"
	"loci/control/internal/effect"
	"loci/control/internal/mapcache"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// StaticBatch bounds the mappings of one event-loop iteration.
	StaticBatch = 1024
	// StaticChangeCost is how many of them one counts for that is put in or taken out.
	StaticChangeCost = 8
)

// StaticChange is how the static mappings differ from those before.
type StaticChange struct {
	Gone   []lisp.Prefix // static before, and not now
	Wanted map[lisp.Prefix]struct{}
}

// statics is the pass under way.
type statics struct {
	h      *system.System
	cache  *mapCache
	gone   []lisp.Prefix // to be taken out, unless wanted says otherwise by now
	wanted map[lisp.Prefix]struct{}
	To     []lisp.Mapping // to be put in
	Work   batch.Work
}

// configure begins a pass; what an unfinished one has left to take out comes first.
func (s *statics) configure(c StaticChange, mappings []lisp.Mapping, atOnce bool) {
	if len(s.gone) == 0 {
		s.gone = c.Gone
	} else {
		s.gone = append(s.gone[:len(s.gone):len(s.gone)], c.Gone...)
	}
	s.wanted, s.To = c.Wanted, mappings
	for s.Handle(); atOnce && s.Work.Waits(); {
		s.Handle()
	}
}

// Handle does one batch.
func (s *statics) Handle() {
	if !s.Work.Run(s.h.Now, StaticBatch, s.step) {
		s.gone, s.To, s.wanted = nil, nil, nil
	}
}

// step takes out the next mapping that is gone, or else puts in the next one.
func (s *statics) step() (cost int, more bool) {
	changed := false
	switch {
	case len(s.gone) > 0:
		changed = s.takeOut(s.gone[0])
		s.gone = s.gone[1:]
	case len(s.To) > 0:
		changed = s.put(s.To[0])
		s.To = s.To[1:]
	}
	if cost = 1; changed {
		cost = StaticChangeCost
	}
	return cost, len(s.gone)+len(s.To) > 0
}

func (s *statics) takeOut(p lisp.Prefix) (changed bool) {
	if _, again := s.wanted[p]; again {
		return false
	}
	id, e, ok := s.cache.Get(p)
	if !ok || e.ByNAT {
		return false
	}
	s.cache.Remove(id, effect.RemoveConfigured)
	if m, displaced := s.cache.displaced[p]; displaced {
		delete(s.cache.displaced, p)
		s.cache.PutNAT(m)
	}
	return true
}

func (s *statics) put(m lisp.Mapping) (changed bool) {
	_, e, ok := s.cache.Get(m.Prefix)
	switch {
	case ok && e.Static && e.ByNAT:
		s.cache.displaced[m.Prefix] = NATMapping{e.Mapping, e.Registered}
	case ok && e.Static && e.Mapping.Equal(m):
		return false
	}
	s.cache.Install(mapcache.Entry{Mapping: m, Static: true, ExpiresAt: timing.Never})
	return true
}
