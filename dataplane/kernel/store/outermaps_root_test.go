// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/reclaim"
	"loci/dataplane/kernel/tables"
	"loci/internal/testnet"
)

// countedMaps counts what the kernel is asked, which before Linux 6.8 takes it some 20 ms each time.
type countedMaps struct {
	innerMaps
	asked *atomic.Int32
}

func (c countedMaps) Put(place, inner any) error {
	c.asked.Add(1)
	return c.innerMaps.Put(place, inner)
}

func (c countedMaps) Delete(place any) error {
	c.asked.Add(1)
	return c.innerMaps.Delete(place)
}

// beginCounted opens the maps and puts tables in force as an engine does, and returns how often outer maps were asked.
func beginCounted(t *testing.T, pins *pins.Directory) (*Store, int32) {
	t.Helper()
	s, _, err := Open(pins, Limits{Mappings: 1024})
	must(t, err)
	var count atomic.Int32
	for _, o := range s.FIB.outer {
		o.m = countedMaps{o.m, &count}
	}
	tables, err := tables.New(tables.Parts{
		Memory: s.FIB, ClearUsage: s.ClearUsage, Changed: s.Changed, Records: s.Records, Runs: s.Runs, Sets: s.Sets, Locators: s.Locators, CellLimit: 1 << 20,
		Now: func() time.Duration { return 0 }, Wait: reclaim.WaitForPrograms,
	})
	must(t, err)
	_, err = tables.Adopt()
	must(t, err)
	must(t, tables.GoOnline())
	s.FIB.background.Wait()
	s.FIB.cleared.Wait()
	return s, count.Load()
}

// inPlace are the places where the kernel has something, by the map.
func (s *Store) inPlace() map[string][]uint32 {
	found := map[string][]uint32{}
	for _, p := range placeWords {
		for place := range s.Map(p.name).MaxEntries() {
			var id uint32
			if s.Map(p.name).Lookup(place, &id) == nil {
				found[p.name] = append(found[p.name], place)
			}
		}
	}
	return found
}

// TestStartAsksLittle demands that a start does not go through all places of the outer maps, whether an earlier process left something
// in them or nothing, and that what it left goes.
func TestStartAsksLittle(t *testing.T) {
	t.Parallel()
	pins, err := pins.Open(pins.DefaultDirectory, strings.ReplaceAll(testnet.ForTest(t).Name(), ".", "_"))
	must(t, err)
	t.Cleanup(func() { must(t, pins.Remove()) })
	begun := func(wanted int32, what string) *Store {
		t.Helper()
		s, asked := beginCounted(t, pins)
		if asked != wanted {
			t.Errorf("%s: outer maps were asked %d times, want %d", what, asked, wanted)
		}
		if left := s.inPlace(); !maps.EqualFunc(left, map[string][]uint32{abi.MapFib: {s.FIB.table.index}}, slices.Equal) {
			t.Errorf("%s: there is %v, want the table in force alone", what, left)
		}
		return s
	}
	first := begun(1, "the first start") // its table
	must(t, first.Close())
	second := begun(2, "a start after a process that left a table") // and that one's
	for range 3 {
		_, _, err := second.FIB.NewSecondLevel(func([]lpm.Entry) {})
		must(t, err)
	}
	for _, family := range []uint8{4, 6} {
		_, _, err := second.FIB.NewFirstLevel(family)
		must(t, err)
	}
	second.FIB.PrepareTable(1 << 16)
	second.FIB.background.Wait()
	second.FIB.prepared = nil // killed, it does not clear it away
	must(t, second.Close())
	third := begun(2+3+2+1, "a start after one that was killed")
	third.Words[WordPlacesKept] = 0
	for _, o := range third.FIB.outer {
		clear(o.taken)
	}
	must(t, third.Close())
	must(t, begun(2, "a start where the earlier process did not keep what is taken").Close())
}

// stuckMaps remove nothing.
type stuckMaps struct{ innerMaps }

func (stuckMaps) Delete(any) error { return errors.New("no") }

// TestSwitchThatCannotClearAway is a switch: the table before is no longer in force, and its memory gone.
func TestSwitchThatCannotClearAway(t *testing.T) {
	t.Parallel()
	pins, err := pins.Open(pins.DefaultDirectory, strings.ReplaceAll(testnet.ForTest(t).Name(), ".", "_"))
	must(t, err)
	t.Cleanup(func() { must(t, pins.Remove()) })
	s, _ := beginCounted(t, pins)
	_, _, err = s.FIB.NewFirstLevel(6) // which no root names, so that it is not left to the background
	must(t, err)
	s.FIB.outer[abi.MapFib].m = stuckMaps{s.FIB.outer[abi.MapFib].m}
	_, err = s.FIB.NewTable(1 << 10)
	must(t, err)
	before := s.FIB.table
	if err := s.FIB.SwitchTable(nil); err != nil || s.FIB.table == before {
		t.Errorf("another table is in force: %t, %v", s.FIB.table != before, err)
	}
	must(t, s.Close())
}
