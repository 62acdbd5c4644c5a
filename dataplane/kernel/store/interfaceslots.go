// SPDX-License-Identifier: Apache-2.0

// This file keeps the interfaces a second time where programs find them without a
// search (bpf/abi.h, interface_slots). A program sees the old record or the new one,
// never half of each.

package store

import (
	"sync/atomic"
	"time"

	"loci/dataplane/kernel/abi"
)

// InterfaceSlots is the memory of that map. Two interfaces may meet in one slot: the
// second one stays in the hash alone.
type InterfaceSlots []abi.InterfaceSlot

// SlotRest is how long a record is left alone after another one took its place: a
// program that still reads it runs for microseconds.
const SlotRest = time.Millisecond

func (s InterfaceSlots) of(ifindex uint32) *abi.InterfaceSlot {
	return &s[ifindex%uint32(len(s))]
}

// Put stores an interface's record, if its slot is free or its own.
func (s InterfaceSlots) Put(ifindex uint32, record abi.Interface) {
	slot := s.of(ifindex)
	switch holder := atomic.LoadUint32(&slot.Ifindex); {
	case holder != 0 && holder != ifindex:
		return
	case holder == ifindex && slot.Records[slot.Which&1] == record:
		return
	}
	next := slot.Which&1 ^ 1
	slot.Records[next] = record
	atomic.StoreUint32(&slot.Which, next)
	atomic.StoreUint32(&slot.Ifindex, ifindex)
	time.Sleep(SlotRest)
}

// KeepOnly frees the slots of interfaces that are not wanted, also those that an
// earlier process left.
func (s InterfaceSlots) KeepOnly(wanted func(ifindex uint32) bool) {
	for i := range s {
		holder := s[i].Ifindex
		if holder != 0 && !wanted(holder) {
			atomic.StoreUint32(&s[i].Ifindex, 0)
			time.Sleep(SlotRest)
		}
	}
}
