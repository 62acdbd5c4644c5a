// SPDX-License-Identifier: Apache-2.0

package main

// loci version.

import (
	"slices"

	"github.com/spf13/cobra"

	"loci/daemon/engines"
	"loci/daemon/metrics"
	"loci/internal/command"
)

func newVersionCommand() *cobra.Command {
	return command.NewVersion("loci", leftOut(), func() (string, error) { return command.Find(labCommand) })
}

// leftOut names what this build has not: metrics and LISP-NAT have large libraries.
func leftOut() []string {
	without := slices.Clone(withoutKernel)
	if !metrics.Present {
		without = append(without, "metrics")
	}
	if !engines.LISPNAT {
		without = append(without, "LISP-NAT")
	}
	return without
}
