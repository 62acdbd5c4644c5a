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
			at, err := endsOfBench(args)
			switch {
			case err != nil:
				return err
			case batches:
				return echo.ServeBatches(at[0])
			}
			return echo.Serve(at[0])
		},
	}
	cmd.Flags().BoolVar(&batches, "batches", false, "take many datagrams with a system call")
	return cmd
}

// endsOfBench are the addresses that a bench gives a process of its own, which has nothing to finish when it is ended.
func endsOfBench(args []string) (list []netip.AddrPort, err error) {
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	for _, arg := range args {
		address, err := netip.ParseAddrPort(arg)
		if err != nil {
			return nil, command.Usage(err)
		}
		list = append(list, address)
	}
	return list, nil
}
