// SPDX-License-Identifier: Apache-2.0

package main

// loci bench: what LISP forwarding costs on this machine.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/lab"
	"loci/lab/bench"
)

func newBenchCommand(router *router) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure forwarding beside plain routing, VXLAN and other programs, tables, misses, control plane, mapping sockets",
		Long: `Measure forwarding on this machine, in network namespaces with Loci's own daemons,
generators and sinks: Src - Enc - Dec - Dst in a line, all links with MTU 1500. All
arms run in turns within one run; medians, spread and confidence are printed.
docs/benchmarks.md says what each figure means and how it could mislead. Needs root.

Exit status: 0 when it ran, 1 when it did not (with --check, also when a target is
missed), 2 when an argument is wrong, 3 when this machine lacks something (nothing was
made then), 130 after Ctrl-C.`,
		Example: `  loci bench forwarding
  loci bench forwarding --case ipv4-in-ipv4 --seconds 10
  loci bench forwarding --entries 1000000
  loci bench tcp --json | jq '.ratios[] | {case, to, median}'
  loci bench forwarding --against /tmp/older/loci
  loci bench user --arm "loci user" --arm "plain routing" --case tcp
  loci bench all --write docs/benchmarks.md`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, name := range bench.Names() {
		cmd.AddCommand(newOneBenchCommand(router, name))
	}
	cmd.AddCommand(newAllBenchesCommand(router))
	return cmd
}

// benchFlags are those of every bench.
type benchFlags struct {
	router  *router
	options bench.Options
	seconds float64
	check   bool
	against string // another build of loci
}

func (f *benchFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.options.JSON, "json", false, "print one JSON object for each bench; progress goes to standard error")
	cmd.Flags().BoolVar(&f.check, "check", false, "exit 1 when a target is missed")
	cmd.Flags().IntVar(&f.options.Rounds, "rounds", 0, "how often each case is measured; 0 is the bench's own number")
	cmd.Flags().Float64Var(&f.seconds, "seconds", 0, "how long to measure in all; 0 is the bench's own, such that most end within a minute")
}

func newOneBenchCommand(router *router, name string) *cobra.Command {
	flags := &benchFlags{router: router}
	var document string
	cmd := &cobra.Command{
		Use:   name,
		Short: bench.Title(name),
		Long:  bench.Title(name) + ".\n\nCases:\n  " + strings.Join(bench.Cases(name), "\n  "),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := flags.findOther(document); err != nil {
				return &command.Exit{Status: lab.ExitStatus(err), Err: err}
			}
			return flags.run(cmd, []benchRun{{name, flags.options.Entries}}, func(reports []*bench.Report) error {
				if document == "" {
					return nil
				}
				return bench.UpdateDocument(document, reports[0])
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&document, "write", "", "put the table into this document, in place of the last one of this bench")
	if name == bench.Forwarding {
		cmd.Flags().IntVar(&flags.options.Entries, "entries", 0, "mappings in the map-cache of Enc, packets go to all of them; 0 is a handful and one")
		cmd.Flags().StringVar(&flags.options.Lengths, "lengths", "", "lengths of the prefixes of --entries: "+bench.LengthsInternet+
			", as the Internet's tables have them, which is the default, or "+bench.LengthsHosts+", mobile nodes and small sites")
	}
	cmd.Flags().StringVar(&flags.against, "against", "",
		"another build of loci: passes with its daemons and with ours take turns, and the report is the ratio of both")
	cmd.Flags().StringArrayVar(&flags.options.Cases, "case", nil, "measure this case alone; its beginning up to a slash will do; may be repeated")
	cmd.Flags().StringArrayVar(&flags.options.Arms, "arm", nil, "measure this arm alone, named as in the report; may be repeated")
	return cmd
}

func newAllBenchesCommand(router *router) *cobra.Command {
	flags := &benchFlags{router: router}
	var document string
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Run every bench, one after another",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := bench.Lacks(bench.Names()); err != nil {
				return &command.Exit{Status: lab.ExitStatus(err), Err: err}
			}
			return flags.run(cmd, allBenches(), func(reports []*bench.Report) error {
				if document == "" {
					return nil
				}
				return bench.WriteDocument(document, reports)
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&document, "write", "", "put the tables into this document, between its two marks")
	return cmd
}

// benchRun is one bench, with so many mappings or its own number.
type benchRun struct {
	name    string
	entries int
}

// fullEntries is what a map-cache holds by default, in round figures.
const fullEntries = 1_000_000

// allBenches lists every bench, that of forwarding with a full map-cache as well.
func allBenches() []benchRun {
	var runs []benchRun
	for _, name := range bench.Names() {
		runs = append(runs, benchRun{name: name})
		if name == bench.Forwarding {
			runs = append(runs, benchRun{name, fullEntries})
		}
	}
	return runs
}

func (f *benchFlags) run(cmd *cobra.Command, runs []benchRun, write func([]*bench.Report) error) error {
	var err error
	if f.options.Executable, f.options.Version, err = f.router.findVersion(cmd); err != nil {
		return err
	}
	if f.options.Self, err = os.Executable(); err != nil {
		return err
	}
	f.options.Out, f.options.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	f.options.Measure = time.Duration(f.seconds * float64(time.Second))
	var reports []*bench.Report
	missed := 0
	for _, r := range runs {
		options := f.options
		options.Entries = r.entries
		report, err := f.runOne(cmd.Context(), r.name, options)
		if err != nil {
			return &command.Exit{Status: lab.ExitStatus(err), Err: err}
		}
		reports = append(reports, report)
		missed += len(report.Missed())
	}
	if err := write(reports); err != nil {
		return err
	}
	if f.check && missed > 0 {
		return fmt.Errorf("%d targets are missed", missed)
	}
	return nil
}

// findOther resolves the path of another build.
func (f *benchFlags) findOther(document string) (err error) {
	switch {
	case f.against == "":
		return nil
	case document != "" || f.check:
		return &lab.UsageError{Err: errors.New(
			"--against has no targets and no table of a document: leave out --check and --write")}
	}
	if f.against, err = (&router{path: f.against}).find(); err != nil {
		return &lab.UsageError{Err: fmt.Errorf("--against: %w", err)}
	}
	return nil
}

// runOne runs one bench, beside another build where one was named.
func (f *benchFlags) runOne(ctx context.Context, name string, options bench.Options) (*bench.Report, error) {
	if f.against == "" {
		return bench.Run(ctx, name, options)
	}
	return bench.Compare(ctx, name, f.against, options)
}
