// SPDX-License-Identifier: Apache-2.0

package main

// loci demo, bench, sim, lab: run loci-lab, so that the router's binary contains none of it.

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"loci/internal/command"
)

// labCommand is the command that has the demo, the benches and the simulator.
const labCommand = "loci-lab"

// newLabCommand makes a subcommand that loci-lab carries out: words are what loci-lab gets before the user's arguments.
func newLabCommand(name, short string, words ...string) *cobra.Command {
	cmd := &cobra.Command{
		Use:                name + " [ARGUMENT]...",
		Short:              short,
		GroupID:            labCommand,
		DisableFlagParsing: true, // loci-lab reads the flags, --help too
		RunE: func(_ *cobra.Command, arguments []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("own executable: %w", err)
			}
			return becomeLab(append(append([]string{"--loci", self}, words...), arguments...))
		},
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, arguments []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		_ = becomeLab(append(append(append([]string{os.Args[1]}, words...), arguments...), begun))
		return nil, cobra.ShellCompDirectiveError
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { // of `loci help demo`
		os.Exit(command.Status("loci", becomeLab(append(words, "--help")), statusOf))
	})
	return cmd
}

// becomeLab replaces this process by loci-lab, which so has its standard streams, gets its signals and gives its exit status. It
// returns only with an error.
func becomeLab(arguments []string) error {
	path, err := command.Find(labCommand)
	if err != nil {
		return err
	}
	err = syscall.Exec(path, append([]string{labCommand}, arguments...), os.Environ())
	return fmt.Errorf("run %s: %w", path, err)
}
