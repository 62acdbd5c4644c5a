// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of first_level4 and first_level6 (bpf/abi.h, "Forwarding table"): which numbers are taken, and their
// memory. A first level is in its place, and whole, before a root names it. This file never edits one.

package store

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/reclaim"
)

// firstLevels are those of roots.
type firstLevels struct {
	specs     map[string]*ebpf.MapSpec // by the names of their outer maps
	instances *Instances
	outer     map[string]*outerMap // by their names
	made      map[uint32]*fibTable // in force or made since
	prepared  *preparedFirstLevel  // for NewFirstLevel, nil when there is none
}

func newFirstLevels(templates map[string]*ebpf.MapSpec, outer map[string]*outerMap, instances *Instances) firstLevels {
	l := firstLevels{specs: map[string]*ebpf.MapSpec{}, instances: instances, outer: outer, made: map[uint32]*fibTable{}}
	for _, name := range []string{abi.MapFirstLevel4, abi.MapFirstLevel6} {
		l.specs[name] = templates[name].InnerMap
	}
	return l
}

// NewFirstLevel implements lpm.Memory.
func (l *firstLevels) NewFirstLevel(family uint8) (block uint32, slots []uint32, err error) {
	if p := l.prepared; p != nil && family == 4 {
		l.prepared = nil
		if <-p.made; p.err == nil {
			l.made[p.number] = p.table
			return p.number, p.table.slots(), nil
		}
	}
	if block, err = l.freeFirstLevel(); err != nil {
		return 0, nil, err
	}
	outer := abi.MapFirstLevel4
	if family == 6 {
		outer = abi.MapFirstLevel6
	}
	made, err := l.makeFirstLevel(outer, block)
	if err != nil {
		return 0, nil, err
	}
	l.made[block] = made
	return block, made.slots(), nil
}

// makeFirstLevel makes an inner map, in its place of an outer one.
func (l *firstLevels) makeFirstLevel(outer string, block uint32) (*fibTable, error) {
	if err := l.emptyFirstLevel(block); err != nil { // of a process that was killed
		return nil, err
	}
	made, err := newInner(l.specs[outer].Copy())
	if err != nil {
		return nil, fmt.Errorf("making the block of a root: %w", err)
	}
	if err := l.outer[outer].put(block, made.m); err != nil {
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
func (l *firstLevels) PrepareFirstLevel() {
	if l.prepared != nil {
		return
	}
	block, err := l.freeFirstLevel()
	if err != nil {
		return // NewFirstLevel's caller learns of it
	}
	p := &preparedFirstLevel{number: block, made: make(chan struct{})}
	l.prepared = p
	go func() {
		defer close(p.made)
		p.table, p.err = l.makeFirstLevel(abi.MapFirstLevel4, block)
	}()
}

// dropNextFirstLevel drops the block that was prepared and not used.
func (l *firstLevels) dropNextFirstLevel() error {
	p := l.prepared
	if p == nil {
		return nil
	}
	l.prepared = nil
	if <-p.made; p.err != nil {
		return nil // there is none
	}
	return errors.Join(l.emptyFirstLevel(p.number), p.table.close())
}

// isOurs reports whether a block is one of this process, or about to be.
func (l *firstLevels) isOurs(block uint32) bool {
	return l.made[block] != nil || l.prepared != nil && l.prepared.number == block
}

// firstLevelsAreNamed reports whether a root in force names each block that was made.
func (l *firstLevels) firstLevelsAreNamed() bool {
	named := l.instances.namedFirstLevels()
	for block := range l.made {
		if !named[block] {
			return false
		}
	}
	return true
}

// freeFirstLevel returns the number of a block that no root names, nor is about to.
func (l *firstLevels) freeFirstLevel() (uint32, error) {
	taken := l.instances.namedFirstLevels()
	for block := uint32(1); block < rootFirstLevels; block++ {
		if taken[block] || l.isOurs(block) {
			continue
		}
		return block, nil
	}
	return 0, fmt.Errorf("%w: %d roots with blocks", dataplane.ErrFull, rootFirstLevels-1)
}

// DropFirstLevel implements lpm.Memory.
func (l *firstLevels) DropFirstLevel(block uint32) {
	reclaim.WaitForPrograms()
	_ = l.takeFirstLevel(block) // makeBlock tries again
}

// takeFirstLevel takes a block away, of this process or of an earlier one.
func (l *firstLevels) takeFirstLevel(block uint32) error {
	err := l.emptyFirstLevel(block)
	if dropped := l.made[block]; dropped != nil {
		err = errors.Join(err, dropped.close())
	}
	delete(l.made, block)
	return err
}

// emptyFirstLevel takes a block out of its place, whichever family it is of.
func (l *firstLevels) emptyFirstLevel(block uint32) error {
	for _, name := range []string{abi.MapFirstLevel4, abi.MapFirstLevel6} {
		if err := l.outer[name].empty(block); err != nil {
			return fmt.Errorf("removing the block of a root: %w", err)
		}
	}
	return nil
}

// deleteOtherFirstLevels removes all blocks but those of the roots in force. No program
// walks there any more.
func (l *firstLevels) deleteOtherFirstLevels() error {
	var errs []error
	named := l.instances.namedFirstLevels()
	for _, name := range []string{abi.MapFirstLevel4, abi.MapFirstLevel6} {
		for block := range l.outer[name].all() {
			if !named[block] {
				errs = append(errs, l.takeFirstLevel(block))
			}
		}
	}
	return errors.Join(errs...)
}
