// SPDX-License-Identifier: Apache-2.0

// Package lab is what the demo and the benches share: how a run ends, and the directory that it works in.
package lab

import (
	"errors"
	"strings"

	"loci/internal/testnet"
)

// Exit statuses of `loci demo` and `loci bench`.
const (
	ExitWorked      = 0
	ExitFailed      = 1
	ExitPreflight   = 3
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

// ExitStatus is the status that the command ends with after err: ExitWorked, ExitPreflight when the machine lacks something,
// ExitInterrupted, or ExitFailed after anything else.
func ExitStatus(err error) int {
	var preflight *PreflightError
	switch {
	case err == nil:
		return ExitWorked
	case errors.As(err, &preflight):
		return ExitPreflight
	case errors.Is(err, ErrInterrupted):
		return ExitInterrupted
	}
	return ExitFailed
}
