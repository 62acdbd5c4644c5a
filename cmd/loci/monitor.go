// SPDX-License-Identifier: Apache-2.0

package main

// loci monitor, reload and log-level: follow a running daemon, make it read its file, or log more.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/complete"
	"loci/cmd/loci/format"
	"loci/config"
	"loci/daemon/api"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/internal/table"
	"loci/lisp"
)

// monitorFlags narrow what loci monitor prints; the daemon selects.
type monitorFlags struct {
	socket, eid, peer, since string
	query                    api.EventQuery
	asJSON                   bool
}

func newMonitorCommand() *cobra.Command {
	f := &monitorFlags{}
	cmd := &cobra.Command{
		Use:   "monitor",
		Short: "Print events of the protocol, one a line",
		Long: `Print events of the protocol, one a line, from now on: time, kind, EID-Prefix, peer,
fields in the form name=value, and the rest in words. Several options select what all
of them want. RLOC-probes are left out unless --probes or their kind is given.

--since prints the events of the recent past first. The daemon keeps the last 4096:
changes of state always, messages while a client follows them.`,
		Example: `  loci monitor --kind locator-down,locator-up --since 1h
  loci monitor --eid 10.2.0.0/16 --peer 192.0.2.1
  loci monitor --since 15:04 --json | jq 'select(.reason == "probes-unanswered") | .rloc'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parse(time.Now()); err != nil {
				return command.Usage(err)
			}
			print := newEventColumns(cmd.OutOrStdout()).print
			if f.asJSON {
				print = func(e api.Event) error { return jsondoc.Write(cmd.OutOrStdout(), e) }
			}
			err := api.NewClient(f.socket).Events(cmd.Context(), f.query, print)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	addSocketFlag(cmd, &f.socket)
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object a line")
	cmd.Flags().StringSliceVar(&f.query.Kinds, "kind", nil, "events of these kinds only; the completion of the shell lists them")
	cmd.Flags().StringVar(&f.eid, "eid", "", "events about this EID, or an EID-Prefix that it covers or is covered by")
	cmd.Flags().StringVar(&f.peer, "peer", "", "events with this peer or RLOC: an address, or a prefix")
	cmd.Flags().StringVar(&f.since, "since", "", "first the events since then: a time as 15:04 or 2026-11-23T15:04:05Z, or how long ago, as 10m")
	cmd.Flags().BoolVar(&f.query.Probes, "probes", false, "RLOC-probes as well")
	_ = cmd.RegisterFlagCompletionFunc("kind", complete.Words(api.EventKinds)) // the flag is there
	_ = cmd.RegisterFlagCompletionFunc("eid", complete.EIDs)
	return cmd
}

// parse reads the flags.
func (f *monitorFlags) parse(now time.Time) (err error) {
	for _, kind := range f.query.Kinds {
		if slices.Contains(api.EventKinds, kind) {
			continue
		}
		if near := command.Nearest(kind, api.EventKinds); near != "" {
			return fmt.Errorf("--kind %s: there is no such event; did you mean %s?", kind, near)
		}
		return fmt.Errorf("--kind %s: there is no such event: docs/events.md lists them, as does the completion of the shell", kind)
	}
	if f.eid != "" {
		if f.query.EIDPrefix, err = lisp.ParsePrefix(f.eid); err != nil {
			return fmt.Errorf("--eid: %w", err)
		}
	}
	if f.peer != "" {
		if f.query.Peer, err = api.ParsePeer(f.peer); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	if f.since != "" {
		f.query.Since, err = parseSince(f.since, now)
	}
	return err
}

// parseSince reads a moment: how long ago, a time of this day (or of the day before, where it is still to come), or a
// date with it.
func parseSince(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		at, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		moment := time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, now.Location())
		if moment.After(now) {
			moment = moment.AddDate(0, 0, -1)
		}
		return moment, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %q: want how long ago, as 10m, a time, as 15:04, or both date and time, as 2026-11-23T15:04:05Z", text)
}

// eventColumns prints events below each other. Columns grow with what comes.
type eventColumns struct {
	out    io.Writer
	widths [3]int // of kind, EID-Prefix and peer
}

// newEventColumns begins with columns that suffice for most.
func newEventColumns(out io.Writer) *eventColumns { return &eventColumns{out, [3]int{24, 18, 16}} }

// eventTime is a time of day, with its date unless that is today's.
func eventTime(now, at time.Time) string {
	if at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return at.Format("2006-01-02 15:04:05.000000")
	}
	return at.Format("15:04:05.000000")
}

func (c *eventColumns) print(e api.Event) error {
	cells := [3]string{e.Kind, "-", "-"}
	if e.EIDPrefix != nil {
		cells[1] = e.EIDPrefix.String()
	}
	if e.Peer != "" {
		cells[2] = e.Peer
	}
	line := eventTime(time.Now(), e.At.Local())
	for i, cell := range cells {
		c.widths[i] = max(c.widths[i], table.Width(cell))
		line += "  " + table.Pad(cell, c.widths[i])
	}
	for _, f := range [][2]string{{"rloc", e.RLOC}, {"site", e.Site}, {"reason", e.Reason}} {
		line += field(f[0], f[1])
	}
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		line += field(name, e.Fields[name])
	}
	if e.Detail != "" {
		line += "  " + e.Detail
	}
	_, err := fmt.Fprintln(c.out, strings.TrimRight(line, " "))
	return err
}

// field is a field of an event, "" for one that it does not have.
func field(name, value string) string {
	if value == "" {
		return ""
	}
	if strings.ContainsAny(value, " \"") {
		value = strconv.Quote(value)
	}
	return "  " + name + "=" + value
}

func newReloadCommand() *cobra.Command {
	var socket, file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read its configuration file again",
		Long: `Make the daemon read its configuration file again. A file with an error changes nothing.

The command prints the changes, and the Map-Servers that have not acknowledged all
EID-Prefixes within two seconds.

With --config the daemon is asked at the control socket that the file names. It is
the daemon that reads the file, the one that it was started with.`,
		Example: "  loci check /etc/loci/loci.yaml && loci reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				socket = config.LoadAnyway(file).Control.Socket
			}
			ctx, cancel := ask.Wait(cmd, socket)
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
	cmd.Flags().StringVarP(&file, "config", "c", "", "ask at the control socket of this configuration file")
	cmd.MarkFlagsMutuallyExclusive("socket", "config")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func newLogLevelCommand() *cobra.Command {
	f := &ask.Flags{}
	cmd := &cobra.Command{
		Use:   "log-level [debug|info|warn|error|configured]",
		Short: "Show or change the level of a running daemon's log",
		Long: `Show the level of the daemon's log, or change it while the daemon runs. The level
stays until the daemon ends, until a reload changes logging.level in the file, or
until it is set to "configured", which is that of the file.`,
		Example:   "  loci log-level debug\n  loci log-level configured",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: api.LogLevels,
		RunE: func(cmd *cobra.Command, words []string) error {
			question := (*api.Client).LogLevel
			if len(words) > 0 {
				if err := api.CheckLogLevel(words[0]); err != nil {
					return command.Usagef("%w%s", err, command.DidYouMean(words[0], api.LogLevels))
				}
				question = func(c *api.Client, ctx context.Context) (api.LogLevel, error) { return c.SetLogLevel(ctx, words[0]) }
			}
			return ask.Answer(cmd, f, question, printLogLevel)
		},
	}
	addSocketFlag(cmd, &f.Socket)
	cmd.Flags().BoolVar(&f.AsJSON, "json", false, "print one JSON object")
	return cmd
}

func printLogLevel(out io.Writer, l api.LogLevel) error {
	text := l.Level
	if l.Level != l.Configured {
		text += " (configured: " + l.Configured + ")"
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// notRegistered says what a Map-Server has not acknowledged.
func notRegistered(m api.MapServer) []string {
	if m.LackingCount == 0 {
		return []string{"pending: Map-Server " + format.MapServerName(m) + " has not acknowledged the change yet; see loci show status"}
	}
	lines := format.LackingLines(time.Now(), m)
	for i := range lines {
		lines[i] = "Map-Server " + format.MapServerName(m) + " does not acknowledge " + lines[i]
	}
	return lines
}

func addSocketFlag(cmd *cobra.Command, socket *string) {
	cmd.Flags().StringVarP(socket, "socket", "s", api.DefaultSocket, "the daemon's control socket")
}
