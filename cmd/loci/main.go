// SPDX-License-Identifier: Apache-2.0

// Command loci is the Locator/ID Separation Protocol for Linux: router, mapping
// system and tools in one binary. One file a subcommand; the work is done by the
// packages behind them. What shows and measures it is the command loci-lab.
package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"loci/cmd/loci/show"
	"loci/daemon"
	"loci/daemon/api"
	"loci/daemon/engines"
	"loci/internal/command"
	"loci/mapsock"
	"loci/mapsock/mapcmd"
)

func main() { os.Exit(command.Run(newRootCommand(), argumentsOf(os.Args), statusOf)) }

// statusOf is the exit status for an error, 0 for one that says nothing about it.
func statusOf(err error) int {
	var refusal *mapsock.Refusal
	switch {
	case errors.Is(err, daemon.ErrConfiguration):
		return command.StatusConfiguration
	case errors.Is(err, api.ErrNoDaemon), errors.Is(err, mapcmd.ErrNoDataPlane):
		return command.StatusAbsent
	case errors.Is(err, api.ErrRefused), errors.As(err, &refusal), errors.Is(err, fs.ErrPermission), errors.Is(err, engines.ErrInUse):
		return command.StatusRefused
	case errors.Is(err, mapcmd.ErrUsage):
		return command.StatusUsage
	}
	return kernelStatusOf(err)
}

// routerGroup are the subcommands that this binary has itself.
const routerGroup = "router"

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "loci",
		Short: "The Locator/ID Separation Protocol (LISP) for Linux",
		Long: `Loci is the Locator/ID Separation Protocol (RFC 9300, RFC 9301) for Linux:
tunnel routers, the mapping system, and diagnostic tools.`,
		Example: `  loci demo                              show a LISP network with real packets
  loci check                             is /etc/loci/loci.yaml right?
  loci run                               run what it describes
  loci status                            is it healthy, and what is wrong?
  loci show map-cache                    where are remote EIDs reachable?
  loci lig 10.2.0.1 to 192.0.2.1         ask a Map-Resolver`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddVersionFlag(root, leftOut())
	root.AddGroup(&cobra.Group{ID: routerGroup, Title: "Router and tools:"}, &cobra.Group{ID: labCommand, Title: "Run by the command loci-lab:"})
	root.SetHelpCommandGroupID(routerGroup)
	root.SetCompletionCommandGroupID(routerGroup)
	commands := append(kernelCommands(),
		newRunCommand(), newCheckCommand(), newStatusCommand(), show.NewCommand(), newExplainCommand(), newReloadCommand(), newDatapathCommand(),
		newMonitorCommand(), newLogLevelCommand(), newLigCommand(), newPingCommand(), newNetcheckCommand(), newMapCommand(), newMapstatCommand(), newVersionCommand(),
	)
	for _, cmd := range commands {
		cmd.GroupID = routerGroup
		root.AddCommand(cmd)
	}
	root.AddCommand(
		newLabCommand("demo", "Build a LISP network from namespaces, show it at work, and remove it", "demo"),
		newLabCommand("bench", "Measure forwarding beside plain routing and VXLAN, tables, misses, control plane, mapping sockets", "bench"),
		newLabCommand("sim", "Run the protocol in virtual time, with faults, and check what it promises", "sim"),
		newLabCommand("te", "Choose explicit locator paths by measured round-trip times", "te"),
		newLabCommand("lab", "Run loci-lab with these arguments; alone, list what it has"),
	)
	addManuals(root)
	return root
}
