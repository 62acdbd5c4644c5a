// SPDX-License-Identifier: Apache-2.0

// Package ask puts the questions of commands to a running daemon: the flags that they share, how long they wait, and
// what the user is told meanwhile.
package ask

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
	// Timeout bounds one question to the daemon.
	Timeout = 30 * time.Second
	// silentAfter is after how long the user is told that there is no answer yet.
	silentAfter = 3 * time.Second
)

// Wait bounds one question to the daemon, and tells the user when there is no answer for some time.
func Wait(cmd *cobra.Command, socket string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(cmd.Context(), Timeout)
	silence := TellSilence(cmd, socket)
	return ctx, func() { silence.Stop(); cancel() }
}

// TellSilence tells the user that there is no answer yet, unless it is stopped before.
func TellSilence(cmd *cobra.Command, socket string) *time.Timer {
	return time.AfterFunc(silentAfter, func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "loci: the daemon at %s has not answered for %s: waiting up to %s\n", socket, silentAfter, Timeout)
	})
}

// Flags are common to the commands that ask.
type Flags struct {
	Socket string // the daemon's control socket
	AsJSON bool   // print JSON
}

// Answer asks with ask and prints the answer with print, or as JSON.
func Answer[T any](cmd *cobra.Command, flags *Flags,
	ask func(*api.Client, context.Context) (T, error), print func(io.Writer, T) error) error {
	ctx, cancel := Wait(cmd, flags.Socket)
	defer cancel()
	answer, err := ask(api.NewClient(flags.Socket), ctx)
	if err != nil {
		return err
	}
	if !flags.AsJSON {
		return print(cmd.OutOrStdout(), answer)
	}
	return jsondoc.WriteIndented(cmd.OutOrStdout(), answer)
}
