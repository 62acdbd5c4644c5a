// SPDX-License-Identifier: Apache-2.0

// Package bench is `loci bench`: what LISP forwarding costs beside plain routing and VXLAN on the same machine, measured in
// network namespaces with Loci's own daemons, traffic generators and sinks.
//
// All arms of a bench run in turns within one run, and are compared round by round: a machine that slows down slows all of
// them. Every packet is verified where it arrives. Nothing outside the namespaces is touched, and nothing is left behind.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"loci/internal/testnet"
	"loci/lab"
)

// Options of one run.
type Options struct {
	JSON    bool          // print one object to Out; the progress goes to Err
	Cases   []string      // names, or beginnings of names up to a slash; empty is all
	Rounds  int           // 0 is the bench's own number
	Measure time.Duration // how long to measure in all; 0 is the bench's own
	Entries int           // mappings at Enc, for the bench of forwarding; 0 is a handful
	Lengths string        // of their prefixes: LengthsInternet, which is the default, or LengthsHosts

	Out, Err   io.Writer
	Executable string // the command loci; the daemons are started from it
	Version    string // of loci, for the report
}

// defaultMeasure leaves the rest of 50 s for building.
const defaultMeasure = 34 * time.Second

// maxOverrun bounds what a run may take beyond its measuring time.
const maxOverrun = 60 * time.Second

var runs = lab.Runs{Parent: "/run/loci-bench", Prefix: "loci-bench"}

// kind is one bench.
type kind struct {
	name, title string
	rounds      int
	length      time.Duration // of measuring, unless the user says otherwise
	cases       []string
	arms        []arm
	// attach adds generator and sink to a line before its arm is built: routers look at what the other ends can do.
	attach func(l *line) error
	// prepare completes a line for this bench; nil is nothing.
	prepare func(b *bench, l *line) error
	// whole measures everything of a bench that has no arms with lines; its network is empty.
	whole func(ctx context.Context, b *bench) error
	// measure is one slot: one case of one arm in one round.
	measure func(ctx context.Context, b *bench, l *line, caseName string, slot time.Duration) ([]sample, error)
	// share is the weight of a case in the measuring time; nil gives all the same.
	share func(caseName string) int
	// judge adds ratios and targets.
	judge func(r *Report)
}

// kinds in the order in which they are listed.
func kinds() []kind {
	return []kind{forwardingBench(), tcpBench(), latencyBench(), fibBench(), missBench(), floodBench(), mapsockBench(), controlBench(), failoverBench(), scaleBench()}
}

// Title is one line about a bench; empty for an unknown one.
func Title(name string) string {
	for _, k := range kinds() {
		if k.name == name {
			return strings.ToUpper(k.title[:1]) + k.title[1:]
		}
	}
	return ""
}

// Names lists the benches.
func Names() []string {
	var all []string
	for _, k := range kinds() {
		all = append(all, k.name)
	}
	return all
}

// Cases lists the cases of a bench; of an unknown one, none.
func Cases(name string) []string {
	for _, k := range kinds() {
		if k.name == name {
			return k.cases
		}
	}
	return nil
}

// Run runs one bench. The report is filled as far as it went; with Options.JSON it is also printed. When ctx ends, what was
// made is removed before Run returns.
func Run(ctx context.Context, name string, options Options) (report *Report, err error) {
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no bench %q; there are %s", name, strings.Join(Names(), ", "))
	}
	if options.Rounds < 0 || options.Measure < 0 {
		return nil, fmt.Errorf("bench %s: rounds and seconds cannot be negative", name)
	}
	k := kinds()[i]
	label := name
	if options.Entries != 0 || options.Lengths != "" {
		if k, err = withEntries(k, options); err != nil {
			return nil, fmt.Errorf("bench %s: %w", name, err)
		}
		label = fmt.Sprintf("%s --entries %d", name, options.Entries)
		if options.Lengths != "" {
			label += " --lengths " + options.Lengths
		}
	}
	chosen, err := chooseCases(k.cases, options.Cases)
	if err != nil {
		return nil, fmt.Errorf("bench %s: %w", name, err)
	}
	k.cases = chosen
	if options.Rounds > 0 {
		k.rounds = options.Rounds
	}
	if options.Measure == 0 {
		options.Measure = k.length
	}
	b := newBench(k, options)
	b.report.Name = label
	err = b.run(ctx)
	if options.JSON {
		err = errors.Join(err, b.report.Print(options.Out))
	}
	return b.report, err
}

// withEntries is the bench with a map-cache of so many mappings.
func withEntries(k kind, options Options) (kind, error) {
	if k.name != Forwarding {
		return kind{}, fmt.Errorf("--entries is for the bench %s", Forwarding)
	}
	return entriesBench(options.Entries, options.Lengths)
}

// chooseCases keeps the order of all.
func chooseCases(all, wanted []string) ([]string, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	matches := func(name, want string) bool { return name == want || strings.HasPrefix(name, want+"/") }
	for _, want := range wanted {
		if !slices.ContainsFunc(all, func(name string) bool { return matches(name, want) }) {
			return nil, fmt.Errorf("there is no case %q; there are %s", want, strings.Join(all, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !slices.ContainsFunc(wanted, func(want string) bool { return matches(name, want) })
	}), nil
}

// bench is the state of one run.
type bench struct {
	kind     kind
	options  Options
	screen   *screen
	report   *Report
	network  *testnet.Network
	instance *lab.Directory
	lines    []*line
	daemons  []*process
	bursts   map[string]uint32 // lossless ones, by arm and case
	missed   map[string]uint32 // EIDs that were sent to, by family
	control  *controlRun
	pinned   bool // daemons run on serverCPU
}

func newBench(k kind, options Options) *bench {
	progress := options.Out
	if options.JSON {
		progress = options.Err
	}
	return &bench{
		kind: k, options: options, screen: newScreen(progress), bursts: map[string]uint32{}, missed: map[string]uint32{},
		report: &Report{Name: k.name, Environment: environment(options.Version, time.Now())},
	}
}

// run does everything from preflight to removal.
func (b *bench) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	if problems := testnet.Preflight(); len(problems) > 0 {
		return b.fail(&lab.PreflightError{Purpose: "run benches", Problems: problems})
	}
	if _, err := runs.RemoveLeftovers(false); err != nil {
		return b.fail(fmt.Errorf("remove what an earlier run left: %w", err))
	}
	began, before := time.Now(), timeShareNow()
	limited, cancel := context.WithTimeout(ctx, b.options.Measure+maxOverrun)
	defer cancel()
	err := b.measureAll(limited)
	if err != nil {
		err = b.withLogs(err)
	}
	removal := b.remove()
	b.report.Seconds = time.Since(began).Seconds()
	b.report.Environment.StolenPercent = before.stolenPercent(timeShareNow())
	switch {
	case removal != nil:
		err = errors.Join(err, fmt.Errorf("remove the network: %w", removal))
	case ctx.Err() != nil:
		err = lab.ErrInterrupted
	}
	if err != nil {
		return b.fail(err)
	}
	b.report.sumUp()
	b.kind.judge(b.report)
	b.screen.report(b.report)
	if stolen := b.report.Environment.StolenPercent; stolen > 0 {
		b.screen.line("\n%.1f %% of the processors' time was stolen.", stolen)
	}
	return nil
}

func (b *bench) fail(err error) error {
	b.report.Error = err.Error()
	return err
}

func (b *bench) measureAll(ctx context.Context) error {
	b.screen.line("%s: %s", b.kind.name, b.kind.title)
	b.screen.line("%s", b.report.Environment)
	if err := b.build(ctx); err != nil {
		return err
	}
	if b.kind.whole != nil {
		return b.kind.whole(ctx, b)
	}
	return b.interleave(ctx)
}

// build makes the network and a line for each arm.
func (b *bench) build(ctx context.Context) (err error) {
	if b.network, err = testnet.New(runs.Prefix); err != nil {
		return err
	}
	if b.instance, err = runs.NewDirectory(b.network.Name()); err != nil {
		return err
	}
	for _, a := range b.kind.arms {
		if err := b.buildLine(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

func (b *bench) buildLine(ctx context.Context, a arm) error {
	l, err := newLine(b.network, a)
	if err != nil {
		return err
	}
	b.lines = append(b.lines, l)
	if b.kind.attach != nil {
		if err := b.kind.attach(l); err != nil {
			return err
		}
	}
	if err := a.build(ctx, b, l); err != nil {
		return err
	}
	if b.kind.prepare == nil {
		return nil
	}
	return b.kind.prepare(b, l)
}

// interleave measures every case of every arm in each round. The arms change places from round to round, so that none
// always follows the same one.
func (b *bench) interleave(ctx context.Context) error {
	for round := range b.kind.rounds {
		b.screen.progress(round, b.kind.rounds)
		for _, name := range b.kind.cases {
			if err := b.measureCase(ctx, name, round); err != nil {
				return err
			}
		}
	}
	b.screen.progress(b.kind.rounds, b.kind.rounds)
	return nil
}

func (b *bench) measureCase(ctx context.Context, name string, round int) error {
	for i := range b.lines {
		l := b.lines[(i+round)%len(b.lines)]
		samples, err := b.kind.measure(ctx, b, l, name, b.slot(name))
		if err != nil {
			return fmt.Errorf("%s, %s: %w", l.arm.name, name, err)
		}
		b.report.add(name, l.arm.name, samples)
	}
	return nil
}

// slot is how long one round of one case of one arm may take.
func (b *bench) slot(caseName string) time.Duration {
	share := b.kind.share
	if share == nil {
		share = func(string) int { return 1 }
	}
	sum := 0
	for _, name := range b.kind.cases {
		sum += share(name)
	}
	return b.options.Measure * time.Duration(share(caseName)) / time.Duration(max(sum, 1)*b.kind.rounds*len(b.lines))
}

// remove ends the daemons and takes everything away, also what was made in part.
func (b *bench) remove() error {
	b.stopDaemons()
	var all []error
	for _, l := range b.lines {
		all = append(all, l.close())
	}
	if b.network != nil {
		all = append(all, b.network.Close())
	}
	if b.instance != nil {
		all = append(all, b.instance.Remove())
	}
	return errors.Join(all...)
}
