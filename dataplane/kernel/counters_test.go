// SPDX-License-Identifier: Apache-2.0

// These tests hold how counters of processors become one.

package kernel

import (
	"math"
	"testing"
)

func TestUsageIsOfAllProcessors(t *testing.T) {
	s := &mapStore{records: make([]lisptcLispMapping, 2), usage: []lisptcLispMappingCounters{
		{Packets: 1, Octets: 10}, {Packets: 2, Octets: 20}, // processor 0
		{Packets: 4, Octets: 40}, {Packets: 8, Octets: 80}, // processor 1
	}}
	s.records[0].LastUsed = 5
	if got := s.usageOf(0); got != (usage{5, 50, 5 << lastUsedShift}) {
		t.Errorf("entry 0: %+v", got)
	}
	s.clearUsage(0)
	if got := s.usageOf(0); got.packets != 0 || got.octets != 0 {
		t.Errorf("entry 0, cleared: %+v", got)
	}
	if got := s.usageOf(1); got != (usage{10, 100, 0}) {
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
