// SPDX-License-Identifier: Apache-2.0

package show

// How loci show prints tables by EID-Prefix, which may have a million entries: as they
// come from the daemon, which narrows them down.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/complete"
	"loci/daemon/api"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/internal/table"
	"loci/lisp"
)

// alignedRows is how many rows of a table are aligned with each other. Shorter tables are aligned as a whole.
const alignedRows = 4096

// firstRows is how long the first rows wait for others to be aligned with.
const firstRows = 100 * time.Millisecond

// prefixTable is a table keyed by EID-Prefix.
type prefixTable[T any] struct {
	ask     func(*api.Client, context.Context, api.ListQuery) iter.Seq2[T, error]
	prefix  func(T) lisp.Prefix
	heading string
	rows    func(now time.Time, entry T) []string
	owner   tableOwner
}

// tableOwner is which systems have a table.
type tableOwner struct {
	name  string
	roles []string
}

// emptyText is what stands in place of an empty table.
func (o tableOwner) emptyText(ctx context.Context, client *api.Client) string {
	status, err := client.Status(ctx)
	if err != nil || slices.ContainsFunc(status.Roles, func(role string) bool { return slices.Contains(o.roles, role) }) {
		return "none"
	}
	return "none: this system is not " + o.name
}

// showTable shows a table: an argument narrows it to the entries that cover or are covered by it.
func showTable[T any](flags *ask.Flags, name, short string, table prefixTable[T]) *cobra.Command {
	var query api.ListQuery
	cmd := &cobra.Command{
		Use:               name + " [EID or EID-PREFIX]",
		Short:             short,
		Example:           "  loci show " + name + "\n  loci show " + name + " 10.2.0.1\n  loci show " + name + " --json --limit 20",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: complete.FirstEID,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) > 0 {
				if query.EIDPrefix, err = lisp.ParsePrefix(args[0]); err != nil {
					return command.Usage(err)
				}
			}
			if query.Limit < 0 {
				return command.Usagef("--limit %d: want 0 for all entries, or a number of entries", query.Limit)
			}
			return table.show(cmd, flags, query)
		},
	}
	cmd.Flags().IntVar(&query.Limit, "limit", 0, "print so many entries at most, the first by EID-Prefix; 0 for all")
	return cmd
}

func (t prefixTable[T]) show(cmd *cobra.Command, flags *ask.Flags, query api.ListQuery) error {
	ctx, giveUp := context.WithCancelCause(cmd.Context()) // the list may last, its next entry may not
	defer giveUp(nil)
	late := time.AfterFunc(ask.Timeout, func() { giveUp(context.DeadlineExceeded) })
	defer late.Stop()
	silence := ask.TellSilence(cmd, flags.Socket)
	defer silence.Stop()
	client := api.NewClient(flags.Socket)
	question := func(query api.ListQuery) iter.Seq2[T, error] {
		return func(yield func(T, error) bool) {
			late.Reset(ask.Timeout)
			defer late.Stop()
			for entry, err := range t.ask(client, ctx, query) {
				silence.Stop()
				late.Stop() // the output may stand still
				if !yield(entry, err) {
					return
				}
				late.Reset(ask.Timeout)
			}
		}
	}
	entries := ahead(question, t.prefix, query)
	if !flags.AsJSON {
		emptyText := func() string { return t.owner.emptyText(ctx, client) }
		return t.print(cmd.OutOrStdout(), entries, emptyText)
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	return errors.Join(printArray(out, entries), out.Flush())
}

// print prints aligned columns under a heading, or a word when there are none.
func (t prefixTable[T]) print(out io.Writer, entries iter.Seq2[T, error], empty func() string) error {
	columns := table.New(out)
	now, printed, first := time.Now(), 0, true
	for entry, err := range entries {
		if err != nil {
			return errors.Join(columns.Flush(), err)
		}
		if printed == 0 {
			columns.Rows(t.heading)
		}
		rows := t.rows(now, entry)
		columns.Rows(rows...)
		printed += len(rows)
		if printed%alignedRows >= len(rows) && (!first || time.Since(now) < firstRows) {
			continue
		}
		first = false
		if err := columns.Flush(); err != nil {
			return err
		}
	}
	if printed == 0 {
		columns.Rows(empty())
	}
	return columns.Flush()
}

// printArray prints what encoding/json makes of the whole, with an indent of two spaces.
func printArray[T any](out io.Writer, entries iter.Seq2[T, error]) error {
	opening, closing := "[\n  ", "[]\n"
	for entry, err := range entries {
		if err != nil {
			return err
		}
		text, err := jsondoc.Indented(entry, "  ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s", opening, text); err != nil {
			return err
		}
		opening, closing = ",\n  ", "\n]\n"
	}
	_, err := io.WriteString(out, closing)
	return err
}
