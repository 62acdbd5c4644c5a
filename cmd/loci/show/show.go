// SPDX-License-Identifier: Apache-2.0

// Package show is loci show: the tables and counters of a running daemon, one file for each. The documents are in the
// file of the same name in daemon/api, and what makes them in daemon/answers.
package show

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/daemon/api"
	"loci/lisp"
)

// NewCommand is loci show.
func NewCommand() *cobra.Command {
	flags := &ask.Flags{}
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
	cmd.PersistentFlags().StringVarP(&flags.Socket, "socket", "s", api.DefaultSocket, "the daemon's control socket")
	cmd.PersistentFlags().BoolVar(&flags.AsJSON, "json", false, "print JSON")
	cmd.AddCommand(
		newShowStatusCommand(flags),
		showTable(flags, "map-cache", "Where remote EIDs are reachable (ITR)", prefixTable[api.MapCacheEntry]{
			(*api.Client).EachMapCache, func(e api.MapCacheEntry) lisp.Prefix { return e.EIDPrefix },
			mapCacheHeading, mapCacheRows, mapCacheOwner,
		}),
		showTable(flags, "map-requests", "Map-Requests under way (ITR)", prefixTable[api.PendingMapRequest]{
			(*api.Client).EachMapRequests, func(r api.PendingMapRequest) lisp.Prefix { return r.EIDPrefix },
			mapRequestHeading, mapRequestRows, mapCacheOwner,
		}),
		showTable(flags, "database", "EID-Prefixes of this site (ETR)", prefixTable[api.DatabaseEntry]{
			(*api.Client).EachDatabase, func(e api.DatabaseEntry) lisp.Prefix { return e.EIDPrefix },
			databaseHeading, databaseRows, tableOwner{"an ETR", []string{"etr"}},
		}),
		showTable(flags, "registrations", "What sites have registered (Map-Server)", prefixTable[api.Registration]{
			(*api.Client).EachRegistrations, func(r api.Registration) lisp.Prefix { return r.EIDPrefix },
			registrationHeading, registrationRows, tableOwner{"a Map-Server", []string{"map-server"}},
		}),
		showSubcommand(flags, "locators", "RLOCs of all mappings and their states", (*api.Client).Locators, printLocators),
		showSubcommand(flags, "subflows", "Subflows of Multipath TCP and their paths (ITR)",
			(*api.Client).Subflows, printSubflows),
		showSubcommand(flags, "answered-subflows",
			"Flows whose paths this router chose for ITRs that asked (ETR)",
			(*api.Client).AnsweredSubflows, printAnsweredSubflows),
		showSubcommand(flags, "interfaces", "Interfaces and own RLOCs with their states", (*api.Client).Interfaces, printInterfaces),
		showSubcommand(flags, "siblings", "Other xTRs of this site, and who gets its packets", (*api.Client).Siblings, printSiblings),
		showSubcommand(flags, "nat", "This router as NATs make it look, and those behind NATs that it forwards to", (*api.Client).NAT, printNAT),
		showSubcommand(flags, "translations", "What LISP-NAT translates, and its sessions", (*api.Client).Translations, printTranslations),
		showSubcommand(flags, "datapath", "Programs, tables and memory in the kernel, and what the kernel lacks", (*api.Client).Datapath, printDatapath),
		newRunningConfigCommand(flags),
		showSubcommand(flags, "counters", "Messages, packets, and everything refused or dropped, by reason", (*api.Client).Counters, printCounters),
	)
	return cmd
}

// showSubcommand asks a question and prints the answer with print, or as JSON.
func showSubcommand[T any](flags *ask.Flags, name, short string,
	question func(*api.Client, context.Context) (T, error), print func(io.Writer, T) error) *cobra.Command {
	return &cobra.Command{
		Use:     name,
		Short:   short,
		Example: "  loci show " + name + "\n  loci show " + name + " --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask.Answer(cmd, flags, question, print)
		},
	}
}
