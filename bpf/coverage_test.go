// SPDX-License-Identifier: Apache-2.0

// What the golden packets reach: every reason to drop a packet, at tc and with XDP in front of it, and every cell of RFC 6040.
// The table itself is package forward's column: its own test demands each reason of it there.

package bpf_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"loci/forward"
	"loci/internal/golden"
)

// unreached are the reasons that no packet of the table can reach, and why.
var unreached = map[forward.DropReason]string{
	forward.DropNoTAP:               "needs a machine without loci0: TestActions",
	forward.DropEncapsulationFailed: "needs a kernel without memory",
	forward.DropTAPOriginUnknown:    "needs an interface that went while a packet waited: TestReleased",
	forward.DropNoNativeRoute:       "needs a main table without route: TestReleased",
	forward.DropDecapsulationFailed: "needs a kernel without memory, or one before 6.3",
	forward.DropOtherInstance:       "needs site interfaces of two Instance-IDs: TestInstancesWithEqualEIDs of dataplane/kernel",
	forward.DropWaitingPacketsLimit: "user space: the conformance suite",
	forward.DropWaitingOctetsLimit:  "user space: the conformance suite",
	forward.DropWaitingTimeLimit:    "user space: the conformance suite",
	forward.DropWaitingSourceLimit:  "user space: the conformance suite",
	forward.DropControlLimit:        "user space: the conformance suite",
	forward.DropBacklogSourceLimit:  "needs a full queue: TestSharesOfTheTAP",
	forward.DropTooBig:              "user space: the conformance suite",
	forward.DropHandOverLimit:       "user space: the conformance suite",
	forward.DropRecursionDepth:      "TestThreeLayers, and the conformance suite",
	forward.DropMappingLoop:         "the conformance suite",
}

// TestDropCoverage prints how often the table reaches each reason at each hook, and demands it once.
func TestDropCoverage(t *testing.T) {
	table, err := golden.Load("..")
	must(t, err)
	inTable := map[string]uint64{}
	for _, c := range table.Cases {
		inTable[c.Reason]++
	}
	tc := newGoldenBench(t, table.Router)
	tc.all(t, table)
	xdp := newGoldenBench(t, table.Router)
	xdp.xdp, xdp.flags = true, []string{"LISP_INTERFACE_TAKES_FRAMES"}
	xdp.all(t, table)
	text := fmt.Sprintf("%-26s %8s %4s %8s\n", "reason", "forward", "tc", "XDP, tc")
	for _, r := range forward.DropReasons() {
		name := "LISP_DROP_" + strings.ToUpper(strings.ReplaceAll(r.String(), "-", "_"))
		counts := [3]uint64{inTable[r.String()], tc.dropped(name), xdp.dropped(name)}
		text += fmt.Sprintf("%-26s %8d %4d %8d  %s\n", r, counts[0], counts[1], counts[2], unreached[r])
		if hit := counts[0] > 0 && counts[1] > 0 && counts[2] > 0; hit == (unreached[r] != "") {
			t.Errorf("%s: reached %v times, declared unreachable: %q", r, counts, unreached[r])
		}
	}
	t.Logf("drop reasons reached by the golden packets\n%s", text)
}

// TestECNCoverage prints how often the table has each cell of figure 4 of RFC 6040, and demands it in both outer families.
func TestECNCoverage(t *testing.T) {
	table, err := golden.Load("..")
	must(t, err)
	cells := map[[3]byte]int{}
	for _, c := range table.Cases {
		if inner, outer, ok := ecnOf(c.Input); ok && c.Hook == "core" {
			cells[[3]byte{c.Input[0] >> 4, inner, outer}]++
		}
	}
	for _, family := range []byte{4, 6} {
		text := ""
		for inner := range byte(4) {
			for outer := range byte(4) {
				n := cells[[3]byte{family, inner, outer}]
				text += fmt.Sprintf("%5d", n)
				if n == 0 {
					t.Errorf("no packet over IPv%d with inner ECN %02b and outer ECN %02b", family, inner, outer)
				}
			}
			text += "\n"
		}
		t.Logf("cells of RFC 6040 over IPv%d, inner by outer\n%s", family, text)
	}
}

// ecnOf reads the ECN fields of a LISP packet.
func ecnOf(packet []byte) (inner, outer byte, ok bool) {
	ecn := func(p []byte) byte { return p[1] & 3 }
	if packet[0]>>4 == 6 {
		ecn = func(p []byte) byte { return byte(binary.BigEndian.Uint16(p)>>4) & 3 }
	}
	headers := map[byte]int{4: 36, 6: 56}[packet[0]>>4]
	if len(packet) < headers+20 {
		return 0, 0, false
	}
	outer, within := ecn(packet), packet[headers:]
	if within[0]>>4 == 6 {
		return byte(binary.BigEndian.Uint16(within)>>4) & 3, outer, true
	}
	return within[1] & 3, outer, true
}

// TestEveryReasonIsInTheABI holds the programs' list against package forward's, which the coverage is counted by.
func TestEveryReasonIsInTheABI(t *testing.T) {
	b := newBench(t)
	var enum *btf.Enum
	must(t, b.spec.Types.TypeByName("lisp_drop", &enum))
	if got, want := len(enum.Values)-2, len(forward.DropReasons()); got != want { // but NONE and MAX
		t.Errorf("%d reasons, package forward has %d", got, want)
	}
}
