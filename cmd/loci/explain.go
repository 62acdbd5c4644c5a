// SPDX-License-Identifier: Apache-2.0

package main

// loci explain: why a destination is reached as it is.

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"loci/cmd/loci/ask"
	"loci/cmd/loci/complete"
	"loci/cmd/loci/format"
	"loci/daemon/api"
	"loci/internal/command"
	"loci/lisp"
)

// protocolNumbers are the protocols that a flow may be named by.
var protocolNumbers = map[string]uint8{"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58, "sctp": 132}

// explainFlags name one flow.
type explainFlags struct {
	ask.Flags
	from, protocol      string
	source, destination uint16
}

func newExplainCommand() *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain EID",
		Short: "Explain how packets to an EID are treated, from configuration to data plane",
		Long: `Explain what happens to packets to an EID: whether the EID is one of this site; which
map-cache entry decides, where it came from, its age and when it ends; each locator
with its state, the reason and its share of the flows; the policies that apply; a
Map-Request under way; and the content of the data plane. --from names a flow, for
which the locator is printed, and what the policies of an RTR, PITR or PETR make of it.
Nothing is sent.`,
		Example: `  loci explain 10.2.0.1
  loci explain [7]10.2.0.1 --json
  loci explain 10.2.0.1 --from 10.1.0.5 --protocol tcp --source-port 40000 --destination-port 443`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: complete.FirstHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := f.query(args[0])
			if err != nil {
				return command.Usage(err)
			}
			question := func(c *api.Client, ctx context.Context) (api.Explanation, error) { return c.Explain(ctx, q) }
			return ask.Answer(cmd, &f.Flags, question, printExplanation)
		},
	}
	addSocketFlag(cmd, &f.Socket)
	cmd.Flags().BoolVar(&f.AsJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&f.from, "from", "", "source EID of the flow")
	cmd.Flags().StringVar(&f.protocol, "protocol", "", "its protocol: tcp, udp, sctp, icmp or icmpv6")
	cmd.Flags().Uint16Var(&f.source, "source-port", 0, "its source port")
	cmd.Flags().Uint16Var(&f.destination, "destination-port", 0, "its destination port")
	return cmd
}

// query reads the arguments.
func (f *explainFlags) query(eid string) (q api.ExplainQuery, err error) {
	p, err := lisp.ParsePrefix(eid)
	if err != nil {
		return q, err
	}
	if !p.IsHost() {
		return q, fmt.Errorf("%s is an EID-Prefix: want one EID", p)
	}
	q = api.ExplainQuery{InstanceID: p.Instance(), EID: p.EID(), SourcePort: f.source, DestinationPort: f.destination}
	if f.protocol != "" {
		number, known := protocolNumbers[f.protocol]
		if !known {
			return q, fmt.Errorf("--protocol %q: want tcp, udp, sctp, icmp or icmpv6", f.protocol)
		}
		q.Protocol = number
	}
	ported := q.Protocol == protocolNumbers["tcp"] || q.Protocol == protocolNumbers["udp"] || q.Protocol == protocolNumbers["sctp"]
	switch {
	case f.from == "" && (f.protocol != "" || f.source != 0 || f.destination != 0):
		return q, fmt.Errorf("--protocol and the ports belong to a flow: want --from EID as well")
	case (f.source != 0 || f.destination != 0) && !ported:
		return q, fmt.Errorf("ports go with --protocol tcp, udp or sctp")
	case f.from == "":
		return q, nil
	}
	q.From, err = lisp.ParseEID(f.from)
	return q, err
}

func printExplanation(out io.Writer, e api.Explanation) error {
	fmt.Fprintf(out, "%s: %s\n\n", lisp.HostPrefix(e.InstanceID, e.EID), e.Outcome)
	for i, why := range e.Why {
		fmt.Fprintf(out, "%2d. %s\n", i+1, why)
	}
	if len(e.Locators) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	now := time.Now()
	var rows []string
	for _, l := range e.Locators {
		rows = append(rows, explainedRow(now, l))
	}
	return format.PrintRows(out, "LOCATOR priority/weight\tSTATE\tSINCE\tREASON\tROUND TRIP\tSHARE\tNOTE", rows)
}

func explainedRow(now time.Time, l api.ExplainedLocator) string {
	since, roundTrip, note := "", "", l.WhyNot
	if l.ChangedAt != nil {
		since = format.Age(now, l.ChangedAt)
	}
	if l.RoundTrip != nil {
		roundTrip = fmt.Sprintf("%.3fms", l.RoundTrip.Milliseconds())
	}
	if l.Said != nil {
		note = fmt.Sprintf("%d/%d by its site, itr.locator-policies[%d]; %s", l.Said.Priority, l.Said.Weight, *l.Policy, note)
	}
	return fmt.Sprintf("%s %d/%d\t%s\t%s\t%s\t%s\t%.0f %%\t%s", l.Name(), l.Priority, l.Weight, l.State, since, l.Reason, roundTrip, 100*l.Share, note)
}
