// SPDX-License-Identifier: Apache-2.0

package main

// loci version.

import (
	"slices"

	"github.com/spf13/cobra"

	"loci/daemon/metrics"
	"loci/internal/command"
)

func newVersionCommand() *cobra.Command {
	return command.NewVersion("loci", leftOut(), func() (string, error) { return command.Find(labCommand) })
}

// leftOut names what this build has not: metrics have a large library.
func leftOut() []string {
	if metrics.Present {
		return withoutKernel
	}
	return append(slices.Clone(withoutKernel), "metrics")
}
