// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of fib, one of which is in force, and the roots that
// say so (bpf/abi.h, "Forwarding table"): how a table is replaced by a larger one, or
// by that of a later process, without a lookup that fails. It never edits a cell.

package store

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
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
	return unsafe.Slice((*uint32)(unsafe.Pointer(&t.memory[0])), int(t.m.MaxEntries())*lpm.CellSlots)
}

// A preparedTable is being made by a goroutine of its own: to make one and to put it in its place takes longer than
// packets should wait.
type preparedTable struct {
	cells int
	made  chan struct{} // closed when all else is as it stays
	table *fibTable
	err   error
}

// NewTable implements lpm.Memory.
func (s *Store) NewTable(cells int) ([]uint32, error) {
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

func (s *Store) makeTable(cells int) (*fibTable, error) {
	spec := s.Spec.Maps[abi.MapFib].InnerMap.Copy()
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

// PrepareTable implements lpm.Memory. Where none can be made, NewTable's caller learns of it.
func (s *Store) PrepareTable(cells int) (made int) {
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

// PreparedCells implements lpm.Memory.
func (s *Store) PreparedCells() int {
	if s.prepared == nil {
		return 0
	}
	return s.prepared.cells
}

// takePrepared returns the prepared table when it has so many cells, and is rid of it when it has not.
func (s *Store) takePrepared(cells int) *fibTable {
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
func (s *Store) place(table *fibTable) error {
	if err := s.outer[abi.MapFib].put(table.index, table.m); err != nil {
		return fmt.Errorf("adding a forwarding table: %w", err)
	}
	table.placed = true
	return nil
}

// discard takes a table away that no program walks in.
func (s *Store) discard(table *fibTable) error {
	var err error
	if table.placed {
		err = s.outer[abi.MapFib].empty(table.index)
	}
	return errors.Join(err, table.close())
}

// DropTable implements lpm.Memory.
func (s *Store) DropTable(slots []uint32) {
	for i, table := range s.pending {
		if unsafe.Pointer(&table.memory[0]) == unsafe.Pointer(&slots[0]) {
			_ = s.discard(table) // nothing can be done about it
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			return
		}
	}
}

// SwitchTable implements lpm.Memory.
func (s *Store) SwitchTable(roots map[lpm.RootKey]lpm.Begin) error {
	s.background.Wait()        // else it would take tables away from where others are by then
	_ = s.takePrepared(0)      // what comes now has another size
	_ = s.dropNextFirstLevel() // a root that still lacks little has it made again
	previous, err := s.enforce(roots)
	if err != nil {
		return err
	}
	s.Instances.keepOnly(roots)
	if previous != nil && s.firstLevelsAreNamed() {
		s.retireTables(previous)
		return nil
	}
	reclaim.WaitForPrograms()
	s.deleteOtherSecondLevels()
	_ = errors.Join(s.deleteOtherTables(previous), s.deleteOtherFirstLevels()) // what is left keeps its place: the new table is in force
	return nil
}

// retireTables takes all tables of this process but the one in force away when programs are done with them.
func (s *Store) retireTables(previous *fibTable) {
	retired := []*fibTable{previous}
	for _, table := range s.pending {
		if table != s.table {
			retired = append(retired, table)
		}
	}
	s.pending = nil
	s.background.Go(func() {
		reclaim.WaitForPrograms()
		for _, table := range retired {
			_ = s.discard(table) // else its place stays taken until the next process
		}
	})
}

// ExtendTable implements lpm.Memory.
func (s *Store) ExtendTable(roots map[lpm.RootKey]lpm.Begin) error {
	previous, err := s.enforce(roots)
	if err != nil {
		return err
	}
	s.pending = nil
	if haveFirstLevels(roots) {
		// Slots of a block name cells of either table: none may change while a walk is between an older root and such a slot.
		reclaim.WaitForPrograms()
	}
	s.background.Go(func() {
		reclaim.WaitForPrograms()
		_ = s.discard(previous) // else its place stays taken until the next switch
	})
	return nil
}

// haveFirstLevels reports whether a root begins in a block of its own, which no table has.
func haveFirstLevels(roots map[lpm.RootKey]lpm.Begin) bool {
	for key, begin := range roots {
		if key.Family == 4 && begin.FirstLevel != 0 {
			return true
		}
	}
	return false
}

// enforce makes all roots begin in the last table of NewTable, and returns the one before.
func (s *Store) enforce(roots map[lpm.RootKey]lpm.Begin) (previous *fibTable, err error) {
	if len(s.pending) == 0 {
		return nil, errors.New("there is no new forwarding table to switch to")
	}
	next := s.pending[len(s.pending)-1]
	for key := range roots {
		if _, err := s.Instances.place(key.Instance); err != nil {
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
		if err := s.PutRoot(key, begin); err != nil {
			return nil, err // it cannot be: every root has its place
		}
	}
	return previous, nil
}

// freeTableIndex returns a place where no table is, nor is being put.
func (s *Store) freeTableIndex() (uint32, error) {
	fib := s.outer[abi.MapFib]
	index, ok := fib.free(0)
	if !ok {
		return 0, fmt.Errorf("%w: %d forwarding tables", dataplane.ErrFull, fib.places())
	}
	return index, nil
}

// deleteOtherTables removes all tables but the one in force. previous is still
// mapped.
func (s *Store) deleteOtherTables(previous *fibTable) error {
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

// PutRoot implements lpm.Memory.
func (s *Store) PutRoot(key lpm.RootKey, begin lpm.Begin) error {
	return s.Instances.put(key, rootAt(s.table.index, begin))
}

// DeleteRoot implements lpm.Memory.
func (s *Store) DeleteRoot(key lpm.RootKey) error {
	return s.Instances.delete(key)
}
