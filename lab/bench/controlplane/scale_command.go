// SPDX-License-Identifier: Apache-2.0

// The command of `loci bench scale`: `loci show registrations` of the whole table to /dev/null, beside the same with
// --json, and when its first row comes. The daemon has one core, the command all, as where an operator runs it.

package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"time"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	// commandPairs is how often table and JSON are printed, one after the other.
	commandPairs = 3
	// firstRowTimes is how often the first row is waited for.
	firstRowTimes = 5
	// peakEvery is how often the command is asked for the most that it has had in memory.
	peakEvery = 20 * time.Millisecond

	metricFirstRow = "first row of the command"
	metricRatio    = "the command / the same with --json"
	metricPeak     = "memory of the command"
)

// metricCommand names how long the command takes for so many entries.
func metricCommand(entries int) string { return fmt.Sprintf("the command, %d entries", entries) }

// command measures `loci show registrations` of all that is registered. The registrations are refreshed before each
// pair, because none may expire meanwhile.
func command(ctx context.Context, b *testbed.Run, c *controlRun) ([]report.Sample, error) {
	var rows []float64
	for range firstRowTimes {
		took, err := timeFirstRow(ctx, b, c.server)
		if err != nil {
			return nil, err
		}
		rows = append(rows, took.Seconds())
	}
	var tables, ratios []float64
	most := 0.0
	for range commandPairs {
		if err := c.fill(ctx); err != nil {
			return nil, err
		}
		table, peak, err := timeCommand(ctx, b, c.server)
		if err != nil {
			return nil, err
		}
		asJSON, peakJSON, err := timeCommand(ctx, b, c.server, "--json")
		if err != nil {
			return nil, err
		}
		status, err := c.server.Client.Status(ctx)
		if err != nil || status.Registrations != c.mappings {
			few := fmt.Errorf("%d registrations of %d", status.Registrations, c.mappings)
			return nil, errors.Join(err, few)
		}
		tables, ratios = append(tables, table.Seconds()), append(ratios, table.Seconds()/asJSON.Seconds())
		most = max(most, peak, peakJSON)
	}
	return []report.Sample{
		report.Figure(metricCommand(c.mappings), "s", medianOf(tables)),
		report.Figure(metricRatio, "", medianOf(ratios)),
		report.Figure(metricFirstRow, "s", medianOf(rows)),
		report.Figure(metricPeak, "MB", most/1e6),
	}, c.fill(ctx)
}

// showRegistrations is the command at a daemon.
func showRegistrations(ctx context.Context, b *testbed.Run, p *testbed.Process, more ...string) *exec.Cmd {
	words := []string{"show", "registrations", "--socket", b.Instance.Path(p.Name + ".sock")}
	return exec.CommandContext(ctx, b.Options.Executable, append(words, more...)...)
}

// startOnAllCores starts a command that does not inherit the core of this process.
func startOnAllCores(cmd *exec.Cmd) error {
	own := os.Getpid()
	if err := testbed.Unpin(own); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), testbed.Pin(own, testbed.LoadCPU))
}

// timeCommand runs it to /dev/null, and returns the most that it had in memory too.
func timeCommand(
	ctx context.Context, b *testbed.Run, p *testbed.Process, more ...string,
) (took time.Duration, peak float64, err error) {
	cmd := showRegistrations(ctx, b, p, more...)
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	if err := startOnAllCores(cmd); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(peakEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("%s: %w: %s", cmd, err, said.String())
			}
			return time.Since(began), peak, err
		case <-tick.C:
			if octets, err := testbed.PeakOctets(cmd.Process.Pid); err == nil { // or it has ended
				peak = math.Max(peak, octets)
			}
		}
	}
}

// timeFirstRow runs it until the line behind the heading comes, and ends it.
func timeFirstRow(ctx context.Context, b *testbed.Run, p *testbed.Process) (time.Duration, error) {
	cmd := showRegistrations(ctx, b, p)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := startOnAllCores(cmd); err != nil {
		return 0, err
	}
	lines := bufio.NewReader(out)
	_, heading := lines.ReadString('\n')
	_, row := lines.ReadString('\n')
	took := time.Since(began)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err := errors.Join(heading, row); err != nil {
		return 0, fmt.Errorf("%s prints no row: %w: %s", cmd, err, said.String())
	}
	return took, nil
}
