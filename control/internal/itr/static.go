// SPDX-License-Identifier: Apache-2.0

package itr

// The static mappings of a configuration, brought into the map-cache a batch per event-loop iteration: first those
// that are gone are taken out, then the others are put in where they are not as they should be. Until then a
// mapping stays as it was. Few, and those that a Node begins with, are put in at once.

import (
	"net/netip"
	"time"

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

// Mappings that NAT traversal makes are static too: everything to the RTR at a node behind a NAT, a node's EID-Prefix
// to its translated address at the RTR. They end when NAT traversal says so, and no Map-Reply replaces them.

// adoptedNATLasts is how long such a mapping of an earlier run is used until NAT traversal makes it again.
const adoptedNATLasts = time.Minute

// NATMapping is such a mapping.
type NATMapping struct {
	lisp.Mapping
	Registered bool // by a router behind a NAT, by this RTR
}

// PutNAT puts such a mapping in; where the operator has one for the same EID-Prefix, when that is gone.
func (c *mapCache) PutNAT(m NATMapping) {
	_, e, ok := c.Get(m.Prefix)
	switch {
	case ok && e.Static && !e.ByNAT:
		c.displaced[m.Prefix] = m
	case ok && e.Static && e.Mapping.Equal(m.Mapping) && e.Registered == m.Registered:
	default:
		c.Install(mapcache.Entry{
			Mapping: m.Mapping, Static: true, ByNAT: true, Registered: m.Registered, ExpiresAt: timing.Never,
		})
	}
}

// isRegistered reports whether this RTR forwards a mapping's packets to a router behind a NAT.
func isRegistered(e *mapcache.Entry) bool { return e.ByNAT && e.Registered }

// AskForNAT asks for the mapping of an EID-Prefix that a router behind a NAT registered by this RTR, and that may be
// another one, at the rate that such Map-Requests have.
func (r *ITR) AskForNAT(p lisp.Prefix) {
	if _, e, ok := r.Cache.Get(p); ok && isRegistered(e) {
		r.Requester.askForNews(PendingRequest{Prefix: p}, p)
	}
}

// takeLeft takes a mapping in place of one of NAT traversal, where the Map-Reply to a Map-Request for just that
// EID-Prefix says that this RTR leads there no more. Until its TTL ends packets are relayed as before (s.5.5).
func (r *ITR) takeLeft(asked lisp.Prefix, m lisp.Mapping, from netip.AddrPort) bool {
	if _, e, ok := r.Cache.Get(m.Prefix); !ok || m.Prefix != asked || !isRegistered(e) || !r.Leaves(m) {
		return false
	}
	r.TakeRecord(m, from, nil)
	if id, e, ok := r.Cache.Get(m.Prefix); ok && !e.Static {
		e.Registered = true
		r.Cache.emitInstall(id)
	}
	return true
}

// RemoveNAT takes one out.
func (c *mapCache) RemoveNAT(p lisp.Prefix, reason effect.RemoveReason) {
	delete(c.displaced, p)
	if id, e, ok := c.Get(p); ok && e.ByNAT {
		c.Remove(id, reason)
	}
}
