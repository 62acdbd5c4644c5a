// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of the forwarding table's first and second levels: the blocks of roots and the groups of IPv6 roots
// (bpf/abi.h, "Forwarding table"): which numbers are taken, and their memory. A block is in its place, and whole, before a root names
// it; so is a group. It never edits one.

package store

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

// NewFirstLevel implements lpm.Memory.
func (s *Store) NewFirstLevel(family uint8) (block uint32, slots []uint32, err error) {
	if p := s.nextFirstLevel; p != nil && family == 4 {
		s.nextFirstLevel = nil
		if <-p.made; p.err == nil {
			s.firstLevels[p.number] = p.table
			return p.number, p.table.slots(), nil
		}
	}
	if block, err = s.freeFirstLevel(); err != nil {
		return 0, nil, err
	}
	outer := abi.MapFirstLevel4
	if family == 6 {
		outer = abi.MapFirstLevel6
	}
	made, err := s.makeFirstLevel(outer, block)
	if err != nil {
		return 0, nil, err
	}
	s.firstLevels[block] = made
	return block, made.slots(), nil
}

// makeFirstLevel makes an inner map, in its place of an outer one.
func (s *Store) makeFirstLevel(outer string, block uint32) (*fibTable, error) {
	if err := s.emptyFirstLevel(block); err != nil { // of a process that was killed
		return nil, err
	}
	m, err := ebpf.NewMap(s.Spec.Maps[outer].InnerMap.Copy())
	if err != nil {
		return nil, fmt.Errorf("making the block of a root: %w", err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	made := &fibTable{m: m, memory: memory}
	if err := s.outer[outer].put(block, m); err != nil {
		return nil, errors.Join(fmt.Errorf("adding the block of a root: %w", err), made.close())
	}
	return made, nil
}

// A preparedFirstLevel is being made by a goroutine of its own, as a preparedTable is.
type preparedFirstLevel struct {
	number uint32
	made   chan struct{} // closed when all else is as it stays
	table  *fibTable
	err    error
}

// PrepareFirstLevel implements lpm.Memory.
func (s *Store) PrepareFirstLevel() {
	if s.nextFirstLevel != nil {
		return
	}
	block, err := s.freeFirstLevel()
	if err != nil {
		return // NewFirstLevel's caller learns of it
	}
	p := &preparedFirstLevel{number: block, made: make(chan struct{})}
	s.nextFirstLevel = p
	s.background.Go(func() {
		defer close(p.made)
		p.table, p.err = s.makeFirstLevel(abi.MapFirstLevel4, block)
	})
}

// dropNextFirstLevel drops the block that was prepared and not used.
func (s *Store) dropNextFirstLevel() error {
	p := s.nextFirstLevel
	if p == nil {
		return nil
	}
	s.nextFirstLevel = nil
	if <-p.made; p.err != nil {
		return nil // there is none
	}
	return errors.Join(s.emptyFirstLevel(p.number), p.table.close())
}

// isOurs reports whether a block is one of this process, or about to be.
func (s *Store) isOurs(block uint32) bool {
	return s.firstLevels[block] != nil || s.nextFirstLevel != nil && s.nextFirstLevel.number == block
}

// firstLevelsAreNamed reports whether a root in force names each block that was made.
func (s *Store) firstLevelsAreNamed() bool {
	named := s.namedFirstLevels()
	for block := range s.firstLevels {
		if !named[block] {
			return false
		}
	}
	return true
}

// freeFirstLevel returns the number of a block that no root names, nor is about to.
func (s *Store) freeFirstLevel() (uint32, error) {
	taken := s.namedFirstLevels()
	for block := uint32(1); block < rootFirstLevels; block++ {
		if taken[block] || s.isOurs(block) {
			continue
		}
		return block, nil
	}
	return 0, fmt.Errorf("%w: %d roots with blocks", dataplane.ErrFull, rootFirstLevels-1)
}

// namedFirstLevels are those of the roots in force.
func (s *Store) namedFirstLevels() map[uint32]bool {
	named := map[uint32]bool{}
	for i := range s.Instances.roots {
		for _, root := range s.Instances.roots[i].Roots {
			named[firstLevelOf(root)] = true
		}
	}
	return named
}

// DropFirstLevel implements lpm.Memory.
func (s *Store) DropFirstLevel(block uint32) {
	reclaim.WaitForPrograms()
	_ = s.takeFirstLevel(block) // makeBlock tries again
}

// takeFirstLevel takes a block away, of this process or of an earlier one.
func (s *Store) takeFirstLevel(block uint32) error {
	err := s.emptyFirstLevel(block)
	if dropped := s.firstLevels[block]; dropped != nil {
		err = errors.Join(err, dropped.close())
	}
	delete(s.firstLevels, block)
	return err
}

// emptyFirstLevel takes a block out of its place, whichever family it is of.
func (s *Store) emptyFirstLevel(block uint32) error {
	for _, name := range []string{abi.MapFirstLevel4, abi.MapFirstLevel6} {
		if err := s.outer[name].empty(block); err != nil {
			return fmt.Errorf("removing the block of a root: %w", err)
		}
	}
	return nil
}

// deleteOtherFirstLevels removes all blocks but those of the roots in force. No program
// walks there any more.
func (s *Store) deleteOtherFirstLevels() error {
	var errs []error
	named := s.namedFirstLevels()
	for _, name := range []string{abi.MapFirstLevel4, abi.MapFirstLevel6} {
		for block := range s.outer[name].all() {
			if !named[block] {
				errs = append(errs, s.takeFirstLevel(block))
			}
		}
	}
	return errors.Join(errs...)
}

// NewSecondLevel implements lpm.Memory. It takes no number that another process's roots may lead to.
func (s *Store) NewSecondLevel(write func(elements []lpm.Entry)) (number uint32, elements []lpm.Entry, err error) {
	outer := s.outer[abi.MapSecondLevel6]
	number, ok := outer.free(1)
	if !ok {
		return 0, nil, fmt.Errorf("%w: %d groups of IPv6 prefixes", dataplane.ErrFull, outer.places()-1)
	}
	m, err := ebpf.NewMap(s.Spec.Maps[abi.MapSecondLevel6].InnerMap.Copy())
	if err != nil {
		return 0, nil, fmt.Errorf("making a group of IPv6 prefixes: %w", err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		return 0, nil, errors.Join(err, m.Close())
	}
	elements = unsafe.Slice((*lpm.Entry)(unsafe.Pointer(&memory[0])), lpm.SecondLevelEntries)
	write(elements)
	made := &fibTable{m: m, memory: memory}
	if err := outer.put(number, m); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("adding a group of IPv6 prefixes: %w", err), made.close())
	}
	s.secondLevels[number] = made
	return number, elements, nil
}

// DropSecondLevels implements lpm.Memory. A table that empties gives up hundreds, one after the other: they go in the background, for which
// no switch of tables waits.
func (s *Store) DropSecondLevels(numbers []uint32) {
	dropped := make([]*fibTable, len(numbers))
	for i, number := range numbers {
		dropped[i] = s.secondLevels[number]
		delete(s.secondLevels, number)
	}
	s.cleared.Go(func() {
		reclaim.WaitForPrograms()
		s.emptySecondLevels(numbers)
		for _, group := range dropped {
			_ = group.close()
		}
	})
}

// deleteOtherSecondLevels removes the groups of an earlier process, to which no root in force leads, in the background. There may be many, and before
// Linux 6.8 each takes some 20 ms: no caller waits for them. What has no number any more is of this process, so once is enough.
func (s *Store) deleteOtherSecondLevels() {
	s.clearing.Do(func() {
		var others []uint32
		for number := range s.outer[abi.MapSecondLevel6].all() {
			if s.secondLevels[number] == nil {
				others = append(others, number)
			}
		}
		s.cleared.Go(func() { s.emptySecondLevels(others) })
	})
}

// emptySecondLevels ends early when the store is closed: what is left the next process finds.
func (s *Store) emptySecondLevels(numbers []uint32) {
	for _, number := range numbers {
		if s.closing.Load() {
			return
		}
		_ = s.outer[abi.MapSecondLevel6].empty(number) // else the number stays taken
	}
}
