// SPDX-License-Identifier: Apache-2.0

package main

// loci monitor and loci reload: follow a running daemon, make it read its file.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/daemon/api"
	"loci/internal/jsondoc"
)

func newMonitorCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "monitor",
		Short:   "Print events of the protocol, one a line",
		Example: "  loci monitor --json | jq .kind",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := api.NewClient(socket).Events(cmd.Context(), func(e api.Event) error {
				return printEvent(cmd.OutOrStdout(), e, asJSON)
			})
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	addSocketFlag(cmd, &socket)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return cmd
}

func printEvent(out io.Writer, e api.Event, asJSON bool) error {
	if asJSON {
		return jsondoc.Write(out, e)
	}
	line := e.At.Format("15:04:05.000000") + " " + e.Kind
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		line += " " + name + "=" + e.Fields[name]
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func newReloadCommand() *cobra.Command {
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration file again",
		Long: `Make the daemon read its configuration file again. A file with an error changes nothing.

The command prints the changes, and the Map-Servers that have not acknowledged all
EID-Prefixes within two seconds.`,
		Example: "  loci check /etc/loci/loci.yaml && loci reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := waitForDaemon(cmd, socket)
			defer cancel()
			done, err := api.NewClient(socket).Reload(ctx)
			if err != nil {
				return err
			}
			if asJSON {
				return jsondoc.Write(cmd.OutOrStdout(), done)
			}
			if len(done.Changes) == 0 {
				done.Changes = []string{"nothing changed"}
			}
			lines := done.Changes
			for _, m := range done.MapServers {
				lines = append(lines, notRegistered(m)...)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
			return err
		},
	}
	addSocketFlag(cmd, &socket)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// notRegistered says what a Map-Server has not acknowledged.
func notRegistered(m api.MapServer) []string {
	if m.LackingCount == 0 {
		return []string{"pending: Map-Server " + mapServerName(m) + " has not acknowledged the change yet; see loci show status"}
	}
	lines := lackingLines(time.Now(), m)
	for i := range lines {
		lines[i] = "Map-Server " + mapServerName(m) + " does not acknowledge " + lines[i]
	}
	return lines
}

func addSocketFlag(cmd *cobra.Command, socket *string) {
	cmd.Flags().StringVarP(socket, "socket", "s", api.DefaultSocket, "the daemon's control socket")
}
