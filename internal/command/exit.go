// SPDX-License-Identifier: Apache-2.0

// Package command is what the commands loci and loci-lab have in common: how they start and end, their version, and how one of
// them finds the other.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit ends the program with a status of its own. A quiet one has already told the user everything.
type Exit struct {
	Status int
	Err    error
	Quiet  bool
}

func (e *Exit) Error() string { return e.Err.Error() }
func (e *Exit) Unwrap() error { return e.Err }

// Run carries out what the arguments say until it is done, or interrupted by SIGINT or SIGTERM, prints what went wrong, and
// returns the exit status.
func Run(root *cobra.Command, arguments []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root.SetArgs(arguments)
	return Status(root.Name(), root.ExecuteContext(ctx))
}

// Status prints what went wrong and turns it into an exit status.
func Status(program string, err error) int {
	if err == nil {
		return 0
	}
	var exit *Exit
	if !errors.As(err, &exit) {
		exit = &Exit{Status: 1, Err: err}
	}
	if !exit.Quiet {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, exit.Err)
	}
	return exit.Status
}
