// SPDX-License-Identifier: Apache-2.0

package main

// loci show: the tables and counters of a running daemon.

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"loci/daemon/api"
	"loci/internal/jsondoc"
)

const (
	// answerTimeout bounds one question to the daemon.
	answerTimeout = 30 * time.Second
	// silenceTold is after how long the user hears that there is no answer yet.
	silenceTold = 3 * time.Second
)

// waitForDaemon bounds one question to the daemon, and tells the user when there is no answer for some time.
func waitForDaemon(cmd *cobra.Command, socket string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(cmd.Context(), answerTimeout)
	silence := tellSilence(cmd, socket)
	return ctx, func() { silence.Stop(); cancel() }
}

// tellSilence tells the user that there is no answer yet, unless it is stopped before.
func tellSilence(cmd *cobra.Command, socket string) *time.Timer {
	return time.AfterFunc(silenceTold, func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "loci: the daemon at %s has not answered for %s: waiting up to %s\n", socket, silenceTold, answerTimeout)
	})
}

// showFlags are common to all of show's subcommands.
type showFlags struct {
	socket string
	asJSON bool
}

func newShowCommand() *cobra.Command {
	flags := &showFlags{}
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the tables and counters of a running daemon",
		Example: `  loci show status
  loci show map-cache 10.2.0.1
  loci show registrations 10.0.0.0/8 --limit 20
  loci show registrations --json --socket /run/loci/ms.sock`,
		Args: cobra.NoArgs, // or a mistyped table would be answered by help, and success
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVarP(&flags.socket, "socket", "s", api.DefaultSocket, "the daemon's control socket")
	cmd.PersistentFlags().BoolVar(&flags.asJSON, "json", false, "print JSON")
	cmd.AddCommand(
		newShowStatusCommand(flags),
		showTable(flags, "map-cache", "Where remote EIDs are reachable (ITR)",
			prefixTable[api.MapCacheEntry]{(*api.Client).EachMapCache, mapCacheHeading, mapCacheRows, mapCacheOwner}),
		showTable(flags, "map-requests", "Map-Requests under way (ITR)",
			prefixTable[api.PendingMapRequest]{(*api.Client).EachMapRequests, mapRequestHeading, mapRequestRows, mapCacheOwner}),
		showTable(flags, "database", "EID-Prefixes of this site (ETR)",
			prefixTable[api.DatabaseEntry]{(*api.Client).EachDatabase, databaseHeading, databaseRows, tableOwner{"an ETR", []string{"etr"}}}),
		showTable(flags, "registrations", "What sites have registered (Map-Server)",
			prefixTable[api.Registration]{(*api.Client).EachRegistrations, registrationHeading, registrationRows, tableOwner{"a Map-Server", []string{"map-server"}}}),
		showSubcommand(flags, "locators", "RLOCs of all mappings and their states", (*api.Client).Locators, printLocators),
		showSubcommand(flags, "interfaces", "Interfaces and own RLOCs with their states", (*api.Client).Interfaces, printInterfaces),
		showSubcommand(flags, "siblings", "Other xTRs of this site, and who gets its packets", (*api.Client).Siblings, printSiblings),
		showSubcommand(flags, "datapath", "Programs, tables and memory in the kernel, and what the kernel lacks", (*api.Client).Datapath, printDatapath),
		newRunningConfigCommand(flags),
		showSubcommand(flags, "counters", "Messages, packets, and everything refused or dropped, by reason", (*api.Client).Counters, printCounters),
	)
	return cmd
}

// mapCacheOwner has the roles with a map-cache.
var mapCacheOwner = tableOwner{"an ITR, RTR or PITR", []string{"itr", "rtr", "pitr"}}

// newShowStatusCommand shows the state of the daemon. Whether an RLOC is up is another answer's: the text has it as well.
func newShowStatusCommand(flags *showFlags) *cobra.Command {
	var own []api.OwnRLOC
	ask := func(c *api.Client, ctx context.Context) (s api.Status, err error) {
		if s, err = c.Status(ctx); err != nil || flags.asJSON || len(s.Interfaces) == 0 {
			return s, err
		}
		interfaces, err := c.Interfaces(ctx)
		own = interfaces.RLOCs
		return s, err
	}
	return showSubcommand(flags, "status", "State of the daemon", ask, func(out io.Writer, s api.Status) error { return printStatus(out, s, own) })
}

// newRunningConfigCommand shows the configuration in force, which may be older than its file.
func newRunningConfigCommand(flags *showFlags) *cobra.Command {
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
			ask := func(c *api.Client, ctx context.Context) (api.RunningConfig, error) {
				return c.RunningConfig(ctx, defaults)
			}
			return showAnswer(cmd, flags, ask, func(out io.Writer, r api.RunningConfig) error {
				_, err := fmt.Fprintf(out, "# in force; read from %s\n%s", r.File, r.YAML)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&defaults, "defaults", false, "with the keys that have their default values")
	return cmd
}

// showSubcommand asks with ask and prints the answer with print, or as JSON.
func showSubcommand[T any](flags *showFlags, name, short string,
	ask func(*api.Client, context.Context) (T, error), print func(io.Writer, T) error) *cobra.Command {
	return &cobra.Command{
		Use:     name,
		Short:   short,
		Example: "  loci show " + name + "\n  loci show " + name + " --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showAnswer(cmd, flags, ask, print)
		},
	}
}

func showAnswer[T any](cmd *cobra.Command, flags *showFlags,
	ask func(*api.Client, context.Context) (T, error), print func(io.Writer, T) error) error {
	ctx, cancel := waitForDaemon(cmd, flags.socket)
	defer cancel()
	answer, err := ask(api.NewClient(flags.socket), ctx)
	if err != nil {
		return err
	}
	if !flags.asJSON {
		return print(cmd.OutOrStdout(), answer)
	}
	return jsondoc.WriteIndented(cmd.OutOrStdout(), answer)
}
