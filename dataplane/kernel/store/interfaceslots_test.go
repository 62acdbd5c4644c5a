// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"loci/dataplane/kernel/abi"
)

// TestInterfaceSlots goes through the life of a slot that two interfaces want.
func TestInterfaceSlots(t *testing.T) {
	s := make(InterfaceSlots, 4)
	see := func(ifindex uint32) (record abi.Interface, ok bool) { // as bpf/settings.h does
		slot := s[ifindex%4]
		return slot.Records[slot.Which&1], slot.Ifindex == ifindex
	}
	expect := func(ifindex, iid uint32, want bool) {
		t.Helper()
		if record, ok := see(ifindex); ok != want || ok && record.Iid != iid {
			t.Errorf("interface %d: Instance-ID %d, there %t; want %d, %t", ifindex, record.Iid, ok, iid, want)
		}
	}
	expect(2, 0, false)
	s.Put(2, abi.Interface{Iid: 20})
	expect(2, 20, true)
	which := s[2].Which
	s.Put(2, abi.Interface{Iid: 20})
	if s[2].Which != which {
		t.Error("the same record again was written")
	}
	s.Put(2, abi.Interface{Iid: 21})
	expect(2, 21, true)
	if old := s[2].Records[which]; old.Iid != 20 {
		t.Errorf("the record that programs may still read is %+v", old)
	}
	s.Put(6, abi.Interface{Iid: 60})
	expect(2, 21, true)
	expect(6, 0, false)
	s.KeepOnly(func(ifindex uint32) bool { return ifindex == 2 || ifindex == 6 })
	expect(2, 21, true)
	s.KeepOnly(func(ifindex uint32) bool { return ifindex == 6 })
	expect(2, 0, false)
	s.Put(6, abi.Interface{Iid: 61})
	expect(6, 61, true)
}
