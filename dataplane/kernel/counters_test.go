// SPDX-License-Identifier: Apache-2.0

// These tests hold how counters of processors become one.

package kernel

import (
	"math"
	"testing"
)

func TestUsageIsOfAllProcessors(t *testing.T) {
	counters := func(packets, octets, last uint64) lisptcLispMappingCounters {
		return lisptcLispMappingCounters{Packets: packets, Octets: octets, LastUsedNs: last}
	}
	s := &mapStore{records: make([]lisptcLispMapping, 2), usage: []lisptcLispMappingCounters{
		counters(1, 10, 5), counters(2, 20, 6), // processor 0
		counters(4, 40, 3), counters(8, 80, 9), // processor 1
	}}
	if got := s.usageOf(0); got != counters(5, 50, 5) {
		t.Errorf("entry 0: %+v", got)
	}
	s.clearUsage(0)
	if got := s.usageOf(0); got != counters(0, 0, 0) {
		t.Errorf("entry 0, cleared: %+v", got)
	}
	if got := s.usageOf(1); got != counters(10, 100, 9) {
		t.Errorf("entry 1: %+v", got)
	}
}

func TestSizesOfMaps(t *testing.T) {
	sizes, err := mapLimits{}.entries(4)
	if err != nil || sizes[lisptcMapMappings] != DefaultMappingLimit || sizes[lisptcMapMappingCounters] != 4*DefaultMappingLimit {
		t.Errorf("by default %v, %v", sizes, err)
	}
	if _, err := (mapLimits{mappings: math.MaxUint32 / 3}).entries(4); err == nil {
		t.Error("more counters than an array holds are taken")
	}
	for mappings, want := range map[int]uint32{1: 257, 20000: 20256, 1 << 16: 1<<16 + 256, 1 << 24: 1<<16 + 522240 + 256} {
		sizes, err := mapLimits{mappings: mappings}.entries(4)
		if err != nil || sizes[lisptcMapLocatorSets] != want {
			t.Errorf("%d locator-sets beside %d mappings, want %d; %v", sizes[lisptcMapLocatorSets], mappings, want, err)
		}
	}
	if sizes, err := (mapLimits{mappings: 20000, locatorSets: 5}).entries(4); err != nil || sizes[lisptcMapLocatorSets] != 5 {
		t.Errorf("5 locator-sets were asked for: %v, %v", sizes, err)
	}
}
