// SPDX-License-Identifier: Apache-2.0

package main

// loci-lab tunnel: the bare TUN-UDP loop that a bench takes for its floor. It starts it itself.

import (
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
			ends, err := endsOfBench(args[1:])
			if err != nil {
				return err
			}
			return tunnel.Run(args[0], ends[0], ends[1])
		},
	}
}
