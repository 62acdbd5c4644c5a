// SPDX-License-Identifier: Apache-2.0

package main

// loci-lab echo: the server that benches take for their floor. They start it themselves.

import (
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/lab/bench/echo"
)

func newEchoCommand() *cobra.Command {
	var batches bool
	cmd := &cobra.Command{
		Use:    "echo ADDRESS:PORT",
		Short:  "Send back each UDP datagram; benches compare daemons with it",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // it has nothing to finish
			address, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return command.Usage(err)
			}
			if batches {
				return echo.ServeBatches(address)
			}
			return echo.Serve(address)
		},
	}
	cmd.Flags().BoolVar(&batches, "batches", false, "take many datagrams with a system call")
	return cmd
}
