// SPDX-License-Identifier: Apache-2.0

// These tests hold how counters of processors become one.

package store

import (
	"math"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/tables"
)

func TestUsageIsOfAllProcessors(t *testing.T) {
	s := &Store{Records: make([]abi.Mapping, 2), Usage: []abi.MappingCounters{
		{Packets: 1, Octets: 10}, {Packets: 2, Octets: 20}, // processor 0
		{Packets: 4, Octets: 40}, {Packets: 8, Octets: 80}, // processor 1
	}}
	s.Records[0].LastUsed = 5
	if got := s.UsageOf(0); got != (Usage{5, 50, 5}) {
		t.Errorf("entry 0: %+v", got)
	}
	s.ClearUsage(0)
	if got := s.UsageOf(0); got.Packets != 0 || got.Octets != 0 {
		t.Errorf("entry 0, cleared: %+v", got)
	}
	if got := s.UsageOf(1); got != (Usage{10, 100, 0}) {
		t.Errorf("entry 1: %+v", got)
	}
}

func TestSizesOfMaps(t *testing.T) {
	sizes, err := Limits{}.entries(4)
	if err != nil || sizes[abi.MapMappings] != tables.DefaultMappings || sizes[abi.MapMappingCounters] != 4*tables.DefaultMappings {
		t.Errorf("by default %v, %v", sizes, err)
	}
	if _, err := (Limits{Mappings: math.MaxUint32 / 3}).entries(4); err == nil {
		t.Error("more counters than an array holds are taken")
	}
	for mappings, want := range map[int]uint32{1: 257, 20000: 20256, 1 << 16: 1<<16 + 256, 1 << 24: 1<<16 + 522240 + 256} {
		sizes, err := Limits{Mappings: mappings}.entries(4)
		if err != nil || sizes[abi.MapLocatorSets] != want {
			t.Errorf("%d locator-sets beside %d mappings, want %d; %v", sizes[abi.MapLocatorSets], mappings, want, err)
		}
	}
	if sizes, err := (Limits{Mappings: 20000, LocatorSets: 5}).entries(4); err != nil || sizes[abi.MapLocatorSets] != 5 {
		t.Errorf("5 locator-sets were asked for: %v, %v", sizes, err)
	}
}

// Ticks wrap around when a machine runs for four and a half years: what was used after that was used later.
func TestUseAfterTicksWrappedAround(t *testing.T) {
	const wrapped = uint64(1) << 32
	for _, c := range []struct {
		now  uint64
		tick uint32
		want uint64
	}{
		{100, 0, 0}, {100, 7, 7}, {100, 101, 101}, {100, 1 << 31, 1 << 31},
		{wrapped - 1, 1 << 25, 1 << 25}, {wrapped - 1, 1<<32 - 9, wrapped - 9}, {wrapped - 1, 2, wrapped + 2},
		{wrapped + 5, 3, wrapped + 3}, {wrapped + 5, 6, wrapped + 6}, {wrapped + 5, 1<<32 - 9, wrapped - 9}, {wrapped + 5, 0, 0},
		{3*wrapped - 1, 4, 3*wrapped + 4},
	} {
		if got := (Usage{lastUsed: c.tick}).Nanoseconds(c.now<<lastUsedShift + 5); got != c.want<<lastUsedShift {
			t.Errorf("in tick %d, last used in tick %d: %d, want %d", c.now, c.tick, got>>lastUsedShift, c.want)
		}
	}
}
