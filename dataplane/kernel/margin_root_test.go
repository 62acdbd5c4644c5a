// SPDX-License-Identifier: Apache-2.0

// The verifier of the running kernel accepts every program, and how far each is from
// its limits is printed (`go test -v -run Margin`). The test needs root.

package kernel

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/features"
	"loci/internal/testnet"
)

const (
	// What the kernel allows: instructions that the verifier walks through in all
	// branches, and octets of stack of a program with the functions it calls.
	verifiedLimit = 1000000
	stackLimit    = 512
	// verifiedShare of them is what a program may take here: another kernel's verifier
	// may need more for the same program. frameLimit is for each function.
	verifiedShare = 0.1
	frameLimit    = 256
)

var (
	processedInstructions = regexp.MustCompile(`processed (\d+) insns`)
	stackDepths           = regexp.MustCompile(`stack depth ([0-9+]+)`)
)

func TestVerifierMargin(t *testing.T) {
	testnet.RequireRoot(t)
	for object, load := range map[string]func() (*ebpf.CollectionSpec, error){"tc": abi.LoadTC, "xdp": abi.LoadXDP} {
		spec, err := load()
		must(t, err)
		if object == "tc" && features.HaveDecapFlags() {
			must(t, spec.Variables[abi.VarDecapL3Flags].Set(uint32(1)))
		}
		coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			t.Errorf("%s: the verifier refuses a program: %v\n%s", object, err, strings.Join(refused.Log[max(0, len(refused.Log)-30):], "\n"))
			continue
		}
		must(t, err)
		for _, name := range slices.Sorted(maps.Keys(coll.Programs)) {
			expectMargin(t, name, coll.Programs[name].VerifierLog)
		}
		coll.Close()
	}
}

// expectMargin reads the statistics of a program's verification.
func expectMargin(t *testing.T, name, log string) {
	t.Helper()
	processed := processedInstructions.FindStringSubmatch(log)
	depths := stackDepths.FindStringSubmatch(log)
	if processed == nil || depths == nil {
		t.Errorf("%s: the kernel tells no statistics: %q", name, log)
		return
	}
	instructions, err := strconv.Atoi(processed[1])
	must(t, err)
	t.Logf("%s: %d of %d instructions verified (%.1f %%), stack of each function %s, limit %d for a chain of calls",
		name, instructions, verifiedLimit, 100*float64(instructions)/verifiedLimit, depths[1], stackLimit)
	if float64(instructions) > verifiedShare*verifiedLimit {
		t.Errorf("%s: %d instructions are more than %.0f %% of %d", name, instructions, 100*verifiedShare, verifiedLimit)
	}
	for frame := range strings.SplitSeq(depths[1], "+") {
		if octets, err := strconv.Atoi(frame); err != nil || octets > frameLimit {
			t.Errorf("%s: a function has a frame of %s octets, the limit is %d", name, frame, frameLimit)
		}
	}
}

// TestFeatures prints what the kernel lacks, and wants nothing of it that is required.
func TestFeatures(t *testing.T) {
	testnet.RequireRoot(t)
	for _, f := range features.Probe() {
		if f.Present {
			continue
		}
		t.Logf("not there: %s; lost by it: %s", f.Name, f.Lost)
		if f.Required {
			t.Errorf("%s is required and not there", f.Name)
		}
	}
}
