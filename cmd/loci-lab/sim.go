// SPDX-License-Identifier: Apache-2.0

package main

// loci sim: the seeded simulator.

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/sim"
)

// errPromise is the end of a run that broke a promise; everything is told by then.
var errPromise = errors.New("an invariant does not hold")

func newSimCommand() *cobra.Command {
	var options sim.Options
	var seeds int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run the protocol in virtual time, with faults, and check what it promises",
		Long: `Run networks of real LISP routers in virtual time. The simulated network delays,
loses, duplicates and reorders messages, and splits. There are crashes, link flaps,
address and key changes, and hostile messages. After every event the simulator checks
what the protocol promises. The seed alone determines a run. Nothing outside this
process is touched.

Exit status: 0 when every invariant held, 1 when one did not, 2 when an argument is
wrong. After a failure the simulator prints the seed, the events, and the command that
replays them.`,
		Example: `  loci sim                          100 seeds of 50 routers for 10 minutes each
  loci sim --seeds 1000
  loci sim --seed 77 --seeds 1 --trace   what seed 77 does
  loci sim --routers 5000 --seeds 1      messages, convergence, memory
  loci sim --nat                         100 seeds of nodes behind NATs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.Routers < sim.MinRouters || seeds < 1 || options.Duration <= 0 {
				return command.Usagef("want at least %d routers, one seed and some time", sim.MinRouters)
			}
			if options.OneAddress && !options.NAT {
				return command.Usagef("--one-address is for --nat")
			}
			if !cmd.Flags().Changed("seeds") && (cmd.Flags().Changed("seed") || options.Routers > manyRouters) {
				seeds = 1
			}
			debug.SetGCPercent(garbagePercent)
			if seeds == 1 {
				return simulateOne(cmd.OutOrStdout(), options, asJSON)
			}
			return simulateMany(cmd, options, seeds, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.Uint64Var(&options.Seed, "seed", 1, "the first seed; alone, the only one")
	flags.IntVar(&seeds, "seeds", 100, "how many seeds to run, on all cores")
	flags.IntVar(&options.Routers, "routers", sim.DefaultRouters, "number of tunnel routers and servers in each run")
	flags.DurationVar(&options.Duration, "duration", sim.DefaultDuration, fmt.Sprintf("virtual time of each run; runs shorter than %s have no faults", sim.MinDurationWithFaults))
	flags.BoolVar(&options.NAT, "nat", false, "nodes behind NATs, with their RTRs and Map-Server")
	flags.BoolVar(&options.OneAddress, "one-address", false, "with --nat: one NAT with one address for all nodes but a few")
	flags.BoolVar(&options.Calm, "calm", false, "no faults, no hostile messages")
	flags.BoolVar(&options.Trace, "trace", false, "print the last events of a single run")
	flags.IntVar(&options.TraceLines, "trace-lines", sim.DefaultTraceLines, "how many of them")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object for each run")
	return cmd
}

// manyRouters is a network of which one run says enough.
const manyRouters = 500

// garbagePercent trades memory, of which a run needs little, for time.
const garbagePercent = 800

// replay is the command that runs a seed again.
func replay(o sim.Options, seed uint64) string {
	command := fmt.Sprintf("loci sim --seed %d --trace", seed)
	if o.Routers != sim.DefaultRouters {
		command += fmt.Sprintf(" --routers %d", o.Routers)
	}
	if o.Duration != sim.DefaultDuration {
		command += fmt.Sprintf(" --duration %s", o.Duration)
	}
	if o.NAT {
		command += " --nat"
	}
	if o.OneAddress {
		command += " --one-address"
	}
	if o.Calm {
		command += " --calm"
	}
	return command
}

func simulateOne(out io.Writer, o sim.Options, asJSON bool) error {
	start := time.Now()
	r := sim.RunMeasured(o)
	if asJSON {
		if err := jsondoc.Write(out, r); err != nil {
			return err
		}
		return verdict(r)
	}
	for _, line := range r.Trace {
		fmt.Fprintln(out, line)
	}
	s := r.Stats
	fmt.Fprintf(out, "seed %d: %d routers, %d sites, %d relays, %s of virtual time in %s, %d events, trace hash %016x\n",
		r.Seed, s.Routers, s.Sites, s.Relays, s.Virtual.Duration(), time.Since(start).Round(time.Millisecond), s.Events, r.Hash)
	fmt.Fprintf(out, "%s; %d octets of memory per router\n", convergence(o, s), s.HeapPerRouter)
	fmt.Fprintf(out, "packets: %d sent by hosts, %d encapsulated, %d relayed, %d delivered, %d natively, %d hostile; %d misses, %d mappings gleaned\n",
		s.PacketsSent, s.PacketsCarried, s.PacketsRelayed, s.PacketsArrived, s.PacketsNative, s.PacketsHostile, s.Misses, s.Gleaned)
	fmt.Fprintf(out, "messages: %s; %d lost, %d hostile\n", counts(s.Messages), s.MessagesLost, s.MessagesHostile)
	fmt.Fprintf(out, "faults: %s\n", cmp.Or(counts(s.Faults), "none"))
	tellNoFaults(out, o)
	tell(out, o, r)
	return verdict(r)
}

// convergence says when everything was as configured: after the last fault, or after the start in a run without
// faults.
func convergence(o sim.Options, s sim.Stats) string {
	switch {
	case !s.Converged:
		return "not converged at the end"
	case !o.HasFaults():
		return fmt.Sprintf("converged within %s of the start", s.Convergence.Duration().Round(time.Second))
	}
	return fmt.Sprintf("converged within %s of the last fault", s.Convergence.Duration().Round(time.Second))
}

// tellNoFaults says that a run is too short for faults, unless none were wanted.
func tellNoFaults(out io.Writer, o sim.Options) {
	if !o.Calm && !o.HasFaults() {
		fmt.Fprintf(out, "no faults: a run of less than %s has no time to converge after one; use --duration %[1]s or more\n", sim.MinDurationWithFaults)
	}
}

// tell says what promise a run broke.
func tell(out io.Writer, o sim.Options, r sim.Result) {
	if r.Violation != nil {
		fmt.Fprintf(out, "seed %d FAILED: %s\n  replay: %s\n", r.Seed, r.Violation, replay(o, r.Seed))
	}
}

func verdict(r sim.Result) error {
	if r.Violation == nil {
		return nil
	}
	return &command.Exit{Status: command.StatusProblems, Err: errPromise, Quiet: true}
}

// counts lists numbers by name.
func counts(of map[string]uint64) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %d", name, of[name])
	}
	return text
}

func simulateMany(cmd *cobra.Command, o sim.Options, seeds int, asJSON bool) error {
	out, start := cmd.OutOrStdout(), time.Now()
	o.Trace = false // a failing seed is run again for it
	done, failed := 0, 0
	var slowest time.Duration
	events := uint64(0)
	var problem error
	sim.RunMany(cmd.Context(), o, seeds, func(r sim.Result) bool {
		done++
		events += r.Stats.Events
		slowest = max(slowest, r.Stats.Convergence.Duration())
		if asJSON {
			problem = jsondoc.Write(out, r)
		}
		if r.Violation != nil {
			failed++
			if !asJSON {
				traceAgain(out, o, r)
			}
		}
		return problem == nil && failed < maxFailures
	})
	if problem != nil {
		return problem
	}
	if !asJSON {
		fmt.Fprintf(out, "%d seeds of %d routers and %s each in %s: %d failed, %d events, slowest convergence %s\n",
			done, o.Routers, o.Duration, time.Since(start).Round(time.Second), failed, events, slowest.Round(time.Second))
		tellNoFaults(out, o)
	}
	if failed > 0 {
		return &command.Exit{Status: command.StatusProblems, Err: errPromise, Quiet: true}
	}
	return cmd.Context().Err()
}

// maxFailures are enough to look at.
const maxFailures = 10

// traceLinesOfFailure is how much is printed unasked.
const traceLinesOfFailure = 40

// traceAgain runs a failing seed once more, to say what happened before it failed.
func traceAgain(out io.Writer, o sim.Options, r sim.Result) {
	o.Seed, o.Trace, o.TraceLines = r.Seed, true, traceLinesOfFailure
	for _, line := range sim.Run(o).Trace {
		fmt.Fprintln(out, line)
	}
	tell(out, o, r)
}
