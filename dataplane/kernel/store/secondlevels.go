// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of second_level6 (bpf/abi.h, "Forwarding table"): which numbers are taken, and their memory. A second
// level is in its place, and whole, before a first level names it. This file never edits one.

package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

// secondLevels are those of first levels of IPv6.
type secondLevels struct {
	spec     *ebpf.MapSpec
	outer    *outerMap
	made     map[uint32]*fibTable // by their numbers
	clearing sync.Once            // of second levels of an earlier process
	cleared  sync.WaitGroup       // goroutines that do that, or take away second levels of this process
	closing  atomic.Bool
}

func newSecondLevels(templates map[string]*ebpf.MapSpec, outer map[string]*outerMap) secondLevels {
	return secondLevels{spec: templates[abi.MapSecondLevel6].InnerMap, outer: outer[abi.MapSecondLevel6], made: map[uint32]*fibTable{}}
}

// NewSecondLevel implements lpm.Memory. It takes no number that another process's roots may lead to.
func (l *secondLevels) NewSecondLevel(write func(elements []lpm.Entry)) (number uint32, elements []lpm.Entry, err error) {
	outer := l.outer
	number, ok := outer.free(1)
	if !ok {
		return 0, nil, fmt.Errorf("%w: %d groups of IPv6 prefixes", dataplane.ErrFull, outer.places()-1)
	}
	made, err := newInner(l.spec.Copy())
	if err != nil {
		return 0, nil, fmt.Errorf("making a group of IPv6 prefixes: %w", err)
	}
	elements = unsafe.Slice((*lpm.Entry)(unsafe.Pointer(&made.memory[0])), lpm.SecondLevelEntries)
	write(elements)
	if err := outer.put(number, made.m); err != nil {
		return 0, nil, errors.Join(fmt.Errorf("adding a group of IPv6 prefixes: %w", err), made.close())
	}
	l.made[number] = made
	return number, elements, nil
}

// DropSecondLevels implements lpm.Memory. A table that empties gives up hundreds, one after the other: they go in the background, for which
// no switch of tables waits.
func (l *secondLevels) DropSecondLevels(numbers []uint32) {
	dropped := make([]*fibTable, len(numbers))
	for i, number := range numbers {
		dropped[i] = l.made[number]
		delete(l.made, number)
	}
	l.cleared.Go(func() {
		reclaim.WaitForPrograms()
		l.emptySecondLevels(numbers)
		for _, group := range dropped {
			_ = group.close()
		}
	})
}

// deleteOtherSecondLevels removes the groups of an earlier process, to which no root in force leads, in the background. There may be many, and before
// Linux 6.8 each takes some 20 ms: no caller waits for them. What has no number any more is of this process, so once is enough.
func (l *secondLevels) deleteOtherSecondLevels() {
	l.clearing.Do(func() {
		var others []uint32
		for number := range l.outer.all() {
			if l.made[number] == nil {
				others = append(others, number)
			}
		}
		l.cleared.Go(func() { l.emptySecondLevels(others) })
	})
}

// emptySecondLevels ends early when the store is closed: what is left the next process finds.
func (l *secondLevels) emptySecondLevels(numbers []uint32) {
	for _, number := range numbers {
		if l.closing.Load() {
			return
		}
		_ = l.outer.empty(number) // else the number stays taken
	}
}
