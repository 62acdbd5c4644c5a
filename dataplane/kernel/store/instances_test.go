// SPDX-License-Identifier: Apache-2.0

// These tests drive the places of Instance-IDs without a kernel.

package store

import (
	"errors"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

// plainDirectory is what programs would search.
type plainDirectory struct {
	places  map[uint32]uint32
	failing error
}

func (d *plainDirectory) Put(key, value any) error {
	if d.failing == nil {
		d.places[key.(uint32)] = value.(abi.Instance).Roots
	}
	return d.failing
}

func (d *plainDirectory) Delete(key any) error {
	if d.failing == nil {
		delete(d.places, key.(uint32))
	}
	return d.failing
}

func newPlainInstances(places map[uint32]uint32, now *time.Duration) (*Instances, *plainDirectory) {
	d := &plainDirectory{places: map[uint32]uint32{}}
	roots := make([]abi.Roots, 3)
	return newInstances(d, roots, places, reclaim.NewIndexes(3, func() time.Duration { return *now }, func() {})), d
}

func TestInstancesHoldRootsSideBySide(t *testing.T) {
	var now time.Duration
	s, d := newPlainInstances(map[uint32]uint32{}, &now)
	keys := []lpm.RootKey{{Kind: abi.RootMapCache, Family: 4, Instance: 7}, {Kind: abi.RootMapCache, Family: 6, Instance: 7}, {Kind: abi.RootDatabase, Family: 4, Instance: 7}, {Kind: abi.RootDatabase, Family: 6, Instance: 7}}
	for i, key := range keys {
		if lpm.RootKeyAt(7, key.Position()) != key {
			t.Errorf("%+v stands at %d, where %+v is", key, key.Position(), lpm.RootKeyAt(7, key.Position()))
		}
		must(t, s.put(key, rootAt(5, lpm.Begin{Slot: uint32(i)})))
	}
	place := d.places[7]
	for i := range keys {
		if got := s.roots[place].Roots[i]; got != 1<<63|5<<32|uint64(i) {
			t.Errorf("root %d is %#x", i, got)
		}
	}
	for i, key := range keys {
		if _, ok := d.places[7]; !ok {
			t.Fatalf("gone with %d roots left", len(keys)-i)
		}
		must(t, s.delete(key))
	}
	if len(d.places) != 0 {
		t.Error("an Instance-ID without roots and interfaces has a place")
	}
	if next, err := s.place(8); err != nil || next == place {
		t.Errorf("the place is used again at once: %d, %v", next, err)
	}
}

func TestInstancesOfInterfacesStay(t *testing.T) {
	var now time.Duration
	s, d := newPlainInstances(map[uint32]uint32{1: 2, 9: 0}, &now)
	key := lpm.RootKey{Kind: abi.RootDatabase, Family: 4, Instance: 1}
	must(t, s.put(key, rootAt(0, lpm.Begin{Slot: 0})))
	must(t, s.delete(key))
	must(t, s.put(lpm.RootKey{Kind: abi.RootDatabase, Family: 4, Instance: 9}, rootAt(0, lpm.Begin{Slot: 1})))
	place, err := s.Pin(1)
	if err != nil || place != 2 {
		t.Fatalf("adopted place %d, %v", place, err)
	}
	must(t, s.PinOnly(map[uint32]bool{1: true}))
	if len(s.places) != 2 || s.roots[2] != (abi.Roots{}) {
		t.Errorf("places %v", s.places)
	}
	s.keepOnly(map[lpm.RootKey]lpm.Begin{})
	must(t, s.PinOnly(map[uint32]bool{}))
	if len(s.places) != 0 || len(d.places) != 0 {
		t.Errorf("places without a use are left: %v", s.places)
	}
}

// TestRootsWithoutAnInstanceID has a process killed between taking an Instance-ID away and its roots: what these name is free.
func TestRootsWithoutAnInstanceID(t *testing.T) {
	roots := make([]abi.Roots, 3)
	roots[1].Roots[0], roots[2].Roots[0] = rootAt(1, lpm.Begin{FirstLevel: 4}), rootAt(1, lpm.Begin{FirstLevel: 5})
	newInstances(&plainDirectory{}, roots, map[uint32]uint32{7: 1}, reclaim.NewIndexes(3, func() time.Duration { return 0 }, func() {}))
	if firstLevelOf(roots[1].Roots[0]) != 4 || roots[2].Roots[0] != 0 {
		t.Errorf("roots %x of an Instance-ID, %x of none", roots[1].Roots[0], roots[2].Roots[0])
	}
}

func TestInstancesFull(t *testing.T) {
	var now time.Duration
	s, d := newPlainInstances(map[uint32]uint32{}, &now)
	for iid := range uint32(3) {
		must(t, s.put(lpm.RootKey{Kind: abi.RootMapCache, Family: 4, Instance: iid}, rootAt(0, lpm.Begin{Slot: iid})))
	}
	if err := s.put(lpm.RootKey{Kind: abi.RootMapCache, Family: 4, Instance: 3}, rootAt(0, lpm.Begin{Slot: 3})); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("fourth of three: %v", err)
	}
	d.failing = errors.New("no")
	if err := s.delete(lpm.RootKey{Kind: abi.RootMapCache, Family: 4, Instance: 0}); err == nil || s.roots[s.places[0]].Roots[0] == 0 {
		t.Errorf("a root that could not be deleted is gone: %v", err)
	}
	d.failing = nil
	must(t, s.delete(lpm.RootKey{Kind: abi.RootMapCache, Family: 4, Instance: 0}))
	must(t, s.put(lpm.RootKey{Kind: abi.RootMapCache, Family: 4, Instance: 3}, rootAt(0, lpm.Begin{Slot: 3})))
}
