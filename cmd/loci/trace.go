// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package main

// loci trace: what the data plane decides about a packet.

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"loci/cmd/loci/complete"
	"loci/daemon/api"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/packettrace"
)

func newTraceCommand() *cobra.Command {
	var o packettrace.TraceOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace [flags] FILTER...",
		Short: "Print what the data plane decides about a packet, step by step",
		Long: `Print what the data plane decides about a packet, step by step. The packet is made
from the filter. With --live the command takes packets that pass by and match.

The filter's words: in INTERFACE (or out INTERFACE, for what this host sends
itself), src and dst with addresses (prefixes with --live), tcp, udp, icmp, icmp6,
sctp or proto N, sport N, dport N, ttl N, tos N, size OCTETS, df, and vlan N for a
frame with that tag (0, as usual: without one). For an encapsulated packet also
rloc ADDRESS (where it comes from), local ADDRESS (our RLOC) and iid N.

Copies of the attached programs decide, with the tables in use. They count nothing,
queue nothing and send nothing. The command needs root and the daemon's network
namespace, but no running daemon. --live does not see packets that an XDP program
takes.`,
		Example: `  loci trace in site0 src 10.1.0.5 dst 10.2.0.9 tcp dport 443
  loci trace in core0 rloc 192.0.2.2 local 192.0.2.1 src 10.2.0.9 dst 10.1.0.5
  loci trace --live --count 10 in site0 dst 10.2.0.0/16 icmp`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.Interfaces,
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			if o.Filter, err = packettrace.ParsePacketFilter(words); err != nil {
				return command.Usage(err)
			}
			return packettrace.Trace(cmd.Context(), o, func(t api.Trace) error {
				if asJSON {
					return jsondoc.Write(cmd.OutOrStdout(), t)
				}
				return printTrace(cmd.OutOrStdout(), t)
			})
		},
	}
	cmd.Flags().StringVarP(&o.ConfigFile, "config", "c", defaultConfigFile, "the daemon's configuration file")
	cmd.Flags().BoolVar(&o.Live, "live", false, "trace packets that come by")
	cmd.Flags().IntVar(&o.Count, "count", 0, "end after so many of them (default: when interrupted)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printTrace(out io.Writer, t api.Trace) error {
	if _, err := fmt.Fprintf(out, "%s %s %s\n", t.At.Format("15:04:05.000000"), t.Interface, t.Packet); err != nil {
		return err
	}
	for _, step := range t.Steps {
		if _, err := fmt.Fprintf(out, "  %-12s %s\n", step.Step, step.Answer); err != nil {
			return err
		}
	}
	if t.Result == "" {
		return nil
	}
	_, err := fmt.Fprintf(out, "  %-12s %s\n", "sent as", t.Result)
	return err
}
