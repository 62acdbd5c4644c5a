// SPDX-License-Identifier: Apache-2.0

package main

// loci lab list, run, remove: experiments that a file describes.

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/internal/table"
	"loci/lab"
	"loci/lab/bench"
	"loci/lab/bench/testbed"
	"loci/lab/experiment"
	"loci/lab/faults"
	"loci/lab/measured"
	"loci/lab/temptcp"
	"loci/lab/throughput"
)

func newListCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the experiments that come with the command",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := experiment.List()
			if err != nil {
				return err
			}
			for _, e := range throughput.List() {
				all = append(all, experiment.Listed{Name: e.Name, Description: e.Description, Origin: e.Origin, Variants: []string{}})
			}
			measure, err := measured.List()
			if err != nil {
				return err
			}
			paper, err := temptcp.List()
			if err != nil {
				return err
			}
			all = append(append(all, measure...), paper, experiment.Listed{Name: faultsName, Description: "daemons, links and the Map-Server break in a seeded order", Variants: []string{}},
				experiment.Listed{Name: controlCutName, Description: "control messages are dropped between two sites with two routers each", Variants: controlCutVariants()})
			if asJSON {
				return jsondoc.Write(cmd.OutOrStdout(), all)
			}
			w := table.New(cmd.OutOrStdout())
			w.Rows("NAME\tROWS\tVARIANTS\tDESCRIPTION\tORIGIN")
			for _, e := range all {
				w.Rows(fmt.Sprintf("%s\t%d\t%s\t%s\t%s", e.Name, e.Rows, strings.Join(e.Variants, " "), e.Description, e.Origin))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func newRunCommand(router *router) *cobra.Command {
	options := experiment.Options{}
	broken := faultOptions{}
	full := false
	cmd := &cobra.Command{
		Use:   "run NAME|FILE.yaml",
		Short: "Run an experiment: every row beside its control, in every variant",
		Long: `Run an experiment in network namespaces of this machine. Each row of it sends packets
and says where they must be seen, in which form, and where not; its control sends the
same packets with one thing changed, which must flip the outcome. Every variant (family
of the addresses, hook of the data plane) has a network of its own. oor-throughput and
oor-openvpn draw what routers carry against what is offered to them, oor-multihoming
what they carry over one to four links, oor-nat what a NAT costs a site, oor-handover how long moves of a mobile node take;
te-mptcp repeats a paper's experiment, and judges which of its results come out again;
faults breaks a network in a seeded order, and judges what is lost; control-cut drops
control messages between two sites with two routers each. Needs root.

Exit status: 0 when every row and every control came out as expected, 1 when one did
not, 2 when an argument is wrong, 3 when this machine lacks something (nothing was made
then), 130 after Ctrl-C.`,
		Example: `  loci lab list
  loci lab run p4-table1
  loci lab run p4-table1 --variant ipv6-xdp --out results    captures, logs and report of each row
  loci lab run p4-table1 --json | jq '.rows[] | select(.passed | not)'
  loci lab run p4-table1 --engine user --variant ipv4-tc
  loci lab run oor-throughput --out results                  also draws the curves
  loci lab run faults --seed 7 --duration 2m
  loci lab run control-cut --variant provider --variant long
  loci lab run mine.yaml --keep                              look around in it, then
  loci lab remove`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) (err error) {
			drawn, found := throughput.Find(arguments[0])
			if err := refuseFlags(cmd, arguments[0], found); err != nil {
				return err
			}
			if options.Timeout <= 0 {
				return command.Usagef("--timeout %v: want more than 0s", options.Timeout)
			}
			if !slices.Contains([]string{"", "auto", "kernel", "user"}, options.Engine) {
				return command.Usagef("--engine %q: want auto, kernel or user", options.Engine)
			}
			if options.Executable, options.Version, err = router.findVersion(cmd); err != nil {
				return err
			}
			if arguments[0] == controlCutName {
				return runControlCut(cmd, options)
			}
			if arguments[0] == temptcp.Name {
				return runPaper(cmd, temptcp.Options{Options: options, Full: full})
			}
			if arguments[0] == faultsName {
				return broken.run(cmd, options)
			}
			if found {
				return runThroughput(cmd, drawn, options)
			}
			return runExperiment(cmd, arguments[0], options)
		},
	}
	cmd.Flags().BoolVar(&options.JSON, "json", false, "print one JSON object; progress goes to standard error")
	cmd.Flags().BoolVar(&options.Keep, "keep", false, "leave the network of the last variant up")
	cmd.Flags().StringVar(&options.Engine, "engine", "", "where all routers forward packets: auto, kernel or user; without it, what their configurations say")
	cmd.Flags().StringVar(&options.Out, "out", "", "write captures, configurations, logs, drawings and reports into this directory")
	cmd.Flags().StringArrayVar(&options.Variants, "variant", nil, "run this variant alone; may be repeated")
	broken.addFlags(cmd)
	cmd.Flags().BoolVar(&full, "full", false, "of te-mptcp: 30 rounds of 120 s, as the paper has them, in place of 3 of 5 s")
	cmd.Flags().DurationVar(&options.Timeout, "timeout", experiment.DefaultTimeout, "give up a variant after this long")
	return cmd
}

// Flags of `loci lab run` that an experiment of each kind does not have: one that draws curves measures engines side
// by side, and its network, like that of faults, cannot be kept.
var (
	notOfCurves   = []string{"variant", "engine", "keep", "timeout", "seed", "duration", "full"}
	notOfMeasured = []string{"variant", "keep", "timeout", "seed", "duration", "full"}
	notOfPaper    = []string{"variant", "keep", "timeout", "seed", "duration"}
	notOfFaults   = []string{"variant", "keep", "out", "timeout", "full"}
	notOfCut      = []string{"keep", "out", "timeout", "seed", "duration", "full"}
	notOfFiles    = []string{"seed", "duration", "full"}
)

// refuseFlags refuses those that would do nothing.
func refuseFlags(cmd *cobra.Command, name string, curves bool) error {
	without := notOfFiles
	switch {
	case name == faultsName:
		without = notOfFaults
	case name == controlCutName:
		without = notOfCut
	case name == temptcp.Name:
		without = notOfPaper
	case curves:
		without = notOfCurves
	default:
		if _, measures := measured.Find(name); measures {
			without = notOfMeasured
		}
	}
	for _, flag := range without {
		if cmd.Flags().Changed(flag) {
			return command.Usagef("%s has no --%s", name, flag)
		}
	}
	return nil
}

// runExperiment runs one that a file describes: its rows, or what Go code measures in its network.
func runExperiment(cmd *cobra.Command, name string, options experiment.Options) (err error) {
	options.Output, options.Progress = cmd.OutOrStdout(), cmd.OutOrStdout()
	if options.JSON {
		options.Progress = cmd.ErrOrStderr()
	}
	if e, found := measured.Find(name); found {
		err = e.Run(cmd.Context(), options)
	} else {
		_, err = experiment.Run(cmd.Context(), name, options)
	}
	if err != nil {
		return &command.Exit{Status: lab.ExitStatus(err), Err: err}
	}
	return nil
}

// runPaper runs the one whose relations are judged.
func runPaper(cmd *cobra.Command, options temptcp.Options) error {
	options.Output, options.Progress = cmd.OutOrStdout(), cmd.OutOrStdout()
	if options.JSON {
		options.Progress = cmd.ErrOrStderr()
	}
	if err := temptcp.Run(cmd.Context(), options); err != nil {
		return &command.Exit{Status: lab.ExitStatus(err), Err: err}
	}
	return nil
}

// runThroughput runs an experiment that draws curves.
func runThroughput(cmd *cobra.Command, e throughput.Experiment, options experiment.Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = e.Run(cmd.Context(), throughput.Options{Directory: options.Out, Options: bench.Options{
		JSON: options.JSON, Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Executable: options.Executable, Self: self, Version: options.Version,
	}})
	if err != nil {
		return &command.Exit{Status: lab.ExitStatus(err), Err: err}
	}
	return nil
}

func newRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "remove",
		Short: "Remove what kept and crashed experiments left, and crashed benches",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := lab.Remove(experiment.Runs, faults.Runs, testbed.Runs)
			for _, name := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", name)
			}
			return err
		},
	}
}
