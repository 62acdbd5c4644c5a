// SPDX-License-Identifier: Apache-2.0

package mirror

// The exception of within-ttl: a mapping that is used past its TTL. What allows it is judged by what came in on the wire, apart from
// what the Node believes.

import (
	"iter"
	"time"

	"loci/control"
	"loci/lisp"
)

const (
	staleAtMost = 24 * time.Hour
	// staleLife is how old a sign of life may be, staleStart how long none is needed after a start.
	staleLife  = time.Minute
	staleStart = 15 * time.Second
	// staleSlack is for messages under way.
	staleSlack = time.Second
)

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

// MayBeStale reports whether an entry may be used past its TTL: no Map-Reply about it came since, one of its locators answered an
// RLOC-probe or sent packets in the last minute, and it is a day at most.
func (m *MapCache) MayBeStale(e *control.MapCacheEntry, now, startedAt time.Time, sources iter.Seq2[lisp.RLOC, time.Time]) bool {
	since, noted := m.StaleSince[e.Mapping.Prefix]
	if !e.Stale || !noted || e.Gleaned || e.Mapping.Negative() || now.After(e.ExpiresAt.Add(staleAtMost)) {
		return false
	}
	if m.Answers[e.Mapping.Prefix].After(since) {
		return false
	}
	if now.Sub(startedAt) < staleStart+staleSlack {
		return true
	}
	for _, l := range e.Mapping.Locators {
		last := l.Path().Last().Addr()
		if now.Sub(m.Answered[last]) < staleLife+staleSlack {
			return true
		}
	}
	for rloc, at := range sources {
		for _, l := range e.Mapping.Locators {
			if l.Path().Last() == rloc && now.Sub(at) < staleLife+staleSlack {
				return true
			}
		}
	}
	return false
}
