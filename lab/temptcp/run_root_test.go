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

// TestSmallRun: the whole experiment, with one source, one buffer and a mode of each kind, the stateful one where
// routers have that binding. Subflows are on their paths, and all files are written.
func TestSmallRun(t *testing.T) {
	testnet.RequireRoot(t)
	commands, out := t.TempDir(), t.TempDir()
	must(t, commandtest.Build(commands, "loci"))
	p := parametersOf(t)
	few := plan{
		size: size{Rounds: 1, Lasts: 3 * time.Second}, Sources: p.Sources[:1], Buffers: p.ReceiveBuffers[:1],
		Modes: []mode{{modeDefault, 0}, {modeStateless, 3}, {modeStateful, 3}},
	}
	d, err := p.run(t.Context(), few, experiment.Options{Out: out, Executable: filepath.Join(commands, "loci"),
		Progress: t.Output()})
	must(t, err)
	want := len(few.Modes)
	if len(d.Transfers) != want || len(d.Relations) == 0 || d.Scheduler == "" || len(d.Choices) != mostPaths-1 {
		t.Fatalf("%+v", d)
	}
	for i, got := range d.Transfers {
		// The last subflow may come late where the machine has much else to do. The first transfers waited for all.
		if got.Goodput <= 0 || len(got.Subflows) < 2 || got.Wanted != few.Modes[i].subflows() || got.Subflows[0].RTT <= 0 {
			t.Errorf("%+v", got)
		}
		for _, s := range got.Subflows {
			if bound := i > 0; bound && (s.By != p.Sources[0].Paths[s.Number-1] || s.Back == "") {
				t.Errorf("%s: %+v", got.Mode, s)
			}
		}
	}
	for _, suffix := range []string{".json", ".csv", "-figure5.svg", "-figure6.svg", "-figure7.svg", "-figure8.svg",
		"-figure9.svg", "-sweep.svg"} {
		if info, err := os.Stat(filepath.Join(out, Name+suffix)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}
