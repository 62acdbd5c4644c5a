// SPDX-License-Identifier: Apache-2.0

// This file sums up what programs and user space count, under the names of
// docs/counters.md. It never resets anything: totals go on over restarts.

package kernel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"loci/dataplane"
	"loci/forward"
)

// otherCounters names the programs' counters that have no field of their own in
// dataplane.Counters.
var otherCounters = map[lisptcLispCounterIndex]string{
	lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_IPV4: "encapsulated-ipv4",
	lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_IPV6: "encapsulated-ipv6",
	lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_IPV4: "decapsulated-ipv4",
	lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_IPV6: "decapsulated-ipv6",
	lisptcLispCounterIndexLISP_COUNTER_WAITING:           "put-aside",
	lisptcLispCounterIndexLISP_COUNTER_TOO_BIG:           "too-big",
	lisptcLispCounterIndexLISP_COUNTER_TRANSMITTED:       "transmitted",
	lisptcLispCounterIndexLISP_COUNTER_ECN_ALARM:         "ecn-alarm",
	lisptcLispCounterIndexLISP_COUNTER_ECN_CURIOUS:       "ecn-curious",
	lisptcLispCounterIndexLISP_COUNTER_NONCE_AND_VERSION: "nonce-and-version",
	lisptcLispCounterIndexLISP_COUNTER_OUTER_FRAGMENT:    "outer-fragment",
	lisptcLispCounterIndexLISP_COUNTER_TO_STACK:          "to-stack",
	lisptcLispCounterIndexLISP_COUNTER_DOUBLE_TAGGED:     "double-tagged",

	lisptcLispCounterIndexLISP_COUNTER_ECHO_REQUESTED:            "echo-requested",
	lisptcLispCounterIndexLISP_COUNTER_ECHO_RETURNED:             "echo-returned",
	lisptcLispCounterIndexLISP_COUNTER_ECHO_RECEIVED:             "echo-received",
	lisptcLispCounterIndexLISP_COUNTER_ECHO_MISSING:              "echo-missing",
	lisptcLispCounterIndexLISP_COUNTER_STATUS_BITS_CHANGED:       "status-bits-changed",
	lisptcLispCounterIndexLISP_COUNTER_VERSION_STALE_DESTINATION: "version-stale-destination",
	lisptcLispCounterIndexLISP_COUNTER_VERSION_STALE_SOURCE:      "version-stale-source",
}

// otherWords names user space's counters of that kind.
var otherWords = map[int]string{
	wordTAPErrors:         "tap-errors", // the engine is degraded while it grows
	wordHandedOver:        "handed-over",
	wordPathErrorsRefused: "path-errors-refused",
	wordReassembled:       "reassembled", wordOuterFragmented: "outer-fragmented",
	wordUnreachablesSent: "unreachables-sent",
}

// OtherCounterNames lists the names that Counters.Other may have.
func OtherCounterNames() []string {
	names := slices.Sorted(maps.Values(otherWords))
	for index := range lisptcLispCounterIndexLISP_COUNTER_MAX {
		if name, ok := otherCounters[index]; ok {
			names = append(names, name)
		}
	}
	return names
}

// sums adds up a map of counters over all processors.
func (s *mapStore) sums(name string) ([]lisptcLispCounter, error) {
	m := s.maps[name]
	sums := make([]lisptcLispCounter, m.MaxEntries())
	var perCPU []lisptcLispCounter
	for index := range sums {
		if err := m.Lookup(uint32(index), &perCPU); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		for _, c := range perCPU {
			sums[index].Packets += c.Packets
			sums[index].Octets += c.Octets
		}
	}
	return sums, nil
}

// counters returns all totals but those of the waiting room.
func (s *mapStore) counters() (dataplane.Counters, error) {
	count, err1 := s.sums(lisptcMapCounters)
	drops, err2 := s.sums(lisptcMapDrops)
	if err := errors.Join(err1, err2); err != nil {
		return dataplane.Counters{}, err
	}
	out4, out6 := count[lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_IPV4], count[lisptcLispCounterIndexLISP_COUNTER_ENCAPSULATED_IPV6]
	in4, in6 := count[lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_IPV4], count[lisptcLispCounterIndexLISP_COUNTER_DECAPSULATED_IPV6]
	word := func(index int) uint64 { return atomic.LoadUint64(&s.words[index]) }
	c := dataplane.Counters{
		EncapsulatedPackets: out4.Packets + out6.Packets, EncapsulatedOctets: out4.Octets + out6.Octets,
		DecapsulatedPackets: in4.Packets + in6.Packets, DecapsulatedOctets: in4.Octets + in6.Octets,
		NativePackets:   count[lisptcLispCounterIndexLISP_COUNTER_NATIVE].Packets,
		ReleasedPackets: count[lisptcLispCounterIndexLISP_COUNTER_RELEASED].Packets,
		EventsLost:      count[lisptcLispCounterIndexLISP_COUNTER_EVENT_LOST].Packets + word(wordEventsLost),
		Drops:           map[string]uint64{}, Other: map[string]uint64{},
	}
	for _, reason := range forward.DropReasons() {
		c.Drops[reason.String()] = drops[reason].Packets + word(int(reason))
	}
	for index, name := range otherCounters {
		c.Other[name] = count[index].Packets
	}
	for index, name := range otherWords {
		c.Other[name] = word(index)
	}
	c.MissPackets = count[lisptcLispCounterIndexLISP_COUNTER_MISS].Packets
	return c, nil
}

// usage is how much an entry was used, and in which tick last; 0: never.
type usage struct {
	packets, octets uint64
	lastUsed        uint32
}

// usageOf returns how much an entry was used, summed up over the processors.
func (s *mapStore) usageOf(index uint32) usage {
	sum := usage{lastUsed: atomic.LoadUint32(&s.records[index].LastUsed)}
	for at := int(index); at < len(s.usage); at += len(s.records) {
		sum.packets += atomic.LoadUint64(&s.usage[at].Packets)
		sum.octets += atomic.LoadUint64(&s.usage[at].Octets)
	}
	return sum
}

// lastUsedShift is LISP_LAST_USED_SHIFT.
const lastUsedShift = 25

// ticksAhead is by how much a tick may be ahead of the time that it is read at, some six days: what is further ahead was a turn ago.
const ticksAhead = 1 << 24

// nanoseconds is when an entry was last used, by the time since boot, up to 34 ms early; 0: never. Ticks wrap around after four and a half years:
// now, the time since boot as well, tells which one it was.
func (u usage) nanoseconds(now uint64) uint64 {
	if u.lastUsed == 0 {
		return 0
	}
	ticks := now>>lastUsedShift + ticksAhead
	age := uint64(uint32(ticks) - u.lastUsed)
	if age > ticks { // before boot
		return uint64(u.lastUsed) << lastUsedShift
	}
	return (ticks - age) << lastUsedShift
}

// clearUsage implements tableMaps.
func (s *mapStore) clearUsage(index uint32) {
	for at := int(index); at < len(s.usage); at += len(s.records) {
		atomic.StoreUint64(&s.usage[at].Packets, 0)
		atomic.StoreUint64(&s.usage[at].Octets, 0)
	}
}
