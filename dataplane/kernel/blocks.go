// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of wide, numbers and groups, the blocks of wide roots and of IPv6 roots with groups, and their elements
// (bpf/abi.h, "Forwarding table"): which numbers are taken, and their memory. A block is in its place, and whole, before a root names
// it; so is a group. It never edits one.

package kernel

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
func (s *mapStore) NewFirstLevel(family uint8) (block uint32, slots []uint32, err error) {
	if p := s.nextBlock; p != nil && family == 4 {
		s.nextBlock = nil
		if <-p.made; p.err == nil {
			s.blocks[p.block] = p.table
			return p.block, p.table.slots(), nil
		}
	}
	if block, err = s.freeBlock(); err != nil {
		return 0, nil, err
	}
	outer := abi.MapWide
	if family == 6 {
		outer = abi.MapNumbers
	}
	made, err := s.makeBlock(outer, block)
	if err != nil {
		return 0, nil, err
	}
	s.blocks[block] = made
	return block, made.slots(), nil
}

// makeBlock makes an inner map, in its place of an outer one.
func (s *mapStore) makeBlock(outer string, block uint32) (*fibTable, error) {
	if err := s.emptyBlock(block); err != nil { // of a process that was killed
		return nil, err
	}
	m, err := ebpf.NewMap(s.spec.Maps[outer].InnerMap.Copy())
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

// A preparedBlock is being made by a goroutine of its own, as a preparedTable is.
type preparedBlock struct {
	block uint32
	made  chan struct{} // closed when all else is as it stays
	table *fibTable
	err   error
}

// PrepareFirstLevel implements lpm.Memory.
func (s *mapStore) PrepareFirstLevel() {
	if s.nextBlock != nil {
		return
	}
	block, err := s.freeBlock()
	if err != nil {
		return // NewFirstLevel's caller learns of it
	}
	p := &preparedBlock{block: block, made: make(chan struct{})}
	s.nextBlock = p
	s.background.Go(func() {
		defer close(p.made)
		p.table, p.err = s.makeBlock(abi.MapWide, block)
	})
}

// dropNextBlock is rid of a block that nobody asked for.
func (s *mapStore) dropNextBlock() error {
	p := s.nextBlock
	if p == nil {
		return nil
	}
	s.nextBlock = nil
	if <-p.made; p.err != nil {
		return nil // there is none
	}
	return errors.Join(s.emptyBlock(p.block), p.table.close())
}

// isOurs reports whether a block is one of this process, or about to be.
func (s *mapStore) isOurs(block uint32) bool {
	return s.blocks[block] != nil || s.nextBlock != nil && s.nextBlock.block == block
}

// blocksAreNamed reports whether a root in force names each block that was made.
func (s *mapStore) blocksAreNamed() bool {
	named := s.namedBlocks()
	for block := range s.blocks {
		if !named[block] {
			return false
		}
	}
	return true
}

// freeBlock returns the number of a block that no root names, nor is about to.
func (s *mapStore) freeBlock() (uint32, error) {
	taken := s.namedBlocks()
	for block := uint32(1); block < rootBlocks; block++ {
		if taken[block] || s.isOurs(block) {
			continue
		}
		return block, nil
	}
	return 0, fmt.Errorf("%w: %d roots with blocks", dataplane.ErrFull, rootBlocks-1)
}

// namedBlocks are those of the roots in force.
func (s *mapStore) namedBlocks() map[uint32]bool {
	named := map[uint32]bool{}
	for i := range s.instances.roots {
		for _, root := range s.instances.roots[i].Roots {
			named[blockOf(root)] = true
		}
	}
	return named
}

// DropFirstLevel implements lpm.Memory.
func (s *mapStore) DropFirstLevel(block uint32) {
	reclaim.WaitForPrograms()
	_ = s.takeBlock(block) // makeBlock tries again
}

// takeBlock takes a block away, whoever made it.
func (s *mapStore) takeBlock(block uint32) error {
	err := s.emptyBlock(block)
	if dropped := s.blocks[block]; dropped != nil {
		err = errors.Join(err, dropped.close())
	}
	delete(s.blocks, block)
	return err
}

// emptyBlock takes a block out of its place, whichever family it is of.
func (s *mapStore) emptyBlock(block uint32) error {
	for _, name := range []string{abi.MapWide, abi.MapNumbers} {
		if err := s.outer[name].empty(block); err != nil {
			return fmt.Errorf("removing the block of a root: %w", err)
		}
	}
	return nil
}

// deleteOtherBlocks removes all blocks but those of the roots in force. No program
// walks there any more.
func (s *mapStore) deleteOtherBlocks() error {
	var errs []error
	named := s.namedBlocks()
	for _, name := range []string{abi.MapWide, abi.MapNumbers} {
		for block := range s.outer[name].all() {
			if !named[block] {
				errs = append(errs, s.takeBlock(block))
			}
		}
	}
	return errors.Join(errs...)
}

// NewSecondLevel implements lpm.Memory. It takes no number that another process's roots may lead to.
func (s *mapStore) NewSecondLevel(write func(elements []lpm.Entry)) (number uint32, elements []lpm.Entry, err error) {
	outer := s.outer[abi.MapGroups]
	number, ok := outer.free(1)
	if !ok {
		return 0, nil, fmt.Errorf("%w: %d groups of IPv6 prefixes", dataplane.ErrFull, outer.places()-1)
	}
	m, err := ebpf.NewMap(s.spec.Maps[abi.MapGroups].InnerMap.Copy())
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
	s.groups[number] = made
	return number, elements, nil
}

// DropSecondLevels implements lpm.Memory. A table that empties gives up hundreds, one after the other: they go in the background, for which
// no switch of tables waits.
func (s *mapStore) DropSecondLevels(numbers []uint32) {
	dropped := make([]*fibTable, len(numbers))
	for i, number := range numbers {
		dropped[i] = s.groups[number]
		delete(s.groups, number)
	}
	s.cleared.Go(func() {
		reclaim.WaitForPrograms()
		s.emptyGroups(numbers)
		for _, group := range dropped {
			_ = group.close()
		}
	})
}

// deleteOtherGroups removes the groups of an earlier process, to which no root in force leads, in the background. There may be many, and before
// Linux 6.8 each takes some 20 ms: nobody waits for them. What has no number any more is of this process, so once is enough.
func (s *mapStore) deleteOtherGroups() {
	s.clearing.Do(func() {
		var others []uint32
		for number := range s.outer[abi.MapGroups].all() {
			if s.groups[number] == nil {
				others = append(others, number)
			}
		}
		s.cleared.Go(func() { s.emptyGroups(others) })
	})
}

// emptyGroups ends early when the store is closed: what is left the next process finds.
func (s *mapStore) emptyGroups(numbers []uint32) {
	for _, number := range numbers {
		if s.closing.Load() {
			return
		}
		_ = s.outer[abi.MapGroups].empty(number) // else the number stays taken
	}
}
