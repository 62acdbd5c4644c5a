// SPDX-License-Identifier: Apache-2.0

package duplicates

// One own EID-Prefix a minute, in turn; what was answered wrong is asked for again next. Two such answers in a row make a duplicate.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/database"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// Interval is how far apart the Map-Requests are.
	Interval = time.Minute
	// Settled is how long after a change of our mappings they begin: until then the mapping system may have those before.
	Settled = 4 * time.Minute
	// Limit bounds the duplicates that are known.
	Limit = 64
	// shift bounds how much longer an interval is while nothing is wrong. Two routers that register in turn, a minute apart, are in
	// force in turn: a Map-Request at the same moment of each minute might meet the same one for ever.
	shift = Interval / 4
	// patience is how long an answer may take.
	patience = 10 * time.Second
)

// duplicate is an EID-Prefix that was answered without an RLOC of ours, once at least.
type duplicate struct {
	prefix lisp.Prefix
	since  timing.Instant // of the first such answer
	rloc   lisp.RLOC      // of the other router
	from   netip.AddrPort // who said so
	row    int            // how many answers in a row differ from what is known
	known  bool
}

// question is the Map-Request that is under way.
type question struct {
	nonce  uint64 // 0 for none
	prefix lisp.Prefix
	to     netip.AddrPort
	at     timing.Instant
}

// Watch has what is suspected and known.
type Watch struct {
	h      *system.System
	own    *database.Database
	merges map[string]bool // sites whose registrations are merged with those of other routers
	found  []duplicate
	asked  question
	last   lisp.Prefix // of the Database, asked for last
	turn   int         // of the duplicates that are known
	Timers timing.Deadlines

	// Ask sends a Map-Request for an EID-Prefix to a Map-Resolver; ok is false where none was sent.
	Ask func(lisp.Prefix) (nonce uint64, to netip.AddrPort, ok bool)
}

// New makes a watch of nothing.
func New(h *system.System) *Watch { return &Watch{h: h, own: database.New(nil)} }

// Configure takes over an ETR's configuration, nil for one that asks nothing. Other routers of the site that it knows of may
// have its EID-Prefixes.
func (w *Watch) Configure(c *settings.ETRConfig, own *database.Database) {
	w.own, w.merges = own, map[string]bool{}
	if c == nil || len(c.Siblings) > 0 || len(c.MapServers) == 0 {
		w.own = database.New(nil)
		c = &settings.ETRConfig{}
	}
	for _, p := range c.MapServers {
		w.merges[p.Site] = w.merges[p.Site] || p.MergeRequest
	}
	for i := len(w.found) - 1; i >= 0; i-- {
		if !w.watches(w.found[i].prefix) {
			w.end(i, "another router may have it now")
		}
	}
	if len(w.own.List) == 0 {
		w.Timers.Remove(0)
	} else if !w.Timers.Has(0) {
		w.Changed()
	}
}

// watches reports whether no other router that we know of may have an EID-Prefix of ours.
func (w *Watch) watches(p lisp.Prefix) bool {
	m, ok := w.own.Index.Get(p)
	return ok && !w.merges[m.Site]
}

// Changed notes that our mappings changed: what was answered before is worth nothing now.
func (w *Watch) Changed() {
	w.asked = question{}
	for len(w.found) > 0 {
		w.end(len(w.found)-1, "our mappings changed")
	}
	if len(w.own.List) > 0 {
		w.Timers.Set(0, w.h.After(Settled))
	}
}

// HandleTimeout asks for the next EID-Prefix.
func (w *Watch) HandleTimeout(uint32) {
	wait := Interval
	if len(w.found) == 0 {
		wait += w.h.Below(shift)
	}
	w.Timers.Set(0, w.h.After(wait))
	w.asked = question{}
	p, ok := w.next()
	if !ok {
		return
	}
	nonce, to, ok := w.Ask(p)
	if !ok {
		return
	}
	w.h.Count(counter.OwnMapRequestSent)
	w.asked = question{nonce, p, to, w.h.Now}
}

// next is the EID-Prefix in doubt, else one of the Database and one of the known duplicates in turn.
func (w *Watch) next() (lisp.Prefix, bool) {
	for _, d := range w.found {
		if d.row > 0 {
			return d.prefix, true
		}
	}
	if w.turn++; len(w.found) > 0 && w.turn%2 == 0 {
		return w.found[w.turn/2%len(w.found)].prefix, true
	}
	list := w.own.List
	at := 0
	if !w.last.IsZero() {
		at = w.own.After(w.last)
	}
	for range min(len(list), nextMost) {
		m := list[at%len(list)]
		at++
		w.last = m.Prefix
		if w.watches(m.Prefix) {
			return m.Prefix, true
		}
	}
	return lisp.Prefix{}, false
}

// nextMost bounds the EID-Prefixes of other sites that are passed over at a time.
const nextMost = 256

// Takes reports whether a Map-Reply answers the Map-Request under way, and judges it. took is how long it took, and to who was asked.
func (w *Watch) Takes(m *message.MapReply) (to netip.AddrPort, took timing.Instant, ok bool) {
	q := w.asked
	if q.nonce == 0 || m.Probe || m.Nonce != q.nonce {
		return to, 0, false
	}
	w.asked = question{}
	if took = w.h.Now - q.at; took <= timing.Instant(patience) {
		w.judge(q.prefix, m)
	}
	return q.to, took, true
}

// judge takes an answer about an EID-Prefix of ours. One that is negative, or about another EID-Prefix, or has locators that
// cannot be understood, says nothing of who registers it.
func (w *Watch) judge(p lisp.Prefix, m *message.MapReply) {
	at := slices.IndexFunc(m.Mappings, func(r lisp.Mapping) bool { return r.Prefix == p })
	skipped := slices.ContainsFunc(m.Skipped, func(s message.SkippedLocators) bool { return s.Prefix == p })
	i := slices.IndexFunc(w.found, func(d duplicate) bool { return d.prefix == p })
	switch {
	case at < 0 || len(m.Mappings[at].Locators) == 0 || skipped:
		if i >= 0 && !w.found[i].known { // not two in a row
			w.found = slices.Delete(w.found, i, i+1)
		}
	case w.hasOwn(m.Mappings[at].Locators):
		w.notOurs(i, false)
	default:
		if i < 0 && len(w.found) < Limit {
			i = len(w.found)
			w.found = append(w.found, duplicate{prefix: p, since: w.h.Now})
		}
		if i >= 0 {
			w.found[i].rloc, w.found[i].from = m.Mappings[at].Locators[0].RLOC, m.From
		}
		w.notOurs(i, true)
	}
}

// notOurs takes an answer without an RLOC of ours, or with one. Two in a row count.
func (w *Watch) notOurs(i int, foreign bool) {
	if i < 0 {
		return
	}
	d := &w.found[i]
	switch {
	case foreign == d.known: // as before
		if d.row = 0; !foreign {
			w.found = slices.Delete(w.found, i, i+1)
		}
	case d.row == 0:
		d.row = 1
	case foreign:
		d.known, d.row = true, 0
		w.h.Count(counter.DuplicateEID)
		w.h.Notice(effect.Notice{Kind: effect.NoticeDuplicateEID, Prefix: d.prefix, Remote: d.from, RLOC: d.rloc.String(), Detail: "another router registers it, and does not know of this one"})
	default:
		w.end(i, "the mapping system has an RLOC of ours")
	}
}

// end forgets what was known.
func (w *Watch) end(i int, why string) {
	d := w.found[i]
	w.found = slices.Delete(w.found, i, i+1)
	if d.known {
		w.h.Notice(effect.Notice{Kind: effect.NoticeDuplicateEIDEnded, Prefix: d.prefix, RLOC: d.rloc.String(), Detail: why})
	}
}

// hasOwn reports whether one of the locators, or a hop of its path, is ours.
func (w *Watch) hasOwn(set lisp.LocatorSet) bool {
	for i := range set {
		path := set[i].Path()
		for hop := range path.Len() {
			r := path.Hop(hop)
			if slices.Contains(w.h.RLOCs, r) || w.own.Has(r) {
				return true
			}
		}
	}
	return false
}

// Known lists the duplicates, in the order in which they were found.
func (w *Watch) Known() (list []status.DuplicateEID) {
	for _, d := range w.found {
		if d.known {
			list = append(list, status.DuplicateEID{Prefix: d.prefix, RLOC: d.rloc, From: d.from, Since: w.h.Time(d.since)})
		}
	}
	return list
}
