// SPDX-License-Identifier: Apache-2.0

package main

// loci detach: end what a daemon left in force.

import (
	"github.com/spf13/cobra"

	"loci/daemon"
)

func newDetachCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "detach",
		Short: "End the forwarding that a stopped daemon left in force",
		Long: `Remove everything that a daemon with this configuration left in the kernel:
programs, tables, pins, the LISP interface, policy rules and routes. It does not
matter which version of Loci left them, or how that daemon ended. While the daemon
runs, nothing is removed; ` + "`loci run --detach`" + ` does the same when it stops.

It needs root, and the network namespace that the daemon ran in.`,
		Example: "  loci detach --config /etc/loci/loci.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return daemon.Detach(file) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", defaultConfigFile, "the configuration file")
	return cmd
}
