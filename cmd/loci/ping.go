// SPDX-License-Identifier: Apache-2.0

package main

// loci ping: which leg of the path to an EID fails.

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/complete"
	"loci/daemon/api"
	"loci/diagnosis"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/lisp"
)

const (
	maxPingCount     = 10000
	leastPingPause   = 10 * time.Millisecond
	leastPingTimeout = 100 * time.Millisecond
	mostPingWait     = time.Minute // --interval and --timeout
)

func newPingCommand() *cobra.Command {
	flags, o, source := &ask.Flags{}, diagnosis.PingOptions{}, ""
	cmd := &cobra.Command{
		Use:   "ping EID",
		Short: "Find out which leg of the path to an EID fails: mapping system, locator, data plane, MTU",
		Long: `Try each leg of the path to an EID, and name the first that fails, with a reason and
what to do about it. It says first if this site is not registered:

  mapping-system  a Map-Request to the Map-Resolver, as of loci lig
  locator         an RLOC-probe to each locator of the mapping
  data-plane      echo requests to the EID, from an EID of this host
  path-mtu        echo requests as large as the path is said to carry

The last two legs need root, in the daemon's network namespace. [7]10.2.0.1 is an EID
of Instance-ID 7, of which the first two legs are tried.

Exit status: 0 when no leg failed, 1 when one did, 2 when an argument is wrong, 3 when
no daemon answers, or data-plane could not be tried (the verdict is "incomplete").`,
		Example: `  loci ping 10.2.0.10
  loci ping 2001:db8:2::10 --source 2001:db8:1::1 --count 20 --interval 100ms
  loci ping 10.2.0.10 --json | jq -r .failed_leg`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.FirstHost,
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := pingOptions(&o, words[0], source); err != nil {
				return command.Usage(err)
			}
			report, err := diagnosis.Ping(cmd.Context(), api.NewClient(flags.Socket), o)
			if errors.Is(err, diagnosis.ErrNotITR) {
				return command.Usage(err)
			}
			if err != nil {
				return err
			}
			if flags.AsJSON {
				err = jsondoc.WriteIndented(cmd.OutOrStdout(), report)
			} else {
				err = printPing(cmd.OutOrStdout(), report)
			}
			return errors.Join(err, stepsFailed(&report.Report))
		},
	}
	addSocketFlag(cmd, &flags.Socket)
	cmd.Flags().BoolVar(&flags.AsJSON, "json", false, "print one JSON object")
	cmd.Flags().StringVar(&source, "source", "", "EID of this host that the echo requests come from (default: one of them)")
	cmd.Flags().IntVar(&o.Count, "count", 5, "how many echo requests to send, at most 10000")
	cmd.Flags().DurationVar(&o.Interval, "interval", 200*time.Millisecond, "time between two of them, 10ms to 1m")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 2*time.Second, "how long to wait for each answer, 100ms to 1m")
	return cmd
}

func pingOptions(o *diagnosis.PingOptions, word, source string) error {
	wanted, err := lisp.ParsePrefix(word)
	switch {
	case err != nil:
		return err
	case !wanted.IsHost() || !wanted.EID().IsIP():
		return fmt.Errorf("%s: want one IPv4 or IPv6 EID", word)
	case o.Count < 1 || o.Count > maxPingCount:
		return fmt.Errorf("--count %d: want 1 to %d", o.Count, maxPingCount)
	case o.Interval < leastPingPause || o.Interval > mostPingWait:
		return fmt.Errorf("--interval %s: want %s to %s", o.Interval, leastPingPause, mostPingWait)
	}
	if err := checkTimeout(o.Timeout); err != nil {
		return err
	}
	o.Instance, o.EID = wanted.Instance(), wanted.EID()
	if source == "" {
		return nil
	}
	if o.Source, err = netip.ParseAddr(source); err != nil {
		return fmt.Errorf("--source %q: want an IPv4 or IPv6 address", source)
	}
	if o.Source.Is4() != o.EID.Addr().Is4() {
		return fmt.Errorf("--source %s and %s are not of one family", source, word)
	}
	return nil
}

func checkTimeout(timeout time.Duration) error {
	if timeout < leastPingTimeout || timeout > mostPingWait {
		return fmt.Errorf("--timeout %s: want %s to %s", timeout, leastPingTimeout, mostPingWait)
	}
	return nil
}

// stepsFailed is the end of a command whose report says what failed, or could not be tried.
func stepsFailed(r *diagnosis.Report) error {
	switch {
	case r.Failed():
		return &command.Exit{Status: command.StatusProblems, Err: errors.New("a step failed"), Quiet: true}
	case r.Incomplete():
		return &command.Exit{Status: command.StatusAbsent, Err: errors.New("a step could not be tried"), Quiet: true}
	}
	return nil
}

func printPing(out io.Writer, r *diagnosis.PingReport) error {
	heading := lisp.HostPrefix(r.InstanceID, r.EID).String()
	if r.Source != "" {
		heading += " from " + r.Source
	}
	return printSteps(out, heading, r.Report)
}

func printSteps(out io.Writer, heading string, r diagnosis.Report) error {
	text := heading + ": " + r.Verdict + "\n"
	for _, s := range r.Steps {
		what := s.Name
		if s.Subject != "" {
			what += " " + s.Subject
		}
		text += fmt.Sprintf("%-9s  %s", strings.ToUpper(string(s.Outcome)), what)
		if s.Detail != "" {
			text += ": " + s.Detail
		}
		text += "\n"
		if s.Reason != "" {
			text += "           reason  " + s.Reason + "\n"
		}
		if s.Remedy != "" {
			text += "           do      " + s.Remedy + "\n"
		}
	}
	_, err := io.WriteString(out, text)
	return err
}
