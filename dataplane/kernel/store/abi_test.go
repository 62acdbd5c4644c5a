// SPDX-License-Identifier: Apache-2.0

// Numbers and sizes of this package are those of bpf/abi.h.

package store

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
	"loci/dataplane/kernel/tables"
	"loci/forward"
	"loci/lisp"
)

// TestEveryDropReasonHasItsWord compares the programs' reasons with those of package
// forward, whose names counters have.
func TestEveryDropReasonHasItsWord(t *testing.T) {
	names := map[string]int{}
	for _, reason := range forward.DropReasons() {
		names[reason.String()] = int(reason)
	}
	count := 0
	for _, found := range regexp.MustCompile(`LISP_DROP_([A-Z_]+) = (\d+)`).FindAllStringSubmatch(kerneltest.ReadABI(t), -1) {
		number, _ := strconv.Atoi(found[2])
		if found[1] == "NONE" || found[1] == "MAX" {
			continue
		}
		count++
		if word := strings.ReplaceAll(strings.ToLower(found[1]), "_", "-"); names[word] != number {
			t.Errorf("reason %d is %q in abi.h, unknown to package forward", number, word)
		}
	}
	if count != len(names) {
		t.Errorf("%d reasons in abi.h, %d in package forward", count, len(names))
	}
	if WordHeldPackets < int(abi.DropMax) {
		t.Error("words of user space overlap the reasons")
	}
}

func TestRecordsStandSideBySide(t *testing.T) {
	for name, size := range map[string]uintptr{
		"mapping": unsafe.Sizeof(abi.Mapping{}), "locator-set": unsafe.Sizeof(abi.LocatorSet{}),
	} {
		if size%8 != 0 {
			t.Errorf("%s has %d octets, no multiple of 8: the kernel would pad it", name, size)
		}
	}
}

func TestPathsAreStoredAsProgramsReadThem(t *testing.T) {
	spec, err := abi.LoadTC()
	must(t, err)
	if got, want := spec.Maps[abi.MapPaths].ValueSize, unsafe.Sizeof(tables.SavedPath{}); uintptr(got) != want {
		t.Errorf("lisp_path has %d octets, tables.SavedPath %d", got, want)
	}
}

func TestRootsAndSizesAreThoseOfTheABI(t *testing.T) {
	kerneltest.ExpectConstants(t, map[string]uint64{
		"LISP_ROOT_IN_USE": rootInUse, "LISP_ROOT_FIRST_LEVEL_SHIFT": rootFirstLevelShift, "LISP_ROOT_FIRST_LEVEL_MASK": rootFirstLevels - 1,
		"LISP_HOPS_MAX": lisp.MaxHops, "LISP_ROOT_TABLE_SHIFT": rootTableShift, "LISP_LAST_USED_SHIFT": lastUsedShift, "LISP_ACTIONS": abi.ActionsEach, "LISP_FLOWS": abi.FlowsEach,
	})
}
