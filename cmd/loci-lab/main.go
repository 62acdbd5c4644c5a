// SPDX-License-Identifier: Apache-2.0

// Command loci-lab shows and measures Loci: demonstration, benches and simulator. `loci demo`, `loci bench` and `loci sim` run
// it. One file a subcommand; the work is done by the packages behind them.
package main

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"loci/internal/command"
	"loci/lab"
)

func main() { os.Exit(command.Run(newRootCommand(), os.Args[1:], lab.ExitStatus)) }

func newRootCommand() *cobra.Command {
	router := &router{}
	root := &cobra.Command{
		Use:   "loci-lab",
		Short: "Demonstration, benches and simulator of Loci",
		Long: `Show and measure Loci, the Locator/ID Separation Protocol for Linux. The
demonstration, the benches and the experiments start their daemons from the command
loci.`,
		Example: `  loci-lab demo                       the same as: loci demo
  loci-lab bench forwarding           the same as: loci bench forwarding
  loci-lab bench --loci ./loci tcp    measure another build of the router
  loci-lab sim --seeds 1000`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddVersionFlag(root, nil)
	root.PersistentFlags().StringVar(&router.path, "loci", "", "the command loci that runs the daemons; by default the one beside loci-lab, or else in PATH")
	root.AddCommand(newDemoCommand(router), newBenchCommand(router), newSimCommand(), newTECommand(),
		newListCommand(), newRunCommand(router), newRemoveCommand(), newVersionCommand(router), newEchoCommand(), newTunnelCommand())
	addManuals(root)
	return root
}

// router is the command that the daemons are started from.
type router struct{ path string }

func (r *router) find() (string, error) {
	if r.path == "" {
		return command.Find("loci")
	}
	path, err := exec.LookPath(r.path)
	if err != nil {
		return "", &command.Exit{Status: command.StatusAbsent, Err: err}
	}
	return filepath.Abs(path)
}

// findVersion also asks the command for its version, which is that of what is shown and measured.
func (r *router) findVersion(cmd *cobra.Command) (path, version string, err error) {
	if path, err = r.find(); err != nil {
		return "", "", err
	}
	version, err = command.CheckVersion(cmd, path)
	return path, version, err
}
