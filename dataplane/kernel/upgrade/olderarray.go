// SPDX-License-Identifier: Apache-2.0

// This file reads arrays of an older layout: in their memory, where the kernel lends it. A system call for each value takes seconds
// with a million mappings.

package upgrade

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// An olderArray is an array of structures, to which programs may still write.
type olderArray struct {
	translator
	m      *ebpf.Map
	memory []byte // nil: the kernel is asked for each value
	value  []byte // what it answered
}

// array opens one. The caller closes it, also after an error.
func (o *Older) array(spec *ebpf.CollectionSpec, name, structure string) (*olderArray, error) {
	a := &olderArray{m: o.Maps[name]}
	var err error
	if a.translator, err = o.translator(spec, a.m, structure); err != nil {
		return a, err
	}
	a.value = make([]byte, a.FromSize)
	if a.m.Flags()&unix.BPF_F_MMAPABLE == 0 || a.FromSize%8 != 0 { // else values do not stand side by side
		return a, nil
	}
	if a.memory, err = unix.Mmap(a.m.FD(), 0, int(a.m.MaxEntries())*len(a.value), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return a, fmt.Errorf("mapping map %s: %w", name, err)
	}
	return a, nil
}

// at returns a value, which is the caller's until the next one.
func (a *olderArray) at(index uint32) ([]byte, error) {
	if a.memory == nil {
		return a.value, a.m.Lookup(index, &a.value)
	}
	return a.memory[int(index)*len(a.value):][:len(a.value)], nil
}

func (a *olderArray) close() {
	if a.memory != nil {
		_ = unix.Munmap(a.memory) // the process ends with it
	}
}
