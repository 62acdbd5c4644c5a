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
	"loci/dataplane/kernel/abi"
	"loci/forward"
)

// otherCounters names the programs' counters that have no field of their own in
// dataplane.Counters.
var otherCounters = map[abi.CounterIndex]string{
	abi.CounterEncapsulatedIPv4: "encapsulated-ipv4",
	abi.CounterEncapsulatedIPv6: "encapsulated-ipv6",
	abi.CounterDecapsulatedIPv4: "decapsulated-ipv4",
	abi.CounterDecapsulatedIPv6: "decapsulated-ipv6",
	abi.CounterWaiting:          "put-aside",
	abi.CounterTooBig:           "too-big",
	abi.CounterTransmitted:      "transmitted",
	abi.CounterECNAlarm:         "ecn-alarm",
	abi.CounterECNCurious:       "ecn-curious",
	abi.CounterNonceAndVersion:  "nonce-and-version",
	abi.CounterOuterFragment:    "outer-fragment",
	abi.CounterToStack:          "to-stack",
	abi.CounterDoubleTagged:     "double-tagged",

	abi.CounterEchoRequested:           "echo-requested",
	abi.CounterEchoReturned:            "echo-returned",
	abi.CounterEchoReceived:            "echo-received",
	abi.CounterEchoMissing:             "echo-missing",
	abi.CounterStatusBitsChanged:       "status-bits-changed",
	abi.CounterVersionStaleDestination: "version-stale-destination",
	abi.CounterVersionStaleSource:      "version-stale-source",
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
	for index := range abi.CounterMax {
		if name, ok := otherCounters[index]; ok {
			names = append(names, name)
		}
	}
	return names
}

// sums adds up a map of counters over all processors.
func (s *mapStore) sums(name string) ([]abi.Counter, error) {
	m := s.maps[name]
	sums := make([]abi.Counter, m.MaxEntries())
	var perCPU []abi.Counter
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
	count, err1 := s.sums(abi.MapCounters)
	drops, err2 := s.sums(abi.MapDrops)
	if err := errors.Join(err1, err2); err != nil {
		return dataplane.Counters{}, err
	}
	out4, out6 := count[abi.CounterEncapsulatedIPv4], count[abi.CounterEncapsulatedIPv6]
	in4, in6 := count[abi.CounterDecapsulatedIPv4], count[abi.CounterDecapsulatedIPv6]
	word := func(index int) uint64 { return atomic.LoadUint64(&s.words[index]) }
	c := dataplane.Counters{
		EncapsulatedPackets: out4.Packets + out6.Packets, EncapsulatedOctets: out4.Octets + out6.Octets,
		DecapsulatedPackets: in4.Packets + in6.Packets, DecapsulatedOctets: in4.Octets + in6.Octets,
		NativePackets:   count[abi.CounterNative].Packets,
		ReleasedPackets: count[abi.CounterReleased].Packets,
		EventsLost:      count[abi.CounterEventLost].Packets + word(wordEventsLost),
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
	c.MissPackets = count[abi.CounterMiss].Packets
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

// clearUsage implements lpm.Memory.
func (s *mapStore) clearUsage(index uint32) {
	for at := int(index); at < len(s.usage); at += len(s.records) {
		atomic.StoreUint64(&s.usage[at].Packets, 0)
		atomic.StoreUint64(&s.usage[at].Octets, 0)
	}
}
