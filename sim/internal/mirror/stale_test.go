// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/lisp"
)

// TestMayBeStale: each condition of the exception by itself.
func TestMayBeStale(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := lisp.MustParsePrefix("10.2.0.0/16")
	rloc := lisp.RLOCFromAddr(netip.MustParseAddr("192.0.2.2"))
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		name   string
		change func(m *MapCache, e *control.MapCacheEntry, s *Staleness)
		want   bool
	}{
		{"answered", func(*MapCache, *control.MapCacheEntry, *Staleness) {}, true},
		{"not marked", func(_ *MapCache, e *control.MapCacheEntry, _ *Staleness) { e.Stale = false }, false},
		{"negative", func(_ *MapCache, e *control.MapCacheEntry, _ *Staleness) { e.Mapping.Locators = nil }, false},
		{"gleaned", func(_ *MapCache, e *control.MapCacheEntry, _ *Staleness) { e.Gleaned = true }, false},
		{"a day", func(_ *MapCache, e *control.MapCacheEntry, _ *Staleness) {
			e.ExpiresAt = ago(staleAtMost + time.Second)
		}, false},
		{"a Map-Reply", func(m *MapCache, _ *control.MapCacheEntry, _ *Staleness) { m.Answers[p] = ago(time.Second) }, false},
		{"no life", func(m *MapCache, _ *control.MapCacheEntry, _ *Staleness) {
			m.Answered[rloc.Addr()] = ago(2 * time.Minute)
		}, false},
		{"packets", func(m *MapCache, _ *control.MapCacheEntry, _ *Staleness) {
			m.Answered[rloc.Addr()], m.Sources[rloc] = ago(2*time.Minute), now
		}, true},
		{"packets on the public Internet", func(m *MapCache, _ *control.MapCacheEntry, s *Staleness) {
			m.Answered[rloc.Addr()], m.Sources[rloc], s.Public = ago(2*time.Minute), now, true
		}, false},
		{"just started", func(m *MapCache, _ *control.MapCacheEntry, s *Staleness) {
			clear(m.Answered)
			s.StartedAt = ago(10 * time.Second)
		}, true},
		{"just given", func(m *MapCache, _ *control.MapCacheEntry, _ *Staleness) {
			clear(m.Answered)
			m.GivenAt[p] = ago(10 * time.Second)
		}, true},
	} {
		var m MapCache
		m.Clear()
		e := control.MapCacheEntry{Mapping: lisp.Mapping{Prefix: p, Locators: lisp.LocatorSet{{RLOC: rloc, Reachable: true}}}, Stale: true, ExpiresAt: ago(time.Minute)}
		m.NoteStale(&e, ago(time.Minute))
		m.Answered[rloc.Addr()] = ago(30 * time.Second)
		s := Staleness{Now: now, StartedAt: ago(time.Hour)}
		c.change(&m, &e, &s)
		if got := m.NotStale(&e, s); (got == "") != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestInUse: a mapping past its TTL is, by itself or by what it stays with.
func TestInUse(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var m MapCache
	m.Clear()
	for _, p := range []string{"10.2.0.0/16", "10.2.1.0/24", "10.3.0.0/24"} {
		e := control.MapCacheEntry{Mapping: lisp.Mapping{Prefix: lisp.MustParsePrefix(p)}, Stale: true}
		m.Put(e)
		m.NoteStale(&e, now)
	}
	s := Staleness{Now: now, StartedAt: now.Add(-time.Hour)}
	for _, c := range []struct {
		used string
		ago  time.Duration
		want bool
	}{{"10.2.1.0/24", time.Minute, true}, {"10.2.0.0/16", time.Minute, true}, {"10.2.0.0/16", 2 * time.Minute, false}, {"10.3.0.0/24", 0, false}} {
		used := map[lisp.Prefix]time.Time{lisp.MustParsePrefix(c.used): now.Add(-c.ago)}
		for _, p := range []string{"10.2.0.0/16", "10.2.1.0/24"} {
			if got := m.InUse(lisp.MustParsePrefix(p), s, used); got != c.want {
				t.Errorf("%s, while %s was used %s ago: %v", p, c.used, c.ago, got)
			}
		}
	}
	if s.StartedAt = now.Add(-time.Minute); !m.InUse(lisp.MustParsePrefix("10.2.0.0/16"), s, nil) {
		t.Error("a minute after a start use is not known")
	}
}
