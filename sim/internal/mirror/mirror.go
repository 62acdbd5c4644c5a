// SPDX-License-Identifier: Apache-2.0

// Package mirror keeps what a simulated router was told: its map-cache as the effects of its Node made it, and which
// locators packets may take by that (RFC 9301 s.5.4, RFC 8060 s.4.6). It asks neither Node nor data plane.
package mirror

import (
	"net/netip"
	"time"

	"loci/control"
	"loci/lisp"
)

// MapCache is the map-cache as the effects made it: what packets are judged by.
type MapCache struct {
	Entries map[lisp.Prefix]control.MapCacheEntry
	lengths [2][129]int // how many entries of IPv4 and IPv6 have so many bits
	// Heard is until when a mapping may be used, by the Map-Replies on the wire.
	Heard map[lisp.Prefix]time.Time
	given map[lisp.Prefix]bool // of those, what a sibling sent
	// denied is what negative ones said, who speak of what is within as well; had is what had locators, by the others.
	denied, had map[lisp.Prefix]said

	// Answers is when a Map-Reply about an EID-Prefix last came, Answered when an RLOC last answered an RLOC-probe.
	Answers  map[lisp.Prefix]time.Time
	Answered map[netip.Addr]time.Time
	// StaleSince is when an entry came to be used past its TTL, GivenAt when a sibling last gave one.
	StaleSince, GivenAt map[lisp.Prefix]time.Time
	// Sources is when packets last came from an RLOC, as the Node was told.
	Sources map[lisp.RLOC]time.Time

	Changed     bool      // since the last sweep
	FirstExpiry time.Time // at the last sweep
}

// Clear empties it.
func (m *MapCache) Clear() {
	m.Entries, m.lengths = map[lisp.Prefix]control.MapCacheEntry{}, [2][129]int{}
	m.Heard, m.given = map[lisp.Prefix]time.Time{}, map[lisp.Prefix]bool{}
	m.denied, m.had = map[lisp.Prefix]said{}, map[lisp.Prefix]said{}
	m.Answers, m.Answered, m.StaleSince = map[lisp.Prefix]time.Time{}, map[netip.Addr]time.Time{}, map[lisp.Prefix]time.Time{}
	m.GivenAt, m.Sources = map[lisp.Prefix]time.Time{}, map[lisp.RLOC]time.Time{}
}

// Put takes an entry in, in place of the one of that EID-Prefix.
func (m *MapCache) Put(e control.MapCacheEntry) {
	if _, known := m.Entries[e.Mapping.Prefix]; !known {
		m.lengths[family(e.Mapping.Prefix)][e.Mapping.Prefix.Bits()]++
	}
	m.Entries[e.Mapping.Prefix] = e
	m.Changed = true
}

// Remove takes one out.
func (m *MapCache) Remove(p lisp.Prefix) {
	if _, known := m.Entries[p]; known {
		m.lengths[family(p)][p.Bits()]--
		delete(m.Entries, p)
		delete(m.StaleSince, p)
		m.Changed = true
	}
}

// Longest is the entry that decides for an EID.
func (m *MapCache) Longest(instance lisp.InstanceID, eid lisp.EID) (control.MapCacheEntry, bool) {
	host := lisp.HostPrefix(instance, eid)
	lengths := &m.lengths[family(host)]
	for bits := host.Bits(); bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		p, err := lisp.PrefixFrom(instance, eid, bits)
		if e, ok := m.Entries[p]; ok && err == nil {
			return e, true
		}
	}
	return control.MapCacheEntry{}, false
}

func family(p lisp.Prefix) int {
	if p.Kind() == lisp.EIDIPv6 {
		return 1
	}
	return 0
}
