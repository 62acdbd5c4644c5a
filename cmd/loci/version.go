// SPDX-License-Identifier: Apache-2.0

package main

// loci version.

import (
	"github.com/spf13/cobra"

	"loci/internal/command"
)

func newVersionCommand() *cobra.Command {
	return command.NewVersion("loci", append(withoutKernel, withoutMetrics...), func() (string, error) { return command.Find(labCommand) })
}
