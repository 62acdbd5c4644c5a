// SPDX-License-Identifier: Apache-2.0

package main

// loci-lab version.

import (
	"github.com/spf13/cobra"

	"loci/internal/command"
)

func newVersionCommand(r *router) *cobra.Command { return command.NewVersion("loci-lab", nil, r.find) }
