// SPDX-License-Identifier: Apache-2.0

package temptcp

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"loci/internal/commandtest"
	"loci/internal/testnet"
	"loci/lab/experiment"
)

// TestSmallRun: the whole experiment, with one source, one buffer and two modes. Subflows are on their paths, and all
// files are written.
func TestSmallRun(t *testing.T) {
	testnet.RequireRoot(t)
	commands, out := t.TempDir(), t.TempDir()
	must(t, commandtest.Build(commands, "loci"))
	p := parametersOf(t)
	few := plan{
		size: size{Rounds: 1, Lasts: 3 * time.Second}, Sources: p.Sources[:1], Buffers: p.ReceiveBuffers[:1],
		Modes: []mode{{modeDefault, 0}, {modeStateless, 3}},
	}
	d, err := p.run(t.Context(), few, experiment.Options{Out: out, Executable: filepath.Join(commands, "loci"),
		Progress: t.Output()})
	must(t, err)
	if len(d.Transfers) != 2 || len(d.Relations) == 0 || d.Scheduler == "" || len(d.Choices) != mostPaths-1 {
		t.Fatalf("%+v", d)
	}
	for i, subflows := range []int{2, 3} {
		// The last one may come late where the machine has much else to do. The first transfers waited for all.
		if got := d.Transfers[i]; got.Goodput <= 0 || len(got.Subflows) < 2 || got.Wanted != subflows || got.Subflows[0].RTT <= 0 {
			t.Fatalf("%+v", got)
		}
	}
	for i, s := range d.Transfers[1].Subflows {
		if want := p.Sources[0].Paths[i]; s.By != want || s.Back == "" || s.Number != i+1 {
			t.Errorf("subflow %d: %+v, want it by %s", i+1, s, want)
		}
	}
	for _, suffix := range []string{".json", ".csv", "-figure5.svg", "-figure6.svg", "-figure7.svg", "-figure8.svg",
		"-figure9.svg", "-sweep.svg"} {
		if info, err := os.Stat(filepath.Join(out, Name+suffix)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}
