// SPDX-License-Identifier: Apache-2.0

package main

// loci status: one verdict, and the problems behind it.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/format"
	"loci/daemon/api"
	"loci/internal/command"
)

func newStatusCommand() *cobra.Command {
	flags := &ask.Flags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether a running daemon is healthy, and what is wrong",
		Long: `Say whether a running daemon is healthy. If not, list the problems, the most urgent
first: what is wrong, since when, what it costs, and what to do. Critical problems lose
packets or hide EIDs, warnings may do so soon. Notices leave the verdict as it is.

Exit status: 0 healthy, 1 problems, 2 an argument is wrong, 3 no daemon answers, 4 it
refuses to.`,
		Example: `  loci status
  loci status --json | jq -r '.problems[] | .urgency + " " + .what'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var judged api.Health
			question := func(c *api.Client, ctx context.Context) (h api.Health, err error) {
				judged, err = c.Health(ctx)
				return judged, err
			}
			if err := ask.Answer(cmd, flags, question, printHealth); err != nil {
				return err
			}
			if judged.Verdict != api.VerdictHealthy {
				return &command.Exit{Status: command.StatusProblems, Err: errors.New("there are problems"), Quiet: true}
			}
			return nil
		},
	}
	addSocketFlag(cmd, &flags.Socket)
	cmd.Flags().BoolVar(&flags.AsJSON, "json", false, "print JSON")
	return cmd
}

func printHealth(out io.Writer, h api.Health) error {
	text := h.Verdict
	if h.Verdict != api.VerdictHealthy {
		text = fmt.Sprintf("problems: %d, critical: %d", h.Critical+h.Warnings, h.Critical)
	}
	if h.Notices > 0 {
		text += fmt.Sprintf(", notices: %d", h.Notices)
	}
	text += " (" + strings.Join(h.Roles, ", ") + ")\n"
	for _, p := range h.Problems {
		text += fmt.Sprintf("\n%-9s %s\n", p.Urgency, p.What)
		if p.Since != nil {
			text += fmt.Sprintf("  since   %s, for %s\n", p.Since.Local().Format(time.DateTime), format.Age(h.At, p.Since))
		}
		if p.Effect != "" {
			text += "  costs   " + p.Effect + "\n"
		}
		if p.Remedy != "" {
			text += "  do      " + p.Remedy + "\n"
		}
	}
	_, err := io.WriteString(out, text)
	return err
}
