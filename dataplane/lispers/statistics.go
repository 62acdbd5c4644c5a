// SPDX-License-Identifier: Apache-2.0

package lispers

// The data plane's statistics: differences of the plane's counters since the last
// report that was sent, in messages that the control plane reads whole. What cannot
// be sent is not lost: it is in the next report. They refresh the TTLs of mappings in
// use there; nothing here changes a TTL.

import (
	"math/bits"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// report is what the control plane was told so far.
type report struct {
	mappings map[lisp.Prefix]told // of entries in use alone
	decap    [decapWordCount]decapTold
}

// told is the use of an entry that was reported.
type told struct {
	createdAt       time.Time // an entry that was removed and came again begins anew
	packets, octets uint64
}

type decapTold struct {
	packets, octets uint64
	movedAt         time.Time // when a difference was last seen
}

func (s *Server) sendStatistics() {
	if !s.endpoint.connected() {
		return
	}
	s.sendMappingStatistics()
	s.sendDecapStatistics()
}

// sendMappingStatistics reports each entry that was used.
func (s *Server) sendMappingStatistics() {
	now := s.options.Now()
	next := map[lisp.Prefix]told{}
	batch := statisticsBatch{server: s, next: next}
	for entry := range s.plane.Mappings() {
		if entry.Usage.Packets == 0 {
			continue
		}
		prefix := entry.Mapping.Prefix
		before, known := s.report.mappings[prefix]
		if !known || !before.createdAt.Equal(entry.CreatedAt) || entry.Usage.Packets < before.packets {
			before = told{createdAt: entry.CreatedAt}
		}
		next[prefix] = before
		if entry.Usage.Packets > before.packets {
			batch.add(usedEntry{entry: entry, before: before, age: max(0, now.Sub(entry.Usage.LastUsedAt).Seconds())})
		}
	}
	batch.flush()
	s.report.mappings = next
}

// usedEntry is an entry that was used since the report before.
type usedEntry struct {
	entry  dataplane.MapCacheEntry
	before told
	age    float64
}

// statisticsBatch gathers entries into messages of at most MaxToControlPlane octets.
type statisticsBatch struct {
	server  *Server
	next    map[lisp.Prefix]told // what was told, for the next time
	message statisticsMessage
	octets  int
}

// statisticsFrame is the length of a message around its entries.
const statisticsFrame = len(`{"type":"statistics","entries":[]}`)

// add puts an entry into messages, in parts when its locators are many.
func (b *statisticsBatch) add(u usedEntry) {
	rlocs := shareOut(u)
	for len(rlocs) > 0 {
		part := statisticsEntry{prefix: u.entry.Mapping.Prefix}
		frame := len(encode(part.json())) + 1
		room := MaxToControlPlane - statisticsFrame - b.octets - frame
		n, octets := fitting(rlocs, room)
		if n == 0 {
			b.flush()
			continue
		}
		part.rlocs, rlocs = rlocs[:n], rlocs[n:]
		b.message.entries = append(b.message.entries, part)
		b.octets += frame + octets
	}
}

// fitting says how many locators fit into room, and their octets. Into an empty
// message at least one fits: it has fewer than 200 octets.
func fitting(rlocs []rlocUse, room int) (n, octets int) {
	for _, r := range rlocs {
		length := len(encode(r.json())) + 1
		if octets+length > room {
			break
		}
		n, octets = n+1, octets+length
	}
	return n, octets
}

// flush sends what was gathered. What the control plane got counts as told, part by
// part.
func (b *statisticsBatch) flush() {
	if len(b.message.entries) > 0 && b.server.send(b.message.json()) {
		for _, e := range b.message.entries {
			t := b.next[e.prefix]
			for _, r := range e.rlocs {
				t.packets, t.octets = t.packets+r.use.packets, t.octets+r.use.octets
			}
			b.next[e.prefix] = t
		}
	}
	b.message, b.octets = statisticsMessage{}, 0
}

// shareOut makes an entry's use that of its locators. Engines count by mapping, so it
// is shared out by weight among the locators that packets go to; the sum is exact.
func shareOut(u usedEntry) []rlocUse {
	packets, octets := u.entry.Usage.Packets-u.before.packets, u.entry.Usage.Octets-min(u.before.octets, u.entry.Usage.Octets)
	best := u.entry.Mapping.Locators.Best()
	if len(best) == 0 {
		return nil
	}
	var total uint64
	for _, l := range best {
		total += uint64(l.Weight)
	}
	list, left := make([]rlocUse, 0, len(best)), packets
	for i, l := range best {
		weight, of := uint64(l.Weight), total
		if total == 0 {
			weight, of = 1, uint64(len(best))
		}
		part := portion(packets, weight, of)
		if i == len(best)-1 {
			part = left
		}
		left -= part
		if part > 0 {
			list = append(list, rlocUse{rloc: l.NextHop().WithPort(0), port: portOf(l.NextHop()), use: use{packets: part, age: u.age}})
		}
	}
	left = octets
	for i := range list {
		part := portion(octets, list[i].use.packets, packets)
		if i == len(list)-1 {
			part = left
		}
		left -= part
		list[i].use.octets = part
	}
	return list
}

// portion is n*weight/of without overflow; weight is at most of.
func portion(n, weight, of uint64) uint64 {
	high, low := bits.Mul64(n, weight)
	quotient, _ := bits.Div64(high, low, of)
	return quotient
}

// decapReasons says under which word a reason for drops is reported. Reasons of the
// site's own making (no such EID, ECN) have no word there.
var decapReasons = map[string][]string{
	wordLISPHeader:   {"lisp-header-truncated", "reserved-bit"},
	wordNoKey:        {"key-id"},
	wordInnerVersion: {"inner-malformed"},
	wordOuterHeader:  {"outer-malformed"},
}

// sendDecapStatistics reports what came from the core, when anything did.
func (s *Server) sendDecapStatistics() {
	now, counters := s.options.Now(), s.plane.Counters()
	next := s.report.decap
	m := decapStatisticsMessage{counts: map[string]use{}}
	moved := false
	for i, word := range decapWords {
		current := use{packets: counters.DecapsulatedPackets, octets: counters.DecapsulatedOctets}
		if i != decapWordGoodIndex {
			current = use{}
			for _, reason := range decapReasons[word] {
				current.packets += counters.Drops[reason]
			}
		}
		before := &next[i]
		if current.packets < before.packets || current.octets < before.octets {
			*before = decapTold{} // the plane's counters began anew
		}
		difference := use{packets: current.packets - before.packets, octets: current.octets - before.octets}
		if difference.packets > 0 {
			moved, before.movedAt = true, now
		}
		if !before.movedAt.IsZero() {
			difference.age = max(0, now.Sub(before.movedAt).Seconds())
		}
		before.packets, before.octets = current.packets, current.octets
		m.counts[word] = difference
	}
	if moved && s.send(m.json()) {
		s.report.decap = next
	}
}
