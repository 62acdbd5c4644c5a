// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// simulated is what `loci-lab sim` prints for a small network.
func simulated(t *testing.T, arguments ...string) string {
	t.Helper()
	var out strings.Builder
	cmd := newSimCommand()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"--routers", "6"}, arguments...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("loci-lab sim %s: %v\n%s", strings.Join(arguments, " "), err, out.String())
	}
	return out.String()
}

// TestSimulationSaysWhetherItHadFaults: a run without faults converges after its start, and says why it had none.
func TestSimulationSaysWhetherItHadFaults(t *testing.T) {
	for _, c := range []struct {
		name      string
		arguments []string
		want      []string
		not       string
	}{
		{"too short", []string{"--seed", "1", "--duration", "4m9s"}, []string{"of the start;", "faults: none", "use --duration 4m40s or more"}, "last fault"},
		{"just too short", []string{"--seed", "1", "--duration", "4m39s"}, []string{"of the start;", "faults: none", "no faults: "}, "last fault"},
		{"long", []string{"--seed", "1", "--duration", "10m"}, []string{"of the last fault;"}, "no faults: "},
		{"calm", []string{"--seed", "1", "--calm"}, []string{"of the start;", "faults: none"}, "no faults: "},
		{"many seeds", []string{"--seeds", "2", "--duration", "1m"}, []string{"2 seeds", "no faults: "}, "last fault"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := simulated(t, c.arguments...)
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
			if strings.Contains(out, c.not) {
				t.Errorf("%q in:\n%s", c.not, out)
			}
		})
	}
}
