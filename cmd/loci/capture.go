// SPDX-License-Identifier: Apache-2.0

//go:build !(mips || mips64 || ppc64 || s390x || nokernel)

package main

// loci capture: what the data plane drops, and why.

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"loci/cmd/loci/complete"
	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/packettrace"
)

func newCaptureCommand() *cobra.Command {
	var o packettrace.CaptureOptions
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Show the packets that the data plane drops, and why",
		Long: `Show the packets that the data plane drops from now on, with the reason, until
interrupted: the first 128 octets of each. --write also writes them to a pcapng
file. There each pair of interface and reason is an interface of its own, so that
Wireshark and tshark show the reason beside the packet.

The command slows down dropped packets only. It needs root and the daemon's network
namespace, but no running daemon. It does not show packets that never reach the
data plane (wrong VLAN, not LISP).`,
		Example: `  loci capture
  loci capture --reason ecn --reason no-locator --count 10 --json
  loci capture --write drops.pcapng`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				f, err := os.Create(file)
				if err != nil {
					return err
				}
				defer f.Close()
				o.File = f
			}
			lost, err := packettrace.Capture(cmd.Context(), o, func(d api.Drop) error {
				if asJSON {
					return jsondoc.Write(cmd.OutOrStdout(), d)
				}
				return printDrop(cmd.OutOrStdout(), d)
			})
			if lost > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "loci: %d dropped packets came too fast and are not shown\n", lost)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&o.ConfigFile, "config", "c", defaultConfigFile, "the daemon's configuration file")
	cmd.Flags().StringArrayVar(&o.Reasons, "reason", nil, "only what is dropped for this reason; may be given several times")
	_ = cmd.RegisterFlagCompletionFunc("reason", complete.Words(packettrace.DropReasons())) // the flag is there
	cmd.Flags().IntVar(&o.Count, "count", 0, "end after so many (default: when interrupted)")
	cmd.Flags().StringVarP(&file, "write", "w", "", "write a pcapng file as well")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printDrop(out io.Writer, d api.Drop) error {
	_, err := fmt.Fprintf(out, "%s %s %s: %s\n", d.At.Format("15:04:05.000000"), d.Interface, d.Reason, d.Packet)
	return err
}
