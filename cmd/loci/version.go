// SPDX-License-Identifier: Apache-2.0

package main

// loci version.

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"loci/daemon"
)

func newVersionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  loci version --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !asJSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "loci %s (%s, %s/%s)\n", daemon.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
				"version": daemon.Version, "go": runtime.Version(), "os": runtime.GOOS, "architecture": runtime.GOARCH,
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
