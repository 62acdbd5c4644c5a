// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

// loci show nat.

func printNAT(out io.Writer, answer api.NAT) error {
	now := time.Now()
	if len(answer.Views)+len(answer.Bindings)+len(answer.Hosts) == 0 {
		_, err := fmt.Fprintln(out, "this router asks no Map-Server about NATs, and is no RTR of routers behind NATs with a binding")
		return err
	}
	if err := printNATViews(out, now, answer); err != nil {
		return err
	}
	var rows []string
	for _, b := range answer.Bindings {
		for _, w := range b.RLOCs {
			silent := ""
			if b.Silent {
				silent = ", silent"
			}
			rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%d\t%s\t%s\t%d\t%s ago%s",
				b.EIDPrefix, w.SeenAs, w.Private, w.Priority, b.Protocol, b.MapServer, b.Moves,
				format.Age(now, b.VerifiedAt), silent))
		}
	}
	head := "EID-PREFIX\tFORWARDED TO\tPRIVATE RLOC\tPRIORITY\tPROTOCOL\tMAP-SERVER\tMOVES\tVERIFIED"
	if err := printSome(out, head, rows, answer.BindingCount-len(answer.Bindings)); err != nil {
		return err
	}
	rows = make([]string, len(answer.Hosts))
	for i, h := range answer.Hosts {
		rows[i] = fmt.Sprintf("%q\t%s\t%s\t%d\t%d\t%s ago", h.Name, h.SeenAs, h.Protocol, h.Mappings, h.Moves,
			format.Age(now, h.HeardAt))
	}
	return printSome(out, "HOST\tFORWARDED TO\tPROTOCOL\tMAPPINGS\tMOVES\tHEARD", rows,
		answer.HostCount-len(answer.Hosts))
}

// printSome prints rows, and how many more bindings or hosts there are.
func printSome(out io.Writer, head string, rows []string, more int) error {
	if len(rows) == 0 {
		return nil
	}
	err := format.PrintRows(out, head, rows)
	if err == nil && more > 0 {
		_, err = fmt.Fprintf(out, "and %d more\n", more)
	}
	return err
}

func printNATViews(out io.Writer, now time.Time, answer api.NAT) error {
	var rows []string
	for _, v := range answer.Views {
		seen, is, rtrs := "-", "does not answer Info-Requests", make([]string, len(v.RTRs))
		for i, r := range v.RTRs {
			rtrs[i] = r.String()
		}
		if v.AnsweredAt != nil {
			if seen, is = v.SeenAs, "no NAT"; v.BehindNAT {
				is = "behind a NAT"
			}
			if v.NAT64Prefix != "" {
				is = "behind a NAT64, " + v.NAT64Prefix
			}
			is += ", " + format.Age(now, v.AnsweredAt) + " ago"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", v.RLOC, seen, v.MapServer, v.Protocol, is,
			strings.Join(rtrs, ", ")))
	}
	if len(rows) == 0 {
		return nil
	}
	if err := format.PrintRows(out, "RLOC\tSEEN AS\tBY MAP-SERVER\tPROTOCOL\tSTATE\tRTRS", rows); err != nil {
		return err
	}
	if len(answer.Unasked) > 0 {
		rlocs := make([]string, len(answer.Unasked))
		for i, r := range answer.Unasked {
			rlocs[i] = r.String()
		}
		_, err := fmt.Fprintf(out, "not asked about, and unreachable while RTRs are in use: %s (an RTR keeps 8 RLOCs of a router)\n",
			strings.Join(rlocs, ", "))
		if err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "sent for NAT traversal in the last hour: %d octets\n", answer.OctetsSent); err != nil {
		return err
	}
	for i := range answer.RTRs {
		if _, err := fmt.Fprintln(out, natRTR(now, &answer.RTRs[i])); err != nil {
			return err
		}
	}
	return nil
}

// natRTR says whether this router is reached by an RTR.
func natRTR(now time.Time, r *api.NATRTR) string {
	state := "has not answered yet"
	switch {
	case r.Silent:
		state = "is silent"
	case r.ConfirmedAt != nil:
		state = "knows this router's address, " + format.Age(now, r.ConfirmedAt) + " ago"
		if r.Protocol == api.NATProtocolSimple {
			state = "answered " + format.Age(now, r.ConfirmedAt) + " ago"
		}
	}
	keepalives := "no keepalives"
	if r.KeepaliveSeconds > 0 {
		keepalives = fmt.Sprintf("keepalive %gs, none yet", r.KeepaliveSeconds)
	}
	if r.KeepaliveSeconds > 0 && r.LastKeepaliveAt != nil {
		keepalives = fmt.Sprintf("keepalive %gs, last %s ago", r.KeepaliveSeconds, format.Age(now, r.LastKeepaliveAt))
	}
	address := r.Address.String()
	if r.IPv4 != nil {
		address += fmt.Sprintf(" (%s by NAT64)", r.IPv4)
	}
	lost := ""
	if r.Protocol != api.NATProtocolSimple { // by that one an RTR does not say how it sees this router
		lost = fmt.Sprintf("binding lost %d times; ", r.BindingsLost)
	}
	return fmt.Sprintf("registered by RTR %s (%s) since %s: it %s; %s%s",
		address, r.Protocol, format.Age(now, r.Since), state, lost, keepalives)
}
