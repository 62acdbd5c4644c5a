// SPDX-License-Identifier: Apache-2.0

// How a bench runs: from the look at the machine to the removal of everything that was made.

package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
)

// Options of one run.
type Options struct {
	JSON    bool          // print one object to Out; the progress goes to Err
	Cases   []string      // names, or beginnings of names up to a slash; empty is all
	Rounds  int           // 0 is the bench's own number
	Measure time.Duration // how long to measure in all; 0 is the bench's own
	Entries int           // mappings at Enc, for the bench of forwarding; 0 is a handful
	Lengths string        // of their prefixes: LengthsInternet, which is the default, or LengthsHosts
	Arms    []string      // names; empty is all

	Out, Err   io.Writer
	Executable string // the command loci; the daemons are started from it
	Self       string // the command loci-lab; echo servers are started from it
	Version    string // of loci, for the report
}

// DefaultMeasure leaves the rest of 50 s for building.
const DefaultMeasure = 34 * time.Second

// MaxOverrun bounds what a run may take beyond its measuring time. Engines start within two seconds each, or in ten
// where other work has the processors.
const MaxOverrun = 5 * time.Minute

// Runs names the directories and the networks of benches.
var Runs = lab.Runs{Parent: "/run/loci-bench", Prefix: "loci-bench"}

// Bench is one bench.
type Bench struct {
	Name, Title string
	Rounds      int
	Length      time.Duration // of measuring, unless the user says otherwise
	Overrun     time.Duration // beyond Length: for building and removing; 0 is MaxOverrun
	Cases       []string
	Arms        []Arm
	// Attach adds generator and sink to a line before its arm is built: routers look at what the other ends can do.
	Attach func(l *Line) error
	// Prepare completes a line for this bench; nil is nothing.
	Prepare func(b *Run, l *Line) error
	// Whole measures everything of a bench that has no arms with lines; its network is empty.
	Whole func(ctx context.Context, b *Run) error
	// BuiltIn says that the bench measures code that is part of loci-lab: another build has a loci-lab of its own.
	BuiltIn bool
	// Measure is one slot: one case of one arm in one round.
	Measure func(ctx context.Context, b *Run, l *Line, caseName string, slot time.Duration) ([]report.Sample, error)
	// Has says whether an arm measures a case; nil: each arm measures all.
	Has func(arm, caseName string) bool
	// Share is the weight of a case in the measuring time; nil gives all the same.
	Share func(caseName string) int
	// Judge adds ratios and targets.
	Judge func(r *report.Report)
	// Lacks says what this machine does not have for some arms, by their names; nil: arms need nothing of their own.
	Lacks func(arms []string) []testnet.Problem
}

// Problems are what this machine lacks for the bench: nothing is made where there are some.
func (k *Bench) Problems() []testnet.Problem {
	problems := testnet.Preflight()
	if k.Lacks == nil {
		return problems
	}
	var arms []string
	for _, a := range k.Arms {
		if k.measuresAny(a.Name) {
			arms = append(arms, a.Name)
		}
	}
	return append(problems, k.Lacks(arms)...)
}

// Run is the state of one run.
type Run struct {
	Bench    Bench
	Options  Options
	Screen   *report.Screen
	Report   *report.Report
	Network  *testnet.Network
	Instance *lab.Directory
	Lines    []*Line
	Daemons  []*Process
	Pinned   bool // daemons run on serverCPU

	mapSockets bool // daemons get mapping sockets
}

func newBench(k Bench, options Options) *Run {
	progress := options.Out
	if options.JSON {
		progress = options.Err
	}
	return &Run{
		Bench: k, Options: options, Screen: report.NewScreen(progress),
		Report: &report.Report{Name: k.Name, Environment: report.EnvironmentOf(options.Version, time.Now())},
	}
}

// Measure runs a bench. The report has the label for its name; it is filled as far as the run went, and with Options.JSON
// it is also printed.
func Measure(ctx context.Context, k Bench, label string, options Options) (*report.Report, error) {
	if options.Measure == 0 {
		options.Measure = k.Length
	}
	b := newBench(k, options)
	b.Report.Name = label
	err := b.run(ctx)
	if options.JSON {
		err = errors.Join(err, b.Report.Print(options.Out))
	}
	return b.Report, err
}

// run does everything from preflight to removal.
func (b *Run) run(ctx context.Context) error {
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	if problems := b.Bench.Problems(); len(problems) > 0 {
		return b.fail(&lab.PreflightError{Purpose: "run benches", Problems: problems})
	}
	if _, err := Runs.RemoveLeftovers(false); err != nil {
		return b.fail(fmt.Errorf("remove what an earlier run left: %w", err))
	}
	began, before := time.Now(), report.TimeShareNow()
	limited, cancel := context.WithTimeout(ctx, b.Options.Measure+cmp.Or(b.Bench.Overrun, MaxOverrun))
	defer cancel()
	err := b.measureAll(limited)
	if err != nil {
		err = lab.WithLogs(err, b.Daemons)
	}
	removal := b.remove()
	b.Report.Took = jsondoc.SecondsOf(time.Since(began))
	b.Report.Environment.StolenPercent = before.StolenPercent(report.TimeShareNow())
	switch {
	case removal != nil:
		err = errors.Join(err, fmt.Errorf("remove the network: %w", removal))
	case ctx.Err() != nil:
		err = lab.ErrInterrupted
	}
	if err != nil {
		return b.fail(err)
	}
	b.Report.SumUp()
	b.Bench.Judge(b.Report)
	b.Screen.Report(b.Report)
	if stolen := b.Report.Environment.StolenPercent; stolen > 0 {
		b.Screen.Line("\n%.1f %% of the processors' time was stolen.", stolen)
	}
	return nil
}

func (b *Run) fail(err error) error {
	b.Report.Error = err.Error()
	return err
}

func (b *Run) measureAll(ctx context.Context) error {
	b.Screen.Line("%s: %s", b.Bench.Name, b.Bench.Title)
	b.Screen.Line("%s", b.Report.Environment)
	if err := b.build(ctx); err != nil {
		return err
	}
	if b.Bench.Whole != nil {
		return b.Bench.Whole(ctx, b)
	}
	return b.interleave(ctx)
}

// build makes the network and a line for each arm.
func (b *Run) build(ctx context.Context) (err error) {
	if b.Network, err = testnet.New(Runs.Prefix); err != nil {
		return err
	}
	if b.Instance, err = Runs.NewDirectory(b.Network.Name()); err != nil {
		return err
	}
	for _, a := range b.Bench.Arms {
		if !b.Bench.measuresAny(a.Name) {
			continue
		}
		if err := b.buildLine(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a.Name, err)
		}
	}
	return nil
}

func (b *Run) buildLine(ctx context.Context, a Arm) error {
	l, err := NewLine(b.Network, a)
	if err != nil {
		return err
	}
	b.Lines = append(b.Lines, l)
	if b.Bench.Attach != nil {
		if err := b.Bench.Attach(l); err != nil {
			return err
		}
	}
	if err := a.Build(ctx, b, l); err != nil {
		return err
	}
	if b.Bench.Prepare == nil {
		return nil
	}
	return b.Bench.Prepare(b, l)
}

// interleave measures every case of every arm in each round. The arms change places from round to round, so that none
// always follows the same one.
func (b *Run) interleave(ctx context.Context) error {
	for round := range b.Bench.Rounds {
		b.Screen.Progress(round, b.Bench.Rounds)
		for _, name := range b.Bench.Cases {
			if err := b.measureCase(ctx, name, round); err != nil {
				return err
			}
		}
	}
	b.Screen.Progress(b.Bench.Rounds, b.Bench.Rounds)
	return nil
}

func (b *Run) measureCase(ctx context.Context, name string, round int) error {
	for i := range b.Lines {
		l := b.Lines[(i+round)%len(b.Lines)]
		if !b.Bench.Measures(l.Arm.Name, name) {
			continue
		}
		samples, err := b.Bench.Measure(ctx, b, l, name, b.Bench.Slot(b.Options.Measure, name))
		if err != nil {
			return fmt.Errorf("%s, %s: %w", l.Arm.Name, name, err)
		}
		b.Report.Add(name, l.Arm.Name, samples)
	}
	return nil
}

// Slot is how long one round of one case of one arm may take, of so much time in all.
func (k *Bench) Slot(measure time.Duration, caseName string) time.Duration {
	share := k.Share
	if share == nil {
		share = func(string) int { return 1 }
	}
	sum := 0
	for _, name := range k.Cases {
		for _, a := range k.Arms {
			if k.Measures(a.Name, name) {
				sum += share(name)
			}
		}
	}
	return measure * time.Duration(share(caseName)) / time.Duration(max(sum, 1)*k.Rounds)
}

// Measures says whether an arm measures a case.
func (k *Bench) Measures(arm, caseName string) bool { return k.Has == nil || k.Has(arm, caseName) }

// measuresAny says whether an arm measures any of the cases: one that does not has no line.
func (k *Bench) measuresAny(arm string) bool {
	return len(k.Cases) == 0 || slices.ContainsFunc(k.Cases, func(name string) bool { return k.Measures(arm, name) })
}

// remove ends the daemons and takes everything away, also what was made in part.
func (b *Run) remove() error {
	b.StopDaemons()
	var all []error
	for _, l := range b.Lines {
		all = append(all, l.close())
	}
	if b.Network != nil {
		all = append(all, b.Network.Close())
	}
	if b.Instance != nil {
		all = append(all, b.Instance.Remove())
	}
	return errors.Join(all...)
}
