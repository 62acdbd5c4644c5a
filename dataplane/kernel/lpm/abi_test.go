// SPDX-License-Identifier: Apache-2.0

package lpm

import (
	"testing"
	"unsafe"

	"loci/dataplane/kernel/kerneltest"
)

func TestSlotsAreThoseOfTheABI(t *testing.T) {
	kerneltest.ExpectConstants(t, map[string]uint64{
		"LISP_SLOT_NODE": uint64(slotNode), "LISP_SLOT_LEAF": uint64(slotLeaf),
		"LISP_SLOT_EMPTY": uint64(slotEmpty), "LISP_SLOT_TAG_MASK": uint64(slotTagMask), "LISP_SLOT_INDEX_MASK": uint64(slotIndex),
		"LISP_SLOT_STRIDE_SHIFT": slotStrideShift, "LISP_FIRST_LEVEL4_BITS": firstLevelBits4, "LISP_FIRST_LEVEL6_BITS": firstLevelBits6, "LISP_SECOND_LEVEL6_BITS": secondLevelBits,
	})
	if size := unsafe.Sizeof([CellSlots]uint32{}); size%8 != 0 {
		t.Errorf("a cell has %d octets, no multiple of 8: the kernel would pad it", size)
	}
}
