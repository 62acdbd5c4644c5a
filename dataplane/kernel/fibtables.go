// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of fib, one of which is in force, and the roots that
// say so (bpf/abi.h, "Forwarding table"): how a table is replaced by a larger one, or
// by that of a later process, without a lookup that fails. It never edits a cell.

package kernel

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
)

// A fibTable is an inner map of fib.
type fibTable struct {
	index  uint32
	placed bool // at index
	m      *ebpf.Map
	memory []byte
}

func (t *fibTable) close() error {
	return errors.Join(unix.Munmap(t.memory), t.m.Close())
}

func (t *fibTable) slots() []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&t.memory[0])), int(t.m.MaxEntries())*cellSlots)
}

// A preparedTable is being made by a goroutine of its own: to make one and to put it in its place takes longer than
// packets should wait.
type preparedTable struct {
	cells int
	made  chan struct{} // closed when all else is as it stays
	table *fibTable
	err   error
}

// newTable implements tableMaps.
func (s *mapStore) newTable(cells int) ([]uint32, error) {
	table := s.takePrepared(cells)
	if table == nil {
		var err error
		if table, err = s.makeTable(cells); err != nil {
			return nil, err
		}
	}
	s.pending = append(s.pending, table)
	return table.slots(), nil
}

func (s *mapStore) makeTable(cells int) (*fibTable, error) {
	spec := s.spec.Maps[abi.MapFib].InnerMap.Copy()
	spec.MaxEntries = uint32(cells)
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("making a forwarding table of %d cells: %w", cells, err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &fibTable{m: m, memory: memory}, nil
}

// prepareTable implements tableMaps. Where none can be made, newTable's caller learns of it.
func (s *mapStore) prepareTable(cells int) (made int) {
	if p := s.prepared; p != nil {
		select {
		case <-p.made:
		default:
			return 0
		}
		if p.err != nil || p.cells >= cells {
			return p.cells
		}
		s.prepared = nil
		s.background.Go(func() { _ = s.discard(p.table) })
	}
	index, err := s.freeTableIndex()
	if err != nil {
		return cells
	}
	p := &preparedTable{cells: cells, made: make(chan struct{})}
	s.prepared = p
	s.background.Go(func() {
		defer close(p.made)
		if p.table, p.err = s.makeTable(cells); p.err == nil {
			p.table.index = index
			p.err = s.place(p.table)
		}
	})
	return 0
}

// preparedCells implements tableMaps.
func (s *mapStore) preparedCells() int {
	if s.prepared == nil {
		return 0
	}
	return s.prepared.cells
}

// takePrepared returns the prepared table when it has so many cells, and is rid of it when it has not.
func (s *mapStore) takePrepared(cells int) *fibTable {
	p := s.prepared
	if p == nil {
		return nil
	}
	s.prepared = nil
	<-p.made
	if p.err == nil && p.cells == cells {
		return p.table
	}
	if p.table != nil {
		_ = s.discard(p.table)
	}
	return nil
}

// place puts a table where roots can name it, which waits until programs see it.
func (s *mapStore) place(table *fibTable) error {
	if err := s.outer[abi.MapFib].put(table.index, table.m); err != nil {
		return fmt.Errorf("adding a forwarding table: %w", err)
	}
	table.placed = true
	return nil
}

// discard takes a table away that no program walks in.
func (s *mapStore) discard(table *fibTable) error {
	var err error
	if table.placed {
		err = s.outer[abi.MapFib].empty(table.index)
	}
	return errors.Join(err, table.close())
}

// dropTable implements tableMaps.
func (s *mapStore) dropTable(slots []uint32) {
	for i, table := range s.pending {
		if unsafe.Pointer(&table.memory[0]) == unsafe.Pointer(&slots[0]) {
			_ = s.discard(table) // nothing can be done about it
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			return
		}
	}
}

// switchTable implements tableMaps.
func (s *mapStore) switchTable(roots map[rootKey]walkBegin) error {
	s.background.Wait()   // else it would take tables away from where others are by then
	_ = s.takePrepared(0) // what comes now has another size
	_ = s.dropNextBlock() // a root that still lacks little has it made again
	previous, err := s.enforce(roots)
	if err != nil {
		return err
	}
	s.instances.keepOnly(roots)
	if previous != nil && s.blocksAreNamed() {
		s.retireTables(previous)
		return nil
	}
	waitForPrograms()
	s.deleteOtherGroups()
	_ = errors.Join(s.deleteOtherTables(previous), s.deleteOtherBlocks()) // what is left keeps its place: the new table is in force
	return nil
}

// retireTables takes all tables of this process but the one in force away when programs are done with them.
func (s *mapStore) retireTables(previous *fibTable) {
	retired := []*fibTable{previous}
	for _, table := range s.pending {
		if table != s.table {
			retired = append(retired, table)
		}
	}
	s.pending = nil
	s.background.Go(func() {
		waitForPrograms()
		for _, table := range retired {
			_ = s.discard(table) // else its place stays taken until the next process
		}
	})
}

// extendTable implements tableMaps.
func (s *mapStore) extendTable(roots map[rootKey]walkBegin) error {
	previous, err := s.enforce(roots)
	if err != nil {
		return err
	}
	s.pending = nil
	if haveBlocks(roots) {
		// Slots of a block name cells of either table: none may change while a walk is between an older root and such a slot.
		waitForPrograms()
	}
	s.background.Go(func() {
		waitForPrograms()
		_ = s.discard(previous) // else its place stays taken until the next switch
	})
	return nil
}

// haveBlocks reports whether a root begins in a block of its own, which no table has.
func haveBlocks(roots map[rootKey]walkBegin) bool {
	for key, begin := range roots {
		if key.family == 4 && begin.block != 0 {
			return true
		}
	}
	return false
}

// enforce makes all roots begin in the last table of newTable, and returns the one before.
func (s *mapStore) enforce(roots map[rootKey]walkBegin) (previous *fibTable, err error) {
	if len(s.pending) == 0 {
		return nil, errors.New("there is no new forwarding table to switch to")
	}
	next := s.pending[len(s.pending)-1]
	for key := range roots {
		if _, err := s.instances.place(key.instance); err != nil {
			return nil, err
		}
	}
	if !next.placed {
		if next.index, err = s.freeTableIndex(); err != nil {
			return nil, err
		}
		if err := s.place(next); err != nil {
			return nil, err
		}
	}
	previous, s.table = s.table, next
	for key, begin := range roots {
		if err := s.putRoot(key, begin); err != nil {
			return nil, err // it cannot be: every root has its place
		}
	}
	return previous, nil
}

// freeTableIndex returns a place where no table is, nor is being put.
func (s *mapStore) freeTableIndex() (uint32, error) {
	fib := s.outer[abi.MapFib]
	index, ok := fib.free(0)
	if !ok {
		return 0, fmt.Errorf("%w: %d forwarding tables", dataplane.ErrFull, fib.places())
	}
	return index, nil
}

// deleteOtherTables removes all tables but the one in force. previous is still
// mapped.
func (s *mapStore) deleteOtherTables(previous *fibTable) error {
	fib := s.outer[abi.MapFib]
	var errs []error
	for index := range fib.all() {
		if index != s.table.index {
			errs = append(errs, fib.empty(index))
		}
	}
	for _, table := range append(s.pending, previous) {
		if table != nil && table != s.table {
			errs = append(errs, table.close())
		}
	}
	s.pending = nil
	return errors.Join(errs...)
}

// putRoot implements tableMaps.
func (s *mapStore) putRoot(key rootKey, begin walkBegin) error {
	return s.instances.put(key, rootAt(s.table.index, begin))
}

// deleteRoot implements tableMaps.
func (s *mapStore) deleteRoot(key rootKey) error {
	return s.instances.delete(key)
}

// membarrierGlobal is MEMBARRIER_CMD_GLOBAL, which waits for an RCU grace period:
// for every program that runs now.
const membarrierGlobal = 1

// waitForPrograms returns when no program runs any more that ran when it was called.
func waitForPrograms() {
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		time.Sleep(restTime) // a kernel with nohz_full refuses
	}
}
