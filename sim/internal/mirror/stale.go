// SPDX-License-Identifier: Apache-2.0

package mirror

// The exception of within-ttl: a mapping that is used past its TTL. What allows it is judged by what came in on the wire, apart from
// what the Node believes.

import (
	"cmp"
	"time"

	"loci/control"
	"loci/lisp"
)

const (
	staleAtMost = 24 * time.Hour
	// staleLife is how old a sign of life may be, staleStart how long none is needed after a start, or when a sibling gave the mapping.
	staleLife  = time.Minute
	staleStart = 15 * time.Second
	// staleUse is how long ago packets may have used a mapping: a minute, and what the report of it may take.
	staleUse = time.Minute + 30*time.Second
	// staleSlack is for messages under way.
	staleSlack = time.Second
)

// Staleness is what mappings past their TTLs are judged by, by the router's clock.
type Staleness struct {
	Now, StartedAt time.Time
	Public         bool          // packets from an RLOC are no sign of life
	Limit          time.Duration // as configured, 0 for a day
}

// NoteStale notes since when an entry that is being installed is past its TTL.
func (m *MapCache) NoteStale(e *control.MapCacheEntry, now time.Time) {
	p := e.Mapping.Prefix
	if _, known := m.StaleSince[p]; !e.Stale || known {
		if !e.Stale {
			delete(m.StaleSince, p)
		}
		return
	}
	m.StaleSince[p] = now
}

// NotStale says why an entry may not be used past its TTL, its use aside; nothing where it may: no Map-Reply about it came since,
// one of its locators answered an RLOC-probe or sent packets in the last minute, and it is a day at most.
func (m *MapCache) NotStale(e *control.MapCacheEntry, s Staleness) (why string) {
	p := e.Mapping.Prefix
	since, noted := m.StaleSince[p]
	switch {
	case !e.Stale || !noted || e.Gleaned || e.Mapping.Negative():
		return "not of a kind that may be stale"
	case s.Now.After(e.ExpiresAt.Add(cmp.Or(s.Limit, staleAtMost))):
		return "past its time"
	case m.Answers[p].After(since):
		return "a Map-Reply came"
	case s.begins() || s.Now.Sub(m.GivenAt[p]) < staleStart+staleSlack:
		return ""
	}
	var last time.Time
	for _, l := range e.Mapping.Locators {
		rloc := l.Path().Last()
		lives := m.Answered[rloc.Addr()]
		if heard := m.Sources[rloc]; !s.Public && heard.After(lives) {
			lives = heard
		}
		if lives.After(last) {
			last = lives
		}
	}
	if s.Now.Sub(last) < staleLife+staleSlack {
		return ""
	}
	return "no sign of life since " + s.Now.Sub(last).String()
}

// begins reports whether no locator has to show life as yet.
func (s Staleness) begins() bool { return s.Now.Sub(s.StartedAt) < staleStart+staleSlack }

// InUse reports whether packets lately used a mapping past its TTL, or one that it stays or goes with: all within the least specific
// one that is past its TTL.
func (m *MapCache) InUse(p lisp.Prefix, s Staleness, used map[lisp.Prefix]time.Time) bool {
	root := p
	for other := range m.StaleSince {
		if _, there := m.Entries[other]; there && other.Covers(root) {
			root = other
		}
	}
	for other, last := range used {
		if given := m.GivenAt[other]; given.After(last) { // the sibling's packets use it
			last = given
		}
		if root.Covers(other) && s.Now.Sub(last) < staleUse+staleSlack {
			return true
		}
	}
	return s.Now.Sub(s.StartedAt) < staleUse+staleSlack // an earlier run's use is not known
}
