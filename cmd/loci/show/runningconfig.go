// SPDX-License-Identifier: Apache-2.0

package show

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/daemon/api"
)

// loci show running-config.

// newRunningConfigCommand shows the configuration in force, which may be older than its file.
func newRunningConfigCommand(flags *ask.Flags) *cobra.Command {
	defaults := false
	cmd := &cobra.Command{
		Use:   "running-config",
		Short: "The configuration in force, with masked secrets",
		Long: `Show the configuration in force as YAML: what the daemon read at its start or by the
last reload. Keys that have their default values are left out without --defaults.
Secrets are masked. --json has the same with keys as all JSON has them.`,
		Example: "  loci show running-config\n  loci show running-config --defaults | grep interval\n  loci show running-config --json | jq .config.itr",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			question := func(c *api.Client, ctx context.Context) (api.RunningConfig, error) {
				return c.RunningConfig(ctx, defaults)
			}
			return ask.Answer(cmd, flags, question, func(out io.Writer, r api.RunningConfig) error {
				_, err := fmt.Fprintf(out, "# in force; read from %s\n%s", r.File, r.YAML)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&defaults, "defaults", false, "with the keys that have their default values")
	return cmd
}
