// SPDX-License-Identifier: Apache-2.0

package main

// Exit statuses of loci-lab: the scheme of loci.

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/lab"
)

func exitStatus(t *testing.T, words ...string) (int, error) {
	t.Helper()
	root := newRootCommand()
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	err := command.Execute(t.Context(), root, words)
	return command.Status("loci-lab", err, lab.ExitStatus), err
}

func TestWrongUsageEndsWithStatus2(t *testing.T) {
	var each func(cmd *cobra.Command, words []string)
	each = func(cmd *cobra.Command, words []string) {
		for _, sub := range cmd.Commands() {
			here := append(slices.Clone(words), sub.Name())
			each(sub, here)
			for _, wrong := range [][]string{{"--no-such-flag"}, {"superfluous", "superfluous"}} {
				if status, err := exitStatus(t, append(slices.Clone(here), wrong...)...); status != command.StatusUsage {
					t.Errorf("loci-lab %v %v: status %d, %v", here, wrong, status, err)
				}
			}
		}
	}
	each(newRootCommand(), nil)
	for _, words := range [][]string{
		{"benches"}, {"bench", "controll"}, {"sim", "--seeds", "0"}, {"demo", "--keep", "--remove"}, {"demo", "--engine", "steam"},
		{"demo", "--timeout", "0s"}, {"echo", "nowhere"}, {"tunnel", "tun0", "nowhere", "192.0.2.1:4341"},
	} {
		if status, err := exitStatus(t, words...); status != command.StatusUsage {
			t.Errorf("loci-lab %v: status %d, %v", words, status, err)
		}
	}
}

func TestNoRouterEndsWithStatus3(t *testing.T) {
	for _, words := range [][]string{{"demo"}, {"bench", "fib"}, {"run", "p4-table1"}} {
		if status, err := exitStatus(t, append(words, "--loci", "/nowhere/loci")...); status != command.StatusAbsent {
			t.Errorf("loci-lab %v: status %d, %v", words, status, err)
		}
	}
}

// TestFlagsThatWouldDoNothingAreRefused: each kind of experiment has its own.
func TestFlagsThatWouldDoNothingAreRefused(t *testing.T) {
	values := map[string][]string{
		"seed": {"--seed", "2"}, "duration": {"--duration", "2m"}, "timeout": {"--timeout", "2m"}, "variant": {"--variant", "ipv4-tc"},
		"keep": {"--keep"}, "out": {"--out", "results"}, "engine": {"--engine", "user"}, "full": {"--full"},
	}
	for name, refused := range map[string][]string{
		"p4-table1": {"seed", "duration", "full"}, "mine.yaml": {"seed", "duration", "full"},
		"faults":          {"variant", "keep", "out", "timeout", "full"},
		"control-cut":     {"keep", "out", "timeout", "seed", "duration", "full"},
		"oor-throughput":  {"variant", "keep", "engine", "seed", "duration", "timeout", "full"},
		"oor-multihoming": {"variant", "keep", "seed", "duration", "timeout", "full"},
		"te-mptcp":        {"variant", "keep", "seed", "duration", "timeout"},
	} {
		for flag, words := range values {
			want, expected := command.StatusAbsent, "/nowhere/loci"
			if slices.Contains(refused, flag) {
				want, expected = command.StatusUsage, name+" has no --"+flag
			}
			words = append([]string{"run", name, "--loci", "/nowhere/loci"}, words...)
			if status, err := exitStatus(t, words...); status != want || !strings.Contains(err.Error(), expected) {
				t.Errorf("loci-lab %v: status %d, %v; want %d", words, status, err, want)
			}
		}
	}
}

// TestNearMissesAreNamed: of commands and flags.
func TestNearMissesAreNamed(t *testing.T) {
	for want, words := range map[string][]string{
		`unknown command "dmeo" for "loci-lab"; did you mean demo?`:                  {"dmeo"},
		`unknown command "fowarding" for "loci-lab bench"; did you mean forwarding?`: {"bench", "fowarding"},
		"unknown flag: --jsno; did you mean --json?":                                 {"demo", "--jsno"},
	} {
		if _, err := exitStatus(t, words...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("loci-lab %v: %v, want %q", words, err, want)
		}
	}
}
