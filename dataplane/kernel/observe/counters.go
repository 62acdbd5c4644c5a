// SPDX-License-Identifier: Apache-2.0

// This file sums up what programs and user space count, under the names of
// docs/counters.md. It never resets anything: totals go on over restarts.

package observe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/store"
	"loci/forward"
)

// otherCounters names the programs' counters that have no field of their own in
// dataplane.Counters.
var otherCounters = map[abi.CounterIndex]string{
	abi.CounterEncapsulatedIPv4: "encapsulated_ipv4",
	abi.CounterEncapsulatedIPv6: "encapsulated_ipv6",
	abi.CounterDecapsulatedIPv4: "decapsulated_ipv4",
	abi.CounterDecapsulatedIPv6: "decapsulated_ipv6",
	abi.CounterWaiting:          "put_aside",
	abi.CounterTooBig:           "too_big",
	abi.CounterTransmitted:      "transmitted",
	abi.CounterECNAlarm:         "ecn_alarm",
	abi.CounterECNCurious:       "ecn_curious",
	abi.CounterNonceAndVersion:  "nonce_and_version",
	abi.CounterOuterFragment:    "outer_fragment",
	abi.CounterToStack:          "to_stack",
	abi.CounterDoubleTagged:     "double_tagged",
	abi.CounterRelayedIPv4:      "relayed_ipv4",
	abi.CounterRelayedIPv6:      "relayed_ipv6",

	abi.CounterEchoRequested:           "echo_requested",
	abi.CounterEchoReturned:            "echo_returned",
	abi.CounterEchoReceived:            "echo_received",
	abi.CounterEchoMissing:             "echo_missing",
	abi.CounterStatusBitsChanged:       "status_bits_changed",
	abi.CounterVersionStaleDestination: "version_stale_destination",
	abi.CounterVersionStaleSource:      "version_stale_source",

	abi.CounterEncapsulatedTwice: "encapsulated_twice",
	abi.CounterDecapsulatedTwice: "decapsulated_twice",
	abi.CounterSegmented:         "segmented",
	abi.CounterSubflowsLimited:   "subflows_limited",

	abi.CounterPathUnidentified: "path_unidentified",
}

// otherWords names user space's counters of that kind.
var otherWords = map[int]string{
	store.WordTAPErrors:         "tap_errors", // the engine is degraded while it grows
	store.WordHandedOver:        "handed_over",
	store.WordPathErrorsRefused: "path_errors_refused",
	store.WordReassembled:       "reassembled", store.WordOuterFragmented: "outer_fragmented",
	store.WordOuterChecksummed: "outer_checksummed",
	store.WordUnreachablesSent: "unreachables_sent",
	store.WordControlPackets:   "control_packets",
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
func sums(s *store.Store, name string) ([]abi.Counter, error) {
	m := s.Map(name)
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

// Counters returns all totals but those of the pending-packet queue.
func Counters(s *store.Store) (dataplane.Counters, error) {
	count, err1 := sums(s, abi.MapCounters)
	drops, err2 := sums(s, abi.MapDrops)
	if err := errors.Join(err1, err2); err != nil {
		return dataplane.Counters{}, err
	}
	out4, out6 := count[abi.CounterEncapsulatedIPv4], count[abi.CounterEncapsulatedIPv6]
	in4, in6 := count[abi.CounterDecapsulatedIPv4], count[abi.CounterDecapsulatedIPv6]
	relayed4, relayed6 := count[abi.CounterRelayedIPv4], count[abi.CounterRelayedIPv6]
	word := func(index int) uint64 { return atomic.LoadUint64(&s.Words[index]) }
	c := dataplane.Counters{
		EncapsulatedPackets: out4.Packets + out6.Packets, EncapsulatedOctets: out4.Octets + out6.Octets,
		DecapsulatedPackets: in4.Packets + in6.Packets, DecapsulatedOctets: in4.Octets + in6.Octets,
		RelayedPackets: relayed4.Packets + relayed6.Packets, RelayedOctets: relayed4.Octets + relayed6.Octets,
		ProxiedPackets:  count[abi.CounterProxied].Packets,
		NativePackets:   count[abi.CounterNative].Packets,
		ReleasedPackets: count[abi.CounterReleased].Packets,
		EventsLost:      count[abi.CounterEventLost].Packets + word(store.WordEventsLost),
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
