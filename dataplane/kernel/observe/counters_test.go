// SPDX-License-Identifier: Apache-2.0

// Every counter of the programs is shown.

package observe

import (
	"regexp"
	"strconv"
	"testing"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/kerneltest"
)

// TestEveryCounterIsShown finds counters of programs that the daemon does not read.
func TestEveryCounterIsShown(t *testing.T) {
	ownField := map[string]bool{"RELEASED": true, "NATIVE": true, "PROXIED": true, "MISS": true, "EVENT_LOST": true, "MAX": true}
	for _, found := range regexp.MustCompile(`LISP_COUNTER_([A-Z_0-9]+) = (\d+)`).FindAllStringSubmatch(kerneltest.ReadABI(t), -1) {
		number, _ := strconv.Atoi(found[2])
		if _, ok := otherCounters[abi.CounterIndex(number)]; !ok && !ownField[found[1]] {
			t.Errorf("counter %s is not shown", found[1])
		}
	}
	if names := OtherCounterNames(); len(names) != len(otherCounters)+len(otherWords) {
		t.Errorf("%d names of %d counters", len(names), len(otherCounters))
	}
}
