// SPDX-License-Identifier: Apache-2.0

// Package command is what the commands loci and loci-lab have in common: how they start and end, their version, and how one of
// them finds the other.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"loci/internal/jsondoc"
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
	out := &countingWriter{to: os.Stdout}
	root.SetOut(out)
	err := Execute(ctx, root, arguments)
	status := Status(root.Name(), err, statusOf)
	if err != nil && out.octets == 0 && asksForJSON(root, arguments) {
		_ = jsondoc.Write(os.Stdout, failureOf(err, status))
	}
	return status
}

// failure is what --json prints where a command fails before it has printed anything.
type failure struct {
	Error      string `json:"error"`
	ExitStatus int    `json:"exit_status"`
	Problems   any    `json:"problems"` // of a configuration
}

func failureOf(err error, status int) failure {
	f := failure{Error: err.Error(), ExitStatus: status}
	var detailed interface{ Details() any }
	if errors.As(err, &detailed) {
		f.Problems = detailed.Details()
	}
	return f
}

// asksForJSON reports whether a command was called with --json, and has it. One that passes its arguments on may have it.
func asksForJSON(root *cobra.Command, arguments []string) bool {
	if end := slices.Index(arguments, "--"); end >= 0 {
		arguments = arguments[:end]
	}
	if !slices.Contains(arguments, "--json") && !slices.Contains(arguments, "--json=true") {
		return false
	}
	cmd, _, err := root.Find(arguments)
	return err == nil && (cmd.DisableFlagParsing || cmd.Flag("json") != nil)
}

// countingWriter counts what is written.
type countingWriter struct {
	to     io.Writer
	octets int
}

func (w *countingWriter) Write(b []byte) (n int, err error) {
	n, err = w.to.Write(b)
	w.octets += n
	return n, err
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
