// SPDX-License-Identifier: Apache-2.0

package main

// loci-lab tunnel: the bare TUN-UDP loop that a bench takes for its floor. It starts it itself.

import (
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"loci/lab/bench/tunnel"
)

func newTunnelCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "tunnel INTERFACE LOCAL:PORT REMOTE:PORT",
		Short:  "Carry packets of a TUN by UDP, and nothing else; a bench compares routers with it",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // it has nothing to finish
			local, err := netip.ParseAddrPort(args[1])
			if err != nil {
				return err
			}
			remote, err := netip.ParseAddrPort(args[2])
			if err != nil {
				return err
			}
			return tunnel.Run(args[0], local, remote)
		},
	}
}
