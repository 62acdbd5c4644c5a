// SPDX-License-Identifier: Apache-2.0

package main

// loci version.

import (
	"github.com/spf13/cobra"

	"loci/daemon/metrics"
	"loci/internal/command"
)

func newVersionCommand() *cobra.Command {
	return command.NewVersion("loci", append(withoutKernel, withoutMetrics()...), func() (string, error) { return command.Find(labCommand) })
}

// withoutMetrics names metrics where this build leaves them out: their library is large.
func withoutMetrics() []string {
	if metrics.Present {
		return nil
	}
	return []string{"metrics"}
}
