// SPDX-License-Identifier: Apache-2.0

// This file gives each Instance-ID a place in the array of roots, where the walks of
// its packets begin (bpf/abi.h, "Forwarding table"). A place is an Instance-ID's as
// long as it has roots or interfaces, and rests before another one gets it.

package store

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

const rootInUse = uint64(1) << 63 // LISP_ROOT_IN_USE

const (
	rootFirstLevelShift = 44 // LISP_ROOT_FIRST_LEVEL_SHIFT
	rootFirstLevels     = 64 // the first of them stands for none
	rootTableShift      = 32
)

// rootAt is the root whose walks begin with a slot of a table, or in a block.
func rootAt(table uint32, begin lpm.Begin) uint64 {
	return rootInUse | uint64(begin.FirstLevel)<<rootFirstLevelShift | uint64(table)<<rootTableShift | uint64(begin.Slot)
}

// firstLevelOf is the block of a root, 0 for none.
func firstLevelOf(root uint64) uint32 { return uint32(root >> rootFirstLevelShift % rootFirstLevels) }

// directory is what instances need of the map that programs search.
type directory interface {
	Put(key, value any) error
	Delete(key any) error
}

// Instances gives each Instance-ID a place in the array of roots.
type Instances struct {
	directory directory
	roots     []abi.Roots
	places    map[uint32]uint32 // by Instance-ID
	pinned    map[uint32]bool   // Instance-IDs of interfaces
	free      *reclaim.Indexes
}

// openInstances takes over the Instance-IDs of a map. All count as pinned until
// pinOnly.
func openInstances(m *ebpf.Map, roots []abi.Roots) (*Instances, error) {
	places := map[uint32]uint32{}
	var iid uint32
	var value abi.Instance
	iterator := m.Iterate()
	for iterator.Next(&iid, &value) {
		if int(value.Roots) < len(roots) {
			places[iid] = value.Roots
		}
	}
	if err := iterator.Err(); err != nil {
		return nil, fmt.Errorf("reading the Instance-IDs: %w", err)
	}
	started := time.Now()
	return newInstances(m, roots, places, reclaim.NewIndexes(uint32(len(roots)), func() time.Duration { return time.Since(started) }, reclaim.WaitForPrograms)), nil
}

func newInstances(d directory, roots []abi.Roots, places map[uint32]uint32, free *reclaim.Indexes) *Instances {
	s := &Instances{directory: d, roots: roots, places: places, pinned: map[uint32]bool{}, free: free}
	used := map[uint32]bool{}
	for iid, place := range places {
		used[place] = true
		s.pinned[iid] = true
	}
	for place := range roots {
		if !used[uint32(place)] { // its process was killed before it took them away
			roots[place] = abi.Roots{}
		}
	}
	free.Adopt(func(place uint32) bool { return used[place] })
	return s
}

// place returns the place of an Instance-ID, which it gets when it has none.
func (s *Instances) place(iid uint32) (uint32, error) {
	if place, ok := s.places[iid]; ok {
		return place, nil
	}
	place, _, ok := s.free.Take()
	if !ok {
		return 0, fmt.Errorf("%w: %d Instance-IDs", dataplane.ErrFull, len(s.roots))
	}
	s.roots[place] = abi.Roots{}
	if err := s.directory.Put(iid, abi.Instance{Iid: iid, Roots: place}); err != nil {
		s.free.GiveBack(place)
		return 0, fmt.Errorf("Instance-ID %d: %w", iid, err)
	}
	s.places[iid] = place
	return place, nil
}

// Pin returns the place of an interface's Instance-ID, and keeps it.
func (s *Instances) Pin(iid uint32) (uint32, error) {
	place, err := s.place(iid)
	if err == nil {
		s.pinned[iid] = true
	}
	return place, err
}

// PinOnly says which Instance-IDs interfaces have, and no others.
func (s *Instances) PinOnly(pinned map[uint32]bool) error {
	s.pinned = pinned
	for iid := range s.places {
		if err := s.drop(iid, abi.Roots{}); err != nil {
			return err
		}
	}
	return nil
}

// drop takes the place of an Instance-ID away when it is not pinned and has no roots but
// those in `but`.
func (s *Instances) drop(iid uint32, but abi.Roots) error {
	place := s.places[iid]
	for i, root := range s.roots[place].Roots {
		if root != but.Roots[i] {
			return nil
		}
	}
	if s.pinned[iid] {
		return nil
	}
	if err := s.directory.Delete(iid); err != nil {
		return fmt.Errorf("Instance-ID %d: %w", iid, err)
	}
	delete(s.places, iid)
	s.free.GiveBack(place)
	return nil
}

// put stores a root.
func (s *Instances) put(key lpm.RootKey, root uint64) error {
	place, err := s.place(key.Instance)
	if err == nil {
		atomic.StoreUint64(&s.roots[place].Roots[key.Position()], root)
	}
	return err
}

// delete removes a root. After an error it is still there.
func (s *Instances) delete(key lpm.RootKey) error {
	place, ok := s.places[key.Instance]
	if !ok {
		return nil
	}
	root := &s.roots[place].Roots[key.Position()]
	var only abi.Roots
	only.Roots[key.Position()] = *root
	if err := s.drop(key.Instance, only); err != nil {
		return err
	}
	atomic.StoreUint64(root, 0)
	return nil
}

// keepOnly removes all roots but some.
func (s *Instances) keepOnly(roots map[lpm.RootKey]lpm.Begin) {
	for iid, place := range s.places {
		for position := range s.roots[place].Roots {
			if _, kept := roots[lpm.RootKeyAt(iid, position)]; !kept {
				atomic.StoreUint64(&s.roots[place].Roots[position], 0)
			}
		}
	}
}

// namedFirstLevels are those of the roots in force.
func (s *Instances) namedFirstLevels() map[uint32]bool {
	named := map[uint32]bool{}
	for i := range s.roots {
		for _, root := range s.roots[i].Roots {
			named[firstLevelOf(root)] = true
		}
	}
	return named
}
