// SPDX-License-Identifier: Apache-2.0

// Package lab is what the demo and the benches share: how a run ends, and the directory that it works in.
package lab

import (
	"errors"
	"strings"

	"loci/internal/testnet"
)

// Exit statuses of what needs a network of namespaces; docs/status.md describes them.
const (
	ExitWorked      = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitPreflight   = 3
	ExitRefused     = 4
	ExitInterrupted = 130
)

// ErrInterrupted is returned when the context ended before the run did.
var ErrInterrupted = errors.New("interrupted; the network is removed")

// PreflightError names everything that the machine lacks. Nothing was made.
type PreflightError struct {
	Purpose  string // what the machine cannot do: "run the demo"
	Problems []testnet.Problem
}

func (e *PreflightError) Error() string {
	lines := []string{"this machine cannot " + e.Purpose + ", and nothing was changed on it:"}
	for _, problem := range e.Problems {
		lines = append(lines, "  - "+problem.What, "    "+problem.Do)
	}
	return strings.Join(lines, "\n")
}

// UsageError says that an argument is wrong, before anything was made.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

// ErrNeedsRoot is wrapped by what a user without rights is refused.
var ErrNeedsRoot = errors.New("needs root")

// ExitStatus is the status that the command ends with after err: ExitWorked, ExitUsage, ExitPreflight when the machine lacks
// something, ExitRefused, ExitInterrupted, or ExitFailed after anything else.
func ExitStatus(err error) int {
	var preflight *PreflightError
	var usage *UsageError
	switch {
	case err == nil:
		return ExitWorked
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, ErrNeedsRoot):
		return ExitRefused
	case errors.As(err, &preflight):
		return ExitPreflight
	case errors.Is(err, ErrInterrupted):
		return ExitInterrupted
	}
	return ExitFailed
}
