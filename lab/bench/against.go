// SPDX-License-Identifier: Apache-2.0

// One build beside another: whole passes of a bench alternate between the daemons of both. Each pass makes its
// network and starts its daemons anew, so that where a program or a table happens to lie in memory is no lasting
// advantage of one build.

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"loci/internal/jsondoc"
	"loci/lab"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	// comparedPasses of each build: six are the least for an interval with a confidence of 95 %.
	comparedPasses = 7
	// stopWait is how long an interrupted pass may take to remove its network.
	stopWait = 30 * time.Second
	// otherBuild follows the arm's name in the results of the build that is compared with.
	otherBuild = ", other build"
	// allCells is the case of a geometric mean over all cases and arms of one figure.
	allCells = "geometric mean"
)

// comparedUnits are those of figures that say how fast or how large Loci is; all others say how it was measured.
var comparedUnits = []string{
	"packets/s", "Mbit/s", "messages/s", "records/s", "misses/s", "adds/s", "mappings/s",
	"ns", "µs", "ms", "s", "µs/message", "MB", "octets/mapping",
}

// Compare runs a bench with the daemons of two builds in turns: options.Executable, and other. Options.Rounds is how
// many passes each has; 0 is seven. The report has a ratio for each cell, which is a figure of one of Loci's arms in
// one case, and for each figure the geometric mean over its cells. It has no targets.
func Compare(ctx context.Context, name, other string, options Options) (*Report, error) {
	k, label, err := choose(name, options)
	if err != nil {
		return nil, err
	}
	passes := options.Rounds
	if passes == 0 {
		passes = comparedPasses
	}
	screen := report.NewScreen(options.Out)
	if options.JSON {
		screen = report.NewScreen(options.Err)
	}
	c := &comparison{
		bench: k, options: options, screen: screen,
		report: &Report{
			Name: label + " --against", Environment: report.EnvironmentOf(options.Version, time.Now()),
		},
	}
	began := time.Now()
	screen.Line("%s: %s", name, k.Title)
	screen.Line("%s", c.report.Environment)
	err = c.alternate(ctx, passes, other)
	c.report.Took = jsondoc.SecondsOf(time.Since(began))
	if err == nil {
		c.report.SumUp()
		c.judge(passes)
		screen.Report(c.report)
	} else {
		c.report.Error = err.Error()
	}
	if options.JSON {
		err = errors.Join(err, c.report.Print(options.Out))
	}
	return c.report, err
}

// comparison is one run of Compare.
type comparison struct {
	bench   testbed.Bench
	options Options
	screen  *report.Screen
	report  *Report
}

// build is one of the two, and what follows the names of its arms.
type build struct{ executable, suffix string }

// alternate has each build first in half of the pairs of passes.
func (c *comparison) alternate(ctx context.Context, passes int, other string) error {
	for pair := range passes {
		c.screen.Progress(pair, passes)
		builds := []build{{executable: c.options.Executable}, {executable: other, suffix: otherBuild}}
		if pair%2 == 1 {
			slices.Reverse(builds)
		}
		for _, b := range builds {
			found, err := c.pass(ctx, b.executable)
			if err != nil {
				return fmt.Errorf("pass %d of %s: %w", pair+1, b.executable, err)
			}
			c.add(found, b.suffix)
		}
	}
	c.screen.Progress(passes, passes)
	return nil
}

// pass measures one build in a process of its own.
func (c *comparison) pass(ctx context.Context, executable string) (*Report, error) {
	self := c.options.Self
	if c.bench.BuiltIn {
		self = filepath.Join(filepath.Dir(executable), "loci-lab")
	}
	cmd := exec.CommandContext(ctx, self, c.arguments(executable)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = stopWait
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C comes to it once
	var progress strings.Builder
	cmd.Stderr = &progress
	output, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, lab.ErrInterrupted
	}
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, progress.String())
	}
	found := &Report{}
	if err := json.Unmarshal(output, found); err != nil {
		return nil, fmt.Errorf("read its report: %w", err)
	}
	return found, nil
}

// arguments of a pass: a third of the bench's rounds in a third of its time, without the arms of others.
func (c *comparison) arguments(executable string) []string {
	k := c.bench
	rounds := max(k.Rounds/3, 1)
	length := c.options.Measure
	if length == 0 {
		length = k.Length * time.Duration(rounds) / time.Duration(k.Rounds)
	}
	args := []string{
		"bench", k.Name, "--loci", executable, "--json",
		"--rounds", fmt.Sprint(rounds), "--seconds", fmt.Sprint(length.Seconds()),
	}
	if c.options.Entries != 0 {
		args = append(args, "--entries", fmt.Sprint(c.options.Entries))
	}
	if c.options.Lengths != "" {
		args = append(args, "--lengths", c.options.Lengths)
	}
	for _, name := range k.Cases {
		args = append(args, "--case", name)
	}
	for _, a := range k.Arms {
		if isLoci(a.Name) {
			args = append(args, "--arm", a.Name)
		}
	}
	return args
}

// isLoci says whether an arm is measured with the daemons that are compared.
func isLoci(arm string) bool { return arm == "loci" || strings.HasPrefix(arm, "loci ") }

// add files what one pass found.
func (c *comparison) add(found *Report, suffix string) {
	for _, result := range found.Results {
		if !isLoci(result.Arm) || !slices.Contains(comparedUnits, result.Unit) {
			continue
		}
		figure := report.Figure(result.Metric, result.Unit, result.Value)
		c.report.Add(result.Case, result.Arm+suffix, []report.Sample{figure})
	}
}

// judge compares cell by cell, and all cells of a figure at once. A cell counts only where every pass of both builds
// has its figure, and none is 0: else figures of different passes would be compared. The others are named.
func (c *comparison) judge(passes int) {
	var metrics []string
	for _, result := range c.report.Results {
		if strings.HasSuffix(result.Arm, otherBuild) {
			continue
		}
		other := c.report.Find(result.Case, result.Arm+otherBuild, result.Metric)
		if !isWhole(&result, passes) || !isWhole(other, passes) {
			cell := strings.Join([]string{result.Case, result.Arm, result.Metric}, ", ")
			c.screen.Line("left out, as not every pass has it: %s", cell)
			continue
		}
		c.report.CompareCell(result, *other)
		metrics = append(metrics, result.Metric)
	}
	slices.Sort(metrics)
	for _, metric := range slices.Compact(metrics) {
		c.report.MeanRatio(allCells, metric, "this build", "other build")
	}
}

// isWhole reports whether each pass has the figure.
func isWhole(r *report.Result, passes int) bool {
	return r != nil && len(r.Samples) == passes && !slices.Contains(r.Samples, 0)
}
