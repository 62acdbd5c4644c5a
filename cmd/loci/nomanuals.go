// SPDX-License-Identifier: Apache-2.0

//go:build !manuals

package main

// A build that is installed has no command manuals.

import "github.com/spf13/cobra"

// addManuals adds nothing.
func addManuals(*cobra.Command) {}
