// SPDX-License-Identifier: Apache-2.0

// Each bench for a fraction of a second, with the command built from this tree: all cases of all arms give figures, every
// packet is right, and nothing is left. No figure is judged: this machine may be at work.

package bench

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"loci/internal/commandtest"
	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lab/bench/user"
)

// leftovers lists the bench networks of one process.
func leftovers(t *testing.T, pid int) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"/run/netns/", "/run/loci-testnet/", testbed.Runs.Parent + "/"} {
		found, err := filepath.Glob(pattern + testbed.Runs.Prefix + "-" + strconv.Itoa(pid) + "-*")
		must(t, err)
		all = append(all, found...)
	}
	return all
}

// only are the flags that measure a bench's cases and arms.
func only(k testbed.Bench) (flags []string) {
	for _, name := range k.Cases {
		flags = append(flags, "--case", name)
	}
	for _, a := range k.Arms {
		flags = append(flags, "--arm", a.Name)
	}
	return flags
}

func TestEveryBench(t *testing.T) {
	testnet.RequireRoot(t)
	directory := t.TempDir()
	must(t, commandtest.Build(directory, "loci", "loci-lab"))
	executable := filepath.Join(directory, "loci-lab")
	for _, k := range kinds() {
		t.Run(k.Name, func(t *testing.T) {
			args := []string{"bench", k.Name, "--json", "--seconds", "0.5", "--rounds", "1"}
			switch {
			case k.Name == user.Name: // without the programs of others, and without the long search for a rate
				k.Cases = []string{"tcp/ipv4", "tcp/ipv6", "echo/ipv4", "echo/ipv6", "allocations/ipv4", "allocations/ipv6"}
				k.Arms = slices.DeleteFunc(k.Arms, func(a testbed.Arm) bool { return !slices.Contains([]string{user.ArmBare, user.ArmUser}, a.Name) })
				args = append(args, only(k)...)
			case k.Name == "relay": // without 10,000 bindings, which relay.TestBindings has fewer of
				isOfBindings := func(name string) bool { return strings.Contains(name, "bindings") }
				k.Cases = slices.DeleteFunc(k.Cases, isOfBindings)
				k.Arms = slices.DeleteFunc(k.Arms, func(a testbed.Arm) bool {
					return isOfBindings(a.Name) || strings.Contains(a.Name, "static mappings")
				})
				args = append(args, only(k)...)
			case k.Name == "failover": // what dies takes its time to come back
				args = append(args, "--case", "weights")
			case k.Whole != nil: // its largest tables take half a minute
				args = append(args, "--case", "ipv4-1k")
			}
			cmd := exec.Command(executable, args...)
			var progress strings.Builder
			cmd.Stderr = &progress
			output, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, progress.String())
			}
			var found report.Report
			must(t, json.Unmarshal(output, &found))
			switch {
			case k.Name == "failover":
				checkFailoverReport(t, &found)
			case k.Whole != nil:
				checkFIBReport(t, &found)
			default:
				checkReport(t, k, &found)
			}
			if left := leftovers(t, cmd.Process.Pid); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// checkFailoverReport wants the shares of two numbers of flows, and what they should be.
func checkFailoverReport(t *testing.T, r *report.Report) {
	t.Helper()
	if len(r.Results) != 2 || len(r.Targets) != 2 {
		t.Errorf("%d results and %d targets", len(r.Results), len(r.Targets))
	}
	for _, x := range r.Results {
		if x.Value <= 0 || x.Value >= 100 {
			t.Errorf("%s: %g %%", x.Metric, x.Value)
		}
	}
}

// checkFIBReport wants a lookup of every arm, of every kind of destinations, and what updates cost.
func checkFIBReport(t *testing.T, r *report.Report) {
	t.Helper()
	for _, arm := range []string{"loci fib", "loci fib and mapping", "loci fib, mapping and counters", "LPM_TRIE", "hash"} {
		for _, destinations := range []string{"random", "zipf", "single"} {
			if x := r.Find("ipv4-1k/"+destinations, arm, "lookup"); x == nil || x.Value <= 0 {
				t.Errorf("no lookup of %s, %s", arm, destinations)
			}
		}
	}
	for _, metric := range []string{"installs", "delete when full", "kernel memory"} {
		if x := r.Find("ipv4-1k/update", "loci fib", metric); x == nil || x.Value <= 0 {
			t.Errorf("no %s", metric)
		}
	}
}

// checkReport wants a figure for every case of every arm.
func checkReport(t *testing.T, k testbed.Bench, r *report.Report) {
	t.Helper()
	if r.Name != k.Name || r.Error != "" || r.Rounds != 1 || r.Environment.Kernel == "" || r.Environment.Cores == 0 {
		t.Errorf("report: %+v", r)
	}
	for _, name := range k.Cases {
		for _, a := range k.Arms {
			if !k.Measures(a.Name, name) {
				continue
			}
			found := false
			for _, result := range r.Results {
				found = found || result.Case == name && result.Arm == a.Name && len(result.Samples) == 1
			}
			if !found {
				t.Errorf("no result for %s of %s", name, a.Name)
			}
		}
	}
	if len(r.Targets) == 0 {
		t.Error("no target is judged")
	}
}

func TestInterruptedRunLeavesNothing(t *testing.T) {
	testnet.RequireRoot(t)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var out, progress strings.Builder
	_, err := Run(ctx, "forwarding", testbed.Options{JSON: true, Out: &out, Err: &progress, Executable: "/bin/false"})
	if err == nil {
		t.Error("a bench without daemons worked")
	}
	if left := leftovers(t, os.Getpid()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	var found report.Report
	if err := json.Unmarshal([]byte(out.String()), &found); err != nil || found.Error == "" {
		t.Errorf("the object does not tell what happened: %v, %q", err, found.Error)
	}
}

// A build beside itself: each figure of both has its ratio, and each kind of figure its mean.
func TestCompare(t *testing.T) {
	testnet.RequireRoot(t)
	directory := t.TempDir()
	must(t, commandtest.Build(directory, "loci", "loci-lab"))
	var out, progress strings.Builder
	found, err := Compare(t.Context(), "latency", filepath.Join(directory, "loci"), testbed.Options{
		JSON: true, Out: &out, Err: &progress,
		Rounds: 1, Measure: 200 * time.Millisecond, Cases: []string{"enc/ipv6-in-ipv6"},
		Executable: filepath.Join(directory, "loci"), Self: filepath.Join(directory, "loci-lab"),
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	cells := slices.IndexFunc(found.Ratios, func(r report.Ratio) bool { return r.Case == allCells })
	if cells <= 0 || len(found.Results) != 2*cells || len(found.Targets) != 0 {
		t.Fatalf("%d results, ratios %+v, targets %v", len(found.Results), found.Ratios, found.Targets)
	}
	for _, r := range found.Ratios[:cells] {
		isMeaned := slices.ContainsFunc(found.Ratios[cells:], func(m report.Ratio) bool {
			return m.Metric == r.Metric && m.Median > 0
		})
		if r.To != r.Of+otherBuild || !isMeaned {
			t.Errorf("%+v, mean: %v", r, isMeaned)
		}
	}
	if left := leftovers(t, os.Getpid()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A cell that a pass of one build lacks, or has 0 in, is in no ratio: different passes would be compared.
func TestCompareLeavesOutWhatAPassLacks(t *testing.T) {
	var progress strings.Builder
	c := comparison{report: &Report{}, screen: report.NewScreen(&progress)}
	for pass := range 3 {
		for _, suffix := range []string{"", otherBuild} {
			found := &Report{}
			add := func(name string, value float64) {
				found.Results = append(found.Results, report.Result{
					Case: name, Arm: "loci", Metric: "rate", Unit: "packets/s", Value: value,
				})
			}
			add("whole", 2)
			add("zero", float64(pass))
			if pass != 1 || suffix == "" {
				add("lacked", 4)
			}
			c.add(found, suffix)
		}
	}
	c.report.SumUp()
	c.judge(3)
	if len(c.report.Ratios) != 2 || c.report.Ratios[0].Case != "whole" || c.report.Ratios[1].Median != 1 {
		t.Errorf("ratios %+v", c.report.Ratios)
	}
	for _, name := range []string{"zero", "lacked"} {
		if !strings.Contains(progress.String(), "left out, as not every pass has it: "+name) {
			t.Errorf("%s is not named: %s", name, progress.String())
		}
	}
}

// A build that does not run fails the comparison, and says which it was.
func TestCompareWithWhatDoesNotRun(t *testing.T) {
	testnet.RequireRoot(t)
	var out, progress strings.Builder
	options := testbed.Options{Out: &out, Err: &progress, Executable: "/bin/true", Self: "/bin/false"}
	_, err := Compare(t.Context(), "latency", "/bin/false", options)
	if err == nil || !strings.Contains(err.Error(), "pass 1 of /bin/true") {
		t.Errorf("error %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
