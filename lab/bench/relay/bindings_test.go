// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"loci/internal/commandtest"
	"loci/internal/testnet"
	"loci/lab/bench/testbed"
)

// TestBindings: packets to EIDs of several nodes get through each RTR by bindings that the nodes' registrations made,
// and as many static mappings stand beside them.
func TestBindings(t *testing.T) {
	testnet.RequireRoot(t)
	directory := t.TempDir()
	if err := commandtest.Build(directory, "loci", "loci-lab"); err != nil {
		t.Fatal(err)
	}
	k := bench(mostOfNode + 5) // two nodes, whose last Map-Registers are not full
	k.Rounds = 1
	k.Cases = slices.DeleteFunc(k.Cases, func(name string) bool { return !strings.HasPrefix(name, casesBindings) })
	var out, progress strings.Builder
	r, err := testbed.Measure(t.Context(), k, k.Name, testbed.Options{
		Executable: filepath.Join(directory, "loci"), Self: filepath.Join(directory, "loci-lab"),
		Measure: k.Length / 100, JSON: true, Out: &out, Err: &progress,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	for _, name := range k.Cases {
		for _, arm := range bindingArms(0) {
			metric := "rate"
			if strings.HasPrefix(arm.Name, userRTR) {
				metric = testbed.MetricArriving
			}
			if x := r.Find(name, arm.Name, metric); x == nil || x.Value <= 0 {
				t.Errorf("no rate of %s, %s", arm.Name, name)
			}
		}
	}
	if len(r.Targets) != len(rtrs)*len(k.Cases) {
		t.Errorf("%d targets: %v", len(r.Targets), r.Targets)
	}
}
