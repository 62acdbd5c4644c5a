// SPDX-License-Identifier: Apache-2.0

// Package command is what the commands loci and loci-lab have in common: how they start and end, their version, and how one of
// them finds the other.
package command

import (
	"cmp"
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

// Exit statuses of every command of Loci; docs/status.md describes them. A command that takes another's place, as `loci demo` does,
// ends with the status of that one.
const (
	StatusProblems = 1 // it failed, or found problems
	StatusUsage    = 2 // its arguments are wrong; nothing was done
	StatusAbsent   = 3 // no daemon answers, or this machine lacks what the command needs
	StatusRefused  = 4 // the daemon or the kernel refused: nothing was changed
	// StatusConfiguration is EX_CONFIG of sysexits.h: the daemon does not start, because its configuration is wrong. Starting it again
	// does not help.
	StatusConfiguration = 78
	StatusInterrupted   = 130 // by Ctrl-C, where that leaves work undone
)

// Usage says that the arguments are wrong. It is nil for nil.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &Exit{Status: StatusUsage, Err: err}
}

// Usagef is Usage of a message.
func Usagef(format string, values ...any) error { return Usage(fmt.Errorf(format, values...)) }

// Run carries out what the arguments say until it is done, or interrupted by SIGINT or SIGTERM, prints what went wrong, and
// returns the exit status. statusOf knows the status of other errors; 0 leaves them at StatusProblems.
func Run(root *cobra.Command, arguments []string, statusOf func(error) int) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Status(root.Name(), Execute(ctx, root, arguments), statusOf)
}

// Execute carries out what the arguments say. Errors about the arguments are those of Usage.
func Execute(ctx context.Context, root *cobra.Command, arguments []string) error {
	root.SetArgs(arguments)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Usage(withNearestFlag(cmd, err)) })
	root.DisableSuggestions = true // those of the library are on lines of their own, and for the first word alone
	judgeArguments(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return nil
	}
	// Two checks of the library have no hook: they are done again, to tell their errors apart.
	if found, rest, unknown := root.Find(arguments); unknown != nil && unknown.Error() == err.Error() {
		return Usage(unknownCommand(found, rest))
	}
	if group := cmd.ValidateFlagGroups(); group != nil && group.Error() == err.Error() {
		return Usage(err)
	}
	return err
}

// judgeArguments has the checks of a command's arguments, and those of its subcommands, say that the usage is wrong.
func judgeArguments(cmd *cobra.Command) {
	check := cmd.Args
	switch {
	case cmd.HasSubCommands() && cmd.HasParent():
		cmd.Args = func(cmd *cobra.Command, arguments []string) error { return Usage(unknownCommand(cmd, arguments)) }
	case check != nil:
		cmd.Args = func(cmd *cobra.Command, arguments []string) error { return Usage(check(cmd, arguments)) }
	}
	for _, sub := range cmd.Commands() {
		judgeArguments(sub)
	}
}

// Status prints what went wrong and turns it into an exit status.
func Status(program string, err error, statusOf func(error) int) int {
	if err == nil {
		return 0
	}
	var exit *Exit
	if !errors.As(err, &exit) {
		exit = &Exit{Status: cmp.Or(statusOf(err), StatusProblems), Err: err}
	}
	if !exit.Quiet {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, exit.Err)
	}
	return exit.Status
}
