// SPDX-License-Identifier: Apache-2.0

package main

// loci map: OpenLISP's command over the mapping socket. Its words are not getopt's, so
// package mapcmd reads them.

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"loci/mapsock/mapcmd"
)

func newMapCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "map [-dnqtv] add|delete|get|monitor|flush [modifiers] [-inet|-inet6 EID[/length]] [-inet|-inet6 RLOC [priority [weight [reachability]]]]...",
		Short: "Change and watch the tables of a data plane by its mapping socket",
		Long: `Change and watch the tables of a data plane by its mapping socket, as OpenLISP's
command map does. A symbolic link named map runs it without "loci".

Commands: add, delete and get a mapping; monitor prints what happens; flush empties
a table. Without -cache or -database they use the map-cache, get uses both tables.

  -d, -t            do not send: print the message (-d), or check the command only (-t)
  -q, -v            print nothing about changes; print more
  -n                accepted for compatibility: names are never looked up
  -cache -database -all           which table
  -static -nostatic               a mapping that never expires (default), or does
  -version N -locbits -negative   of the mapping to add
  -instance N                     Instance-ID of the EID, also written [N]10.0.0.0/8
  RLOCs have priority 255, weight 100 and reachability 0 by default, which leaves
  them unused: write 1 100 1 behind an RLOC to use it.`,
		Example: `  loci map add -inet 10.2.0.0/16 -inet 192.0.2.2 1 100 1 -inet6 2001:db8::2 2 100 1
  loci map get -inet 10.2.0.1
  loci map monitor --json --socket /run/loci/map.sock
  loci map flush -database -inet6`,
	}
	return throughMappingSocket(cmd, mapcmd.Map)
}

// throughMappingSocket completes a command that package mapcmd carries out.
func throughMappingSocket(cmd *cobra.Command, run func(context.Context, []string, mapcmd.Terminal) error) *cobra.Command {
	cmd.DisableFlagParsing = true // the flags below are for --help alone
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().String("socket", mapcmd.DefaultSocket, "the data plane's mapping socket")
	cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		err := run(cmd.Context(), words, mapcmd.Terminal{Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr()})
		if errors.Is(err, mapcmd.ErrHelp) {
			return cmd.Help()
		}
		return err
	}
	return cmd
}
