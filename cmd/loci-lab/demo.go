// SPDX-License-Identifier: Apache-2.0

package main

// loci demo: a LISP network at work.

import (
	"slices"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/lab"
	"loci/lab/demo"
)

func newDemoCommand(router *router) *cobra.Command {
	options, planes := demo.Options{Engine: "auto"}, "both"
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Build a LISP network from namespaces, show it at work, and remove it",
		Long: `Build two sites with a host each, a core without a route to them, and a mapping
system, all from network namespaces on this machine. Run a daemon for each router.
Show registration, miss, Map-Request, Map-Reply and the first packet, then ping and
TCP for IPv4 and IPv6 EIDs over IPv4 and IPv6 RLOCs. Nothing outside the namespaces
is touched. Needs root.

Exit status: 0 when everything worked, 1 when something did not, 2 when an argument is
wrong, 3 when this machine lacks something (nothing was made then), 130 after Ctrl-C.`,
		Example: `  loci demo
  loci demo --json | jq '.pairs[].first_packet_seconds'
  loci demo --pcap captures && tshark -r captures/*.pcap
  loci demo --move                       an RLOC changes under traffic: each step on its way to the peer
  loci demo --keep                       leave it up to look around, then
  loci demo --remove`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if planes != "both" && planes != "split" {
				return command.Usagef("--planes %q: want both or split", planes)
			}
			if !slices.Contains([]string{"auto", "kernel", "user"}, options.Engine) {
				return command.Usagef("--engine %q: want auto, kernel or user", options.Engine)
			}
			if options.Timeout <= 0 {
				return command.Usagef("--timeout %v: want more than 0s", options.Timeout)
			}
			options.Split = planes == "split"
			options.Out, options.Err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if !options.Remove {
				var err error
				if options.Executable, options.Version, err = router.findVersion(cmd); err != nil {
					return err
				}
			}
			if _, err := demo.Run(cmd.Context(), options); err != nil {
				return &command.Exit{Status: lab.ExitStatus(err), Err: err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&options.JSON, "json", false, "print one JSON object; progress goes to standard error")
	cmd.Flags().BoolVar(&options.Move, "move", false, "instead, move a site to another RLOC under traffic, and print each step until its peer knows")
	cmd.Flags().BoolVar(&options.Keep, "keep", false, "leave the network up")
	cmd.Flags().BoolVar(&options.Remove, "remove", false, "only remove what kept and crashed runs left")
	cmd.Flags().StringVar(&options.PcapDir, "pcap", "", "leave captures of the core's links in this directory")
	cmd.Flags().StringVar(&options.Engine, "engine", options.Engine, "where the xTRs forward packets: auto, kernel or user")
	cmd.Flags().StringVar(&planes, "planes", planes, "both: one process an xTR; split: one for each of its planes")
	cmd.Flags().DurationVar(&options.Timeout, "timeout", demo.DefaultTimeout, "give up after this long, for slow machines")
	cmd.MarkFlagsMutuallyExclusive("keep", "remove")
	return cmd
}
