// SPDX-License-Identifier: Apache-2.0

// This file makes inner maps, which are tables and the levels before them, and maps their memory.

package store

import (
	"errors"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/lpm"
)

// A fibTable is an inner map of fib; the levels before tables are kept as such as well.
type fibTable struct {
	index  uint32
	placed bool // at index
	m      *ebpf.Map
	memory []byte
}

// newInner makes an inner map, which is in no place.
func newInner(spec *ebpf.MapSpec) (*fibTable, error) {
	m, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, err
	}
	memory, err := mmap(m)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return &fibTable{m: m, memory: memory}, nil
}

func (t *fibTable) close() error {
	return errors.Join(unix.Munmap(t.memory), t.m.Close())
}

func (t *fibTable) slots() []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&t.memory[0])), int(t.m.MaxEntries())*lpm.CellSlots)
}
