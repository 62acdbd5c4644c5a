// SPDX-License-Identifier: Apache-2.0

// Command loci is the Locator/ID Separation Protocol for Linux: router, mapping
// system and tools in one binary. One file a subcommand; the work is done by the
// packages behind them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitError ends the program with a status of its own. A quiet one has already
// told the user everything.
type exitError struct {
	status int
	err    error
	quiet  bool
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRootCommand()
	root.SetArgs(argumentsOf(os.Args))
	os.Exit(status(root.ExecuteContext(ctx)))
}

// status prints what went wrong and turns it into an exit status.
func status(err error) int {
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{status: 1, err: err}
	}
	if !exit.quiet {
		fmt.Fprintln(os.Stderr, "loci:", exit.err)
	}
	return exit.status
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "loci",
		Short: "The Locator/ID Separation Protocol (LISP) for Linux",
		Long: `Loci is the Locator/ID Separation Protocol (RFC 9300, RFC 9301) for Linux:
tunnel routers, the mapping system, and the tools to look into them.`,
		Example: `  loci demo                              see a LISP network at work, from one command
  loci check /etc/loci/loci.yaml         is this configuration right?
  loci run --config /etc/loci/loci.yaml  run what it describes
  loci show map-cache                    where are remote EIDs reachable?
  loci lig 10.2.0.1 to 192.0.2.1         ask a Map-Resolver`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newRunCommand(), newCheckCommand(), newShowCommand(), newExplainCommand(), newReloadCommand(), newDatapathCommand(), newTraceCommand(), newCaptureCommand(),
		newMonitorCommand(),
		newLigCommand(), newMapCommand(), newMapstatCommand(), newDemoCommand(), newBenchCommand(), newSimCommand(), newVersionCommand())
	return root
}
