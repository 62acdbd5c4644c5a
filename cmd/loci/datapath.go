// SPDX-License-Identifier: Apache-2.0

package main

// loci datapath: what is in the kernel, whether a daemon runs or not.

import (
	"github.com/spf13/cobra"

	"loci/daemon/engines"
)

func newDatapathCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "datapath",
		Short: "End the forwarding that a stopped daemon left in the kernel",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDatapathDetachCommand())
	return cmd
}

func newDatapathDetachCommand() *cobra.Command {
	var file string
	var anyway bool
	cmd := &cobra.Command{
		Use:   "detach",
		Short: "End the forwarding that a stopped daemon left in the kernel",
		Long: `Remove everything that a daemon with this configuration left in the kernel:
programs, tables, pins, the LISP interface, policy rules and routes. It does not
matter which version of Loci left them, or how that daemon ended. While the daemon
runs, nothing is removed; ` + "`loci run --detach`" + ` does the same when it stops.

With --anyway the file may have mistakes, or be missing: then what can be read of its
sections control and datapath counts, and their defaults. The removal of a package
ends forwarding by it.

It needs root, and the network namespace that the daemon ran in.`,
		Example: "  loci datapath detach --config /etc/loci/loci.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return engines.Detach(file, anyway) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", defaultConfigFile, "the configuration file")
	cmd.Flags().BoolVar(&anyway, "anyway", false, "also with a file that has mistakes, or is missing")
	return cmd
}
