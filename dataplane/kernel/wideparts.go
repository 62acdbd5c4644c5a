// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of wide and of groups, the parts of wide roots and the elements of IPv6 roots (bpf/abi.h, "Forwarding
// table"): which blocks and numbers are taken, and their memory. A part is in its place before a root names its block, or whole
// before it is put there; so is a group. It never edits one.

package kernel

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"

	"loci/dataplane"
)

// newBlock implements tableMaps.
func (s *mapStore) newBlock() (uint32, error) {
	taken := s.namedBlocks()
	for block := range s.blocks {
		taken[block] = true
	}
	for block := uint32(1); block < rootBlocks; block++ {
		if taken[block] {
			continue
		}
		if err := s.emptyBlock(block); err != nil { // of a process that was killed
			return 0, err
		}
		s.blocks[block] = nil
		return block, nil
	}
	return 0, fmt.Errorf("%w: %d wide roots", dataplane.ErrFull, rootBlocks-1)
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

// newPart implements tableMaps.
func (s *mapStore) newPart(block, part uint32, write func(slots []uint32)) ([]uint32, error) {
	m, err := ebpf.NewMap(s.spec.Maps[lisptcMapWide].InnerMap.Copy())
	if err != nil {
		return nil, fmt.Errorf("making a part of a wide root: %w", err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	slots := unsafe.Slice((*uint32)(unsafe.Pointer(&memory[0])), widePartSize)
	write(slots)
	p := &fibTable{m: m, memory: memory}
	if err := s.maps[lisptcMapWide].Put(block*wideParts+part, m); err != nil {
		return nil, errors.Join(fmt.Errorf("adding a part of a wide root: %w", err), p.close())
	}
	s.blocks[block] = append(s.blocks[block], p)
	return slots, nil
}

// dropBlock implements tableMaps.
func (s *mapStore) dropBlock(block uint32) {
	_ = s.emptyBlock(block) // newBlock tries again
	for _, part := range s.blocks[block] {
		_ = part.close()
	}
	delete(s.blocks, block)
}

// emptyBlock takes the parts of a block out of their places.
func (s *mapStore) emptyBlock(block uint32) error {
	wide := s.maps[lisptcMapWide]
	for at := block * wideParts; at < (block+1)*wideParts; at++ {
		var id uint32
		if wide.Lookup(at, &id) != nil {
			continue
		}
		if err := wide.Delete(at); err != nil {
			return fmt.Errorf("removing a part of a wide root: %w", err)
		}
	}
	return nil
}

// deleteOtherBlocks removes all blocks but those of the roots in force. No program
// walks there any more.
func (s *mapStore) deleteOtherBlocks() error {
	var errs []error
	named := s.namedBlocks()
	for block := uint32(1); block < rootBlocks; block++ {
		if named[block] {
			continue
		}
		errs = append(errs, s.emptyBlock(block))
		s.dropBlock(block)
	}
	return errors.Join(errs...)
}

// newGroup implements tableMaps. It takes no number that another process's roots may lead to.
func (s *mapStore) newGroup(write func(elements []element)) (number uint32, elements []element, err error) {
	outer := s.maps[lisptcMapGroups]
	for number = 1; number < outer.MaxEntries(); number++ {
		var id uint32
		if errors.Is(outer.Lookup(number, &id), ebpf.ErrKeyNotExist) {
			break
		}
	}
	if number == outer.MaxEntries() {
		return 0, nil, fmt.Errorf("%w: %d groups of IPv6 prefixes", dataplane.ErrFull, number-1)
	}
	m, err := ebpf.NewMap(s.spec.Maps[lisptcMapGroups].InnerMap.Copy())
	if err != nil {
		return 0, nil, fmt.Errorf("making a group of IPv6 prefixes: %w", err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		return 0, nil, errors.Join(err, m.Close())
	}
	elements = unsafe.Slice((*element)(unsafe.Pointer(&memory[0])), groupSize)
	write(elements)
	made := &fibTable{m: m, memory: memory}
	if err := outer.Put(number, m); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("adding a group of IPv6 prefixes: %w", err), made.close())
	}
	s.groups[number] = made
	return number, elements, nil
}

// dropGroups implements tableMaps.
func (s *mapStore) dropGroups(numbers []uint32) {
	waitForPrograms()
	for _, number := range numbers {
		_ = s.maps[lisptcMapGroups].Delete(number) // else the number stays taken
		_ = s.groups[number].close()
		delete(s.groups, number)
	}
}

// deleteOtherGroups removes the groups of an earlier process, to which no root in force leads.
func (s *mapStore) deleteOtherGroups() error {
	var errs []error
	outer := s.maps[lisptcMapGroups]
	for number := range outer.MaxEntries() {
		var id uint32
		if s.groups[number] == nil && outer.Lookup(number, &id) == nil {
			errs = append(errs, outer.Delete(number))
		}
	}
	return errors.Join(errs...)
}
