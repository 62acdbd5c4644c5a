// SPDX-License-Identifier: Apache-2.0

//go:build manuals

package main

// loci-lab manuals, for the making of packages.

import (
	"github.com/spf13/cobra"

	"loci/internal/manuals"
)

func addManuals(root *cobra.Command) { root.AddCommand(manuals.New(root)) }
