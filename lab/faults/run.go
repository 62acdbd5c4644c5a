// SPDX-License-Identifier: Apache-2.0

package faults

// A run: the network, traffic, faults in a seeded order, the judgement.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"loci/config"
	"loci/internal/testnet"
	"loci/lab"
)

const (
	// DefaultDuration is how long faults happen where nothing else is said.
	DefaultDuration = 10 * time.Minute

	startTimeout  = time.Minute     // of the daemons, and until all pairs of hosts reach each other
	shortestFault = time.Second     // how long a fault lasts at least ...
	longestFault  = 8 * time.Second // ... and at most: mappings of a site that is silent for longer are asked for again
	secondOneIn   = 3               // a second fault begins within every so-many-th
	drain         = time.Second     // without an arrival, from the last datagram sent to the judgement ...
	longestDrain  = 10 * drain      // ... and after this long in any case
)

// Runs are those of this package.
var Runs = lab.Runs{Parent: "/run/loci-faults", Prefix: "loci-faults"}

// Options say what a run does.
type Options struct {
	Seed       uint64
	Duration   time.Duration
	Engine     config.EngineChoice
	Executable string // the command loci
	Progress   io.Writer
}

// Report is what came of a run.
type Report struct {
	Seed      uint64
	Duration  time.Duration
	Engine    config.EngineChoice
	Faults    []Done
	Sent      int // datagrams of known mappings
	Excused   int // of those: lost by a cut link or a smaller MTU
	Losses    []Loss
	Wrong     []Wrong
	NotBack   []string // faults after which not all pairs of hosts were back in time
	Recovered time.Duration
	Verdicts  []Verdict
}

// Failed says what did not hold; nil: all did.
func (r *Report) Failed() error {
	var errs []error
	if len(r.Wrong) > 0 {
		errs = append(errs, fmt.Errorf("%d datagrams arrived at another host, twice or changed", len(r.Wrong)))
	}
	if len(r.Losses) > 0 {
		errs = append(errs, fmt.Errorf("datagrams of known mappings were lost %d times without a cause", len(r.Losses)))
	}
	if len(r.NotBack) > 0 {
		errs = append(errs, fmt.Errorf("not all pairs of hosts were back within %s after %d faults", recovery, len(r.NotBack)))
	}
	for _, v := range r.Verdicts {
		if v.By == "" {
			errs = append(errs, fmt.Errorf("no daemon reported %s %s within %s", v.Kind, v.Target, saidWithin))
		}
		if len(v.Late) > 0 {
			errs = append(errs, fmt.Errorf("not healthy before %s %s, or %s after it: %s", v.Kind, v.Target, healthyWithin, strings.Join(v.Late, ", ")))
		}
	}
	return errors.Join(errs...)
}

// run is one run while it lasts.
type run struct {
	options Options
	network *network
	traffic *traffic
	random  *rand.Rand
	excuses []excuse
	report  Report
}

// Run breaks a network for as long as the options say. The error is about the run itself; Report.Failed judges what
// it saw.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	ctx, release := lab.SurviveTerminal(ctx)
	defer release()
	if problems := testnet.PreflightFor(string(o.Engine)); len(problems) > 0 {
		return nil, &lab.PreflightError{Purpose: "break a network", Problems: problems}
	}
	if _, err := Runs.RemoveLeftovers(false); err != nil {
		return nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	n, err := newNetwork(usual, quickProbing)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, network: n, random: rand.New(rand.NewPCG(o.Seed, 1)), report: Report{Seed: o.Seed, Duration: o.Duration, Engine: o.Engine}}
	if err := n.during(ctx, r.whole); err != nil {
		return nil, err
	}
	return &r.report, nil
}

func (r *run) whole(ctx context.Context) (err error) {
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	r.say("%d sites with %d routers, a Map-Server, %d pairs of hosts\n", len(r.network.plan), len(r.network.plan.xtrs()), len(streams(len(r.network.plan))))
	if err := r.network.build(starting, r.options); err != nil {
		return err
	}
	if r.traffic, err = newTraffic(r.network.at, len(r.network.plan)); err != nil {
		return err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	r.traffic.start(sending)
	defer func() { err = errors.Join(err, r.traffic.close()) }()
	if err := r.await(starting, 0); err != nil {
		return fmt.Errorf("not all pairs of hosts reach each other: %w", err)
	}
	known := r.now()
	for r.now() < known+r.options.Duration && ctx.Err() == nil {
		round := r.round
		if r.random.IntN(verdictOneIn) == 0 && r.now() >= known+verdictAfter {
			round = r.verdictRound
		}
		if err := round(ctx); err != nil {
			return err
		}
	}
	ending, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	if err := r.network.answer(ending); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	stop()
	r.traffic.sending.Wait()
	r.traffic.awaitQuiet()
	r.report.Wrong = r.traffic.allWrong()
	r.report.Losses, r.report.Sent, r.report.Excused = losses(r.traffic.streams, known, r.excuses, r.report.Faults)
	return nil
}

func (r *run) now() time.Duration { return time.Since(r.traffic.begun) }

func (r *run) say(format string, arguments ...any) {
	fmt.Fprintf(r.options.Progress, format, arguments...)
}

// await waits until a datagram of each stream arrived that was sent after a moment.
func (r *run) await(ctx context.Context, after time.Duration) error {
	return lab.Poll(ctx, nil, func() (bool, error) { return r.traffic.all(after), nil })
}

// round is a fault, sometimes with a second one within, and what comes after.
func (r *run) round(ctx context.Context) error {
	first := r.draw(nil)
	length := first.length(r.random)
	if err := r.begin(ctx, first); err != nil {
		return err
	}
	faults := []*fault{first}
	if r.random.IntN(secondOneIn) == 0 {
		sleep(ctx, length/2)
		second := r.draw(first)
		if err := r.begin(ctx, second); err != nil {
			return err
		}
		faults = append(faults, second)
		sleep(ctx, length/2)
	} else {
		sleep(ctx, length)
	}
	for _, f := range slices.Backward(faults) {
		if err := r.end(ctx, f); err != nil {
			return err
		}
	}
	r.excuses = append(r.excuses, missedFailovers(faults, r.now())...)
	return r.expectBack(ctx, faults)
}

// A fault has a kind and a target.
type fault struct {
	kind
	target string
	from   time.Duration
}

// length draws how long it lasts.
func (f *fault) length(random *rand.Rand) time.Duration {
	longest := cmp.Or(f.longest, longestFault)
	return shortestFault + time.Duration(random.Int64N(int64(longest-shortestFault)))
}

// draw draws a fault of another target than that of the first one, of a kind that may happen with it.
func (r *run) draw(first *fault) *fault {
	all := kinds(r.options.Engine, r.network.plan)
	for {
		k := all[r.random.IntN(len(all))]
		target := k.targets[r.random.IntN(len(k.targets))]
		if first == nil || target != first.target && k.name != first.name && k.notWith != first.name && first.notWith != k.name {
			return &fault{kind: k, target: target}
		}
	}
}

func (r *run) begin(ctx context.Context, f *fault) error {
	f.from = r.now()
	r.say("%8.1fs  %s %s\n", f.from.Seconds(), f.name, f.target)
	if err := f.start(ctx, r.network, f.target); err != nil {
		return fmt.Errorf("%s %s: %w", f.name, f.target, err)
	}
	return nil
}

func (r *run) end(ctx context.Context, f *fault) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if err := f.kind.end(ending, r.network, f.target); err != nil {
		return fmt.Errorf("end of %s %s: %w", f.name, f.target, err)
	}
	to := r.now()
	r.report.Faults = append(r.report.Faults, Done{f.name, f.target, f.from, to})
	if f.excuses != nil {
		r.excuses = append(r.excuses, f.excuses(f.target, f.from, to)...)
	}
	return nil
}

// expectBack waits until all pairs are back, and a moment longer, so that the next fault does not hide what these
// left. All daemons must live then.
func (r *run) expectBack(ctx context.Context, faults []*fault) error {
	ended, what := r.now(), namesOf(faults)
	back, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	if err := r.await(back, ended); err != nil && ctx.Err() == nil {
		r.report.NotBack = append(r.report.NotBack, what)
		r.say("%8.1fs  not all pairs are back after %s\n", r.now().Seconds(), what)
	}
	r.report.Recovered = max(r.report.Recovered, r.now()-ended)
	sleep(ctx, ended+recovery-r.now())
	if err := r.network.alive(); err != nil {
		return fmt.Errorf("after %s: %w", what, err)
	}
	return nil
}

func namesOf(faults []*fault) string {
	var names []string
	for _, f := range faults {
		names = append(names, Done{Kind: f.name, Target: f.target}.name())
	}
	return strings.Join(names, " and ")
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
