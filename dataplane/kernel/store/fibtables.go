// SPDX-License-Identifier: Apache-2.0

// This file holds the inner maps of fib, one of which is in force, and the roots that
// say so (bpf/abi.h, "Forwarding table"): how a table is replaced by a larger one, or
// by that of a later process, without a lookup that fails. It never edits a cell.

package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/lpm"
	"loci/dataplane/kernel/reclaim"
)

// FIB is the memory of the forwarding table: it implements lpm.Memory.
type FIB struct {
	firstLevels
	secondLevels
	spec       *ebpf.MapSpec // of a table
	instances  *Instances
	outer      map[string]*outerMap // by their names
	table      *fibTable            // in force
	pending    []*fibTable          // made since
	prepared   *preparedTable       // for NewTable, nil when there is none
	background sync.WaitGroup       // goroutines that prepare a table or take one away
}

// newFIB makes tables and levels by the templates of the outer maps, and puts them in their places.
func newFIB(templates map[string]*ebpf.MapSpec, outer map[string]*outerMap, instances *Instances) *FIB {
	return &FIB{
		firstLevels:  newFirstLevels(templates, outer, instances),
		secondLevels: newSecondLevels(templates, outer),
		spec:         templates[abi.MapFib].InnerMap,
		instances:    instances,
		outer:        outer,
	}
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
func (f *FIB) NewTable(cells int) ([]uint32, error) {
	table := f.takePrepared(cells)
	if table == nil {
		var err error
		if table, err = f.makeTable(cells); err != nil {
			return nil, err
		}
	}
	f.pending = append(f.pending, table)
	return table.slots(), nil
}

func (f *FIB) makeTable(cells int) (*fibTable, error) {
	spec := f.spec.Copy()
	spec.MaxEntries = uint32(cells)
	made, err := newInner(spec)
	if err != nil {
		return nil, fmt.Errorf("making a forwarding table of %d cells: %w", cells, err)
	}
	return made, nil
}

// PrepareTable implements lpm.Memory. Where none can be made, NewTable's caller learns of it.
func (f *FIB) PrepareTable(cells int) (made int) {
	if p := f.prepared; p != nil {
		select {
		case <-p.made:
		default:
			return 0
		}
		if p.err != nil || p.cells >= cells {
			return p.cells
		}
		f.prepared = nil
		f.background.Go(func() { _ = f.discard(p.table) })
	}
	index, err := f.freeTableIndex()
	if err != nil {
		return cells
	}
	p := &preparedTable{cells: cells, made: make(chan struct{})}
	f.prepared = p
	f.background.Go(func() {
		defer close(p.made)
		if p.table, p.err = f.makeTable(cells); p.err == nil {
			p.table.index = index
			p.err = f.place(p.table)
		}
	})
	return 0
}

// PreparedCells implements lpm.Memory.
func (f *FIB) PreparedCells() int {
	if f.prepared == nil {
		return 0
	}
	return f.prepared.cells
}

// takePrepared returns the prepared table when it has so many cells, and is rid of it when it has not.
func (f *FIB) takePrepared(cells int) *fibTable {
	p := f.prepared
	if p == nil {
		return nil
	}
	f.prepared = nil
	<-p.made
	if p.err == nil && p.cells == cells {
		return p.table
	}
	if p.table != nil {
		_ = f.discard(p.table)
	}
	return nil
}

// place puts a table where roots can name it, which waits until programs see it.
func (f *FIB) place(table *fibTable) error {
	if err := f.outer[abi.MapFib].put(table.index, table.m); err != nil {
		return fmt.Errorf("adding a forwarding table: %w", err)
	}
	table.placed = true
	return nil
}

// discard takes a table away that no program walks in.
func (f *FIB) discard(table *fibTable) error {
	var err error
	if table.placed {
		err = f.outer[abi.MapFib].empty(table.index)
	}
	return errors.Join(err, table.close())
}

// DropTable implements lpm.Memory.
func (f *FIB) DropTable(slots []uint32) {
	for i, table := range f.pending {
		if unsafe.Pointer(&table.memory[0]) == unsafe.Pointer(&slots[0]) {
			_ = f.discard(table) // nothing can be done about it
			f.pending = append(f.pending[:i], f.pending[i+1:]...)
			return
		}
	}
}

// SwitchTable implements lpm.Memory.
func (f *FIB) SwitchTable(roots map[lpm.RootKey]lpm.Begin) error {
	f.background.Wait()        // else it would take tables away from where others are by then
	_ = f.takePrepared(0)      // what comes now has another size
	_ = f.dropNextFirstLevel() // a root that still lacks little has it made again
	previous, err := f.enforce(roots)
	if err != nil {
		return err
	}
	f.instances.keepOnly(roots)
	if previous != nil && f.firstLevelsAreNamed() {
		f.retireTables(previous)
		return nil
	}
	reclaim.WaitForPrograms()
	f.deleteOtherSecondLevels()
	_ = errors.Join(f.deleteOtherTables(previous), f.deleteOtherFirstLevels()) // what is left keeps its place: the new table is in force
	return nil
}

// retireTables takes all tables of this process but the one in force away when programs are done with them.
func (f *FIB) retireTables(previous *fibTable) {
	retired := []*fibTable{previous}
	for _, table := range f.pending {
		if table != f.table {
			retired = append(retired, table)
		}
	}
	f.pending = nil
	f.background.Go(func() {
		reclaim.WaitForPrograms()
		for _, table := range retired {
			_ = f.discard(table) // else its place stays taken until the next process
		}
	})
}

// ExtendTable implements lpm.Memory.
func (f *FIB) ExtendTable(roots map[lpm.RootKey]lpm.Begin) error {
	previous, err := f.enforce(roots)
	if err != nil {
		return err
	}
	f.pending = nil
	if haveFirstLevels(roots) {
		// Slots of a block name cells of either table: none may change while a walk is between an older root and such a slot.
		reclaim.WaitForPrograms()
	}
	f.background.Go(func() {
		reclaim.WaitForPrograms()
		_ = f.discard(previous) // else its place stays taken until the next switch
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
func (f *FIB) enforce(roots map[lpm.RootKey]lpm.Begin) (previous *fibTable, err error) {
	if len(f.pending) == 0 {
		return nil, errors.New("there is no new forwarding table to switch to")
	}
	next := f.pending[len(f.pending)-1]
	for key := range roots {
		if _, err := f.instances.place(key.Instance); err != nil {
			return nil, err
		}
	}
	if !next.placed {
		if next.index, err = f.freeTableIndex(); err != nil {
			return nil, err
		}
		if err := f.place(next); err != nil {
			return nil, err
		}
	}
	previous, f.table = f.table, next
	for key, begin := range roots {
		if err := f.PutRoot(key, begin); err != nil {
			return nil, err // it cannot be: every root has its place
		}
	}
	return previous, nil
}

// freeTableIndex returns a place where no table is, nor is being put.
func (f *FIB) freeTableIndex() (uint32, error) {
	fib := f.outer[abi.MapFib]
	index, ok := fib.free(0)
	if !ok {
		return 0, fmt.Errorf("%w: %d forwarding tables", dataplane.ErrFull, fib.places())
	}
	return index, nil
}

// deleteOtherTables removes all tables but the one in force. previous is still
// mapped.
func (f *FIB) deleteOtherTables(previous *fibTable) error {
	fib := f.outer[abi.MapFib]
	var errs []error
	for index := range fib.all() {
		if index != f.table.index {
			errs = append(errs, fib.empty(index))
		}
	}
	for _, table := range append(f.pending, previous) {
		if table != nil && table != f.table {
			errs = append(errs, table.close())
		}
	}
	f.pending = nil
	return errors.Join(errs...)
}

// PutRoot implements lpm.Memory.
func (f *FIB) PutRoot(key lpm.RootKey, begin lpm.Begin) error {
	return f.instances.put(key, rootAt(f.table.index, begin))
}

// DeleteRoot implements lpm.Memory.
func (f *FIB) DeleteRoot(key lpm.RootKey) error {
	return f.instances.delete(key)
}

// release ends what goes on in the background, and lets go of all inner maps: programs keep those in force.
func (f *FIB) release() error {
	f.closing.Store(true)
	f.background.Wait()
	f.cleared.Wait()
	_ = f.takePrepared(0)
	errs := []error{f.dropNextFirstLevel()}
	for _, table := range slices.Concat(slices.Collect(maps.Values(f.firstLevels.made)), f.pending, []*fibTable{f.table}, slices.Collect(maps.Values(f.secondLevels.made))) {
		if table != nil {
			errs = append(errs, table.close())
		}
	}
	f.table, f.pending, f.firstLevels.made, f.secondLevels.made = nil, nil, nil, nil
	return errors.Join(errs...)
}
