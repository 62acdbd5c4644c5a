// SPDX-License-Identifier: Apache-2.0

// This file tells maps of another layout, and sees the memory of an array map as its values.

package store

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ErrNewer says that pinned maps are those of a later version of Loci.
var ErrNewer = errors.New("the pinned maps are of a newer Loci: run that one, or let `loci datapath detach` remove them, which ends the forwarding by them")

// ErrABI says that pinned maps are not those of any version of Loci that this one knows.
var ErrABI = errors.New("the pinned maps are of another layout: `loci datapath detach` removes them and ends the forwarding by them")

// mmap maps the memory of an array map.
func mmap(m *ebpf.Map) ([]byte, error) {
	octets := int(m.MaxEntries()) * int(m.ValueSize())
	memory, err := unix.Mmap(m.FD(), 0, octets, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d octets of map %v: %w", octets, m, err)
	}
	return memory, nil
}

// viewOf sees the memory of an array map as its values, whose sizes are multiples
// of 8 octets, so that they stand side by side.
func viewOf[T any](memory []byte, m *ebpf.Map) []T {
	if unsafe.Sizeof(*new(T))%8 != 0 || uintptr(m.ValueSize()) != unsafe.Sizeof(*new(T)) {
		panic("dataplane/kernel: a map's values are not those of abi.h")
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), m.MaxEntries())
}
