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
)

// A fibTable is an inner map of fib.
type fibTable struct {
	index  uint32
	m      *ebpf.Map
	memory []byte
}

func (t *fibTable) close() error {
	return errors.Join(unix.Munmap(t.memory), t.m.Close())
}

// newTable implements tableMaps.
func (s *mapStore) newTable(cells int) ([]uint32, error) {
	spec := s.spec.Maps[lisptcMapFib].InnerMap.Copy()
	spec.MaxEntries = uint32(cells)
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("making a forwarding table of %d cells: %w", cells, err)
	}
	memory, err := s.mmap(m)
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	s.pending = append(s.pending, &fibTable{m: m, memory: memory})
	return unsafe.Slice((*uint32)(unsafe.Pointer(&memory[0])), cells*cellSlots), nil
}

// dropTable implements tableMaps.
func (s *mapStore) dropTable(slots []uint32) {
	for i, table := range s.pending {
		if unsafe.Pointer(&table.memory[0]) == unsafe.Pointer(&slots[0]) {
			_ = table.close() // nothing can be done about it
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			return
		}
	}
}

// switchTable implements tableMaps.
func (s *mapStore) switchTable(roots map[rootKey]walkBegin) error {
	if len(s.pending) == 0 {
		return errors.New("there is no new forwarding table to switch to")
	}
	next := s.pending[len(s.pending)-1]
	index, err := s.freeTableIndex()
	if err != nil {
		return err
	}
	next.index = index
	for key := range roots {
		if _, err := s.instances.place(key.instance); err != nil {
			return err
		}
	}
	if err := s.maps[lisptcMapFib].Put(index, next.m); err != nil {
		return fmt.Errorf("adding a forwarding table: %w", err)
	}
	previous := s.table
	s.table = next
	for key, begin := range roots {
		if err := s.putRoot(key, begin); err != nil {
			return err // it cannot be: every root has its place
		}
	}
	s.instances.keepOnly(roots)
	waitForPrograms()
	return errors.Join(s.deleteOtherTables(previous), s.deleteOtherBlocks(), s.deleteOtherGroups())
}

func (s *mapStore) freeTableIndex() (uint32, error) {
	fib := s.maps[lisptcMapFib]
	for index := range fib.MaxEntries() {
		var id uint32
		if err := fib.Lookup(index, &id); errors.Is(err, ebpf.ErrKeyNotExist) {
			return index, nil
		}
	}
	return 0, fmt.Errorf("%w: %d forwarding tables", dataplane.ErrFull, fib.MaxEntries())
}

// deleteOtherTables removes all tables but the one in force. previous is still
// mapped.
func (s *mapStore) deleteOtherTables(previous *fibTable) error {
	fib := s.maps[lisptcMapFib]
	var errs []error
	for index := range fib.MaxEntries() {
		var id uint32
		if index != s.table.index && fib.Lookup(index, &id) == nil {
			errs = append(errs, fib.Delete(index))
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
	block := blockOf(s.instances.get(key))
	if err := s.instances.delete(key); err != nil {
		return err
	}
	if block != 0 {
		waitForPrograms()
	}
	return nil
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
