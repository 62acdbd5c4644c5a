// SPDX-License-Identifier: Apache-2.0

package main

// loci mapstat: OpenLISP's command that shows tables and statistics of a data plane.

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"loci/mapsock/mapcmd"
)

func newMapstatCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mapstat -X [-Wns] [-inet|-inet6|-f family] | mapstat -s [-p lisp]",
		Short: "Show the tables and statistics of a data plane by its mapping socket",
		Long: `Show the tables and statistics of a data plane by its mapping socket, as OpenLISP's
command mapstat does. A symbolic link named mapstat runs it without "loci".

  -X                Database and map-cache; -W adds all details of each mapping,
                    -s hits and misses
  -s [-p lisp]      packets encapsulated, decapsulated and dropped
  -inet, -inet6     one family (also -f inet, -f inet6)
  -n                accepted for compatibility: names are never looked up
  -z                restart the statistics at 0, for mapstat alone

Flags of mappings: D Database, V Map-Version, L Locator-Status-Bits, U up, S static,
N negative. Flags of RLOCs: U up, i on an interface of this system, t r with nonces.`,
		Example: `  loci mapstat -X
  loci mapstat -XW -inet6 --json
  loci mapstat -s -p lisp`,
	}
	return throughMappingSocket(cmd, mapcmd.Mapstat)
}

// argumentsOf gives a program that is called by a link's name, map or mapstat, that
// command.
func argumentsOf(arguments []string) []string {
	name := filepath.Base(arguments[0])
	if name == "map" || name == "mapstat" {
		return slices.Concat([]string{name}, arguments[1:])
	}
	return arguments[1:]
}
