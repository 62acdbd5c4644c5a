// SPDX-License-Identifier: Apache-2.0

package main

// loci lig: ask a Map-Resolver for an EID (RFC 6835).

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/complete"
	"loci/cmd/loci/format"
	"loci/control"
	"loci/daemon/api"
	"loci/diagnosis"
	"loci/internal/command"
	"loci/internal/jsondoc"
	"loci/lisp"
	"loci/wire"
)

// ligArguments are what the words after "lig" say.
type ligArguments struct {
	eid      string
	source   lisp.EID
	resolver netip.AddrPort
	count    int
}

func newLigCommand() *cobra.Command {
	var socket string
	var asJSON bool
	timeout := control.LigDefaultTimeout
	cmd := &cobra.Command{
		Use:   "lig EID|self|self6 [source EID] [to MAP-RESOLVER] [count 1-5]",
		Short: "Ask a Map-Resolver where an EID is (RFC 6835)",
		Long: `Ask any Map-Resolver where an EID is. Without "to" the command asks the first
Map-Resolver of the running daemon. "self" and "self6" ask for the first IPv4 or
IPv6 EID-Prefix of this site. [7]10.2.0.1 is an EID of Instance-ID 7.
Exit status 0 when a Map-Reply came, even a negative one; 1 when none came.`,
		Example: `  loci lig 10.2.0.1
  loci lig 2001:db8:2::1 to 192.0.2.1 count 1
  loci lig [7]10.2.0.1 source 10.1.0.1 --json
  loci lig self`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: complete.FirstHost,
		RunE: func(cmd *cobra.Command, words []string) error {
			if timeout < control.LigMinTimeout || timeout > control.LigMaxTimeout {
				return command.Usagef("--timeout %s: want %s to %s", timeout, control.LigMinTimeout, control.LigMaxTimeout)
			}
			ctx, cancel := ask.Wait(cmd, socket)
			query, count, err := ligQuery(ctx, words, api.NewClient(socket))
			cancel()
			if err != nil {
				return err
			}
			return runLig(cmd, query, count, timeout, asJSON)
		},
	}
	addSocketFlag(cmd, &socket)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for each answer, 1s to 5s")
	return cmd
}

// ligQuery completes the words by what the daemon knows, if they need it.
func ligQuery(ctx context.Context, words []string, client *api.Client) (control.LigQuery, int, error) {
	arguments, err := parseLig(words)
	if err != nil {
		return control.LigQuery{}, 0, command.Usage(err)
	}
	wanted, err := ligTarget(ctx, arguments.eid, client)
	if err != nil {
		return control.LigQuery{}, 0, err
	}
	if !arguments.resolver.IsValid() {
		if arguments.resolver, err = firstResolver(ctx, client); err != nil {
			return control.LigQuery{}, 0, err
		}
	}
	return control.LigQuery{
		Instance: wanted.Instance(), EID: wanted.EID(), Source: arguments.source, Resolver: arguments.resolver,
	}, arguments.count, nil
}

func parseLig(words []string) (ligArguments, error) {
	parsed := ligArguments{eid: words[0], count: control.LigDefaultCount}
	rest := words[1:]
	if len(rest)%2 != 0 {
		return parsed, fmt.Errorf("%q lacks a value: want [source EID] [to MAP-RESOLVER] [count 1-5]", rest[len(rest)-1])
	}
	for i := 0; i < len(rest); i += 2 {
		if err := parsed.set(rest[i], rest[i+1]); err != nil {
			return parsed, err
		}
	}
	return parsed, nil
}

func (a *ligArguments) set(word, value string) (err error) {
	switch word {
	case "source":
		a.source, err = lisp.ParseEID(value)
	case "to":
		a.resolver, err = parseResolver(value)
	case "count":
		a.count, err = strconv.Atoi(value)
		if err != nil || a.count < 1 || a.count > control.LigMaxCount {
			return fmt.Errorf("count %q: want 1 to %d", value, control.LigMaxCount)
		}
	default:
		return fmt.Errorf("%q: want source, to or count", word)
	}
	return err
}

// parseResolver reads an address, with a port only where it is not 4342.
func parseResolver(s string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(a, wire.ControlPort), nil
	}
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return a, fmt.Errorf("Map-Resolver %q: want an IPv4 or IPv6 address", s)
	}
	return a, nil
}

func ligTarget(ctx context.Context, word string, client *api.Client) (lisp.Prefix, error) {
	kind, isSelf := map[string]lisp.EIDKind{"self": lisp.EIDIPv4, "self6": lisp.EIDIPv6}[word]
	if !isSelf {
		wanted, err := lisp.ParsePrefix(word)
		if err == nil && !wanted.IsHost() {
			err = fmt.Errorf("%s is a prefix: lig asks for one EID", word)
		}
		return wanted, command.Usage(err)
	}
	own, err := client.Database(ctx)
	if err != nil {
		return lisp.Prefix{}, err
	}
	for _, entry := range own {
		if entry.EIDPrefix.Kind() == kind {
			return lisp.HostPrefix(entry.EIDPrefix.Instance(), entry.EIDPrefix.EID()), nil
		}
	}
	return lisp.Prefix{}, fmt.Errorf("%s: this site has no %s EID-Prefix", word, kind)
}

func firstResolver(ctx context.Context, client *api.Client) (netip.AddrPort, error) {
	status, err := client.Status(ctx)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("which Map-Resolver? Say \"to ADDRESS\": %w", err)
	}
	if len(status.MapResolvers) == 0 {
		return netip.AddrPort{}, command.Usagef("the daemon has no Map-Resolver: say \"to ADDRESS\"")
	}
	return parseResolver(status.MapResolvers[0])
}

// ligResult is what --json prints.
type ligResult struct {
	EID         lisp.EID            `json:"eid"`
	InstanceID  lisp.InstanceID     `json:"instance_id"`
	MapResolver string              `json:"map_resolver"`
	From        string              `json:"from"`
	RoundTrip   jsondoc.Seconds     `json:"round_trip_seconds"`
	Mappings    []api.MapCacheEntry `json:"mappings"`
}

func runLig(cmd *cobra.Command, q control.LigQuery, count int, timeout time.Duration, asJSON bool) error {
	out := cmd.OutOrStdout()
	progress := func(number int, resolver netip.AddrPort) {
		if !asJSON {
			fmt.Fprintf(out, "Map-Request %d for %s to %s\n", number, lisp.HostPrefix(q.Instance, q.EID), resolver.Addr())
		}
	}
	answer, err := diagnosis.Ask(cmd.Context(), q, count, timeout, progress)
	if err != nil {
		return err
	}
	if asJSON {
		return jsondoc.Write(out, ligResultOf(q, answer))
	}
	return printLig(out, answer)
}

func ligResultOf(q control.LigQuery, answer control.LigAnswer) ligResult {
	result := ligResult{
		EID: q.EID, InstanceID: q.Instance, MapResolver: q.Resolver.String(), From: answer.From.String(),
		RoundTrip: jsondoc.SecondsOf(answer.RoundTripTime),
	}
	now := time.Now()
	for _, m := range answer.Mappings {
		entry := api.MapCacheEntry{
			EIDPrefix: m.Prefix, Locators: api.LocatorsOf(m.Locators), Authoritative: m.Authoritative,
			CreatedAt: now,
		}
		if m.TTLMinutes != lisp.TTLUnlimited {
			expires := now.Add(lisp.Lifetime(m.TTLMinutes, 0))
			entry.ExpiresAt = &expires
		}
		if m.Negative() {
			entry.Action = &m.Action
		}
		result.Mappings = append(result.Mappings, entry)
	}
	return result
}

func printLig(out io.Writer, answer control.LigAnswer) error {
	fmt.Fprintf(out, "Map-Reply from %s in %.3f ms\n", answer.From.Addr(), float64(answer.RoundTripTime)/float64(time.Millisecond))
	var rows []string
	for _, m := range answer.Mappings {
		first, rest := format.LocatorLines(api.LocatorsOf(m.Locators))
		if m.Negative() {
			first = m.Action.String()
		}
		by := "mapping system"
		if m.Authoritative {
			by = "site"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", m.Prefix, first, format.TTL(api.TTLOf(m.TTLMinutes)), by))
		rows = append(rows, rest...)
	}
	return format.PrintRows(out, "EID-PREFIX\tLOCATOR priority/weight\tTTL\tANSWERED BY", rows)
}
