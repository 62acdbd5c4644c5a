// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestDropReasonsAreThoseOfThePrograms holds the Go list against the enum of
// bpf/abi_counters.h: same numbers, same names.
func TestDropReasonsAreThoseOfThePrograms(t *testing.T) {
	source, err := os.ReadFile("../bpf/abi_counters.h")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(source), "enum lisp_drop {")
	list, _, end := strings.Cut(list, "};")
	if !ok || !end {
		t.Fatal("bpf/abi_counters.h has no enum lisp_drop")
	}
	programs := map[DropReason]string{}
	for _, m := range regexp.MustCompile(`LISP_DROP_(\w+) = (\d+),`).FindAllStringSubmatch(list, -1) {
		n, _ := strconv.Atoi(m[2])
		if m[1] != "MAX" && m[1] != "NONE" {
			programs[DropReason(n)] = strings.ReplaceAll(strings.ToLower(m[1]), "_", "-")
		}
	}
	for _, r := range DropReasons() {
		if programs[r] != r.String() {
			t.Errorf("reason %d is %q here and %q in bpf/abi_counters.h", r, r, programs[r])
		}
		delete(programs, r)
	}
	for n, name := range programs {
		t.Errorf("bpf/abi_counters.h has reason %d (%s), package forward has not", n, name)
	}
}
