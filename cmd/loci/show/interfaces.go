// SPDX-License-Identifier: Apache-2.0

package show

// How loci show prints what concerns this host.

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"loci/cmd/loci/format"
	"loci/daemon/api"
)

func printInterfaces(out io.Writer, answer api.Interfaces) error {
	var rows []string
	for _, i := range answer.Interfaces {
		state := "not there"
		switch {
		case i.Up:
			state = "up"
		case i.Present:
			state = "down"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", i.Name, i.Side, state, cmp.Or(i.Hook, "-"), joined(i.Addresses), joined(i.Gateways)))
	}
	if err := format.PrintRows(out, "INTERFACE\tSIDE\tSTATE\tHOOK\tADDRESSES\tGATEWAYS", rows); err != nil {
		return err
	}
	rows = nil
	now := time.Now()
	for _, r := range answer.RLOCs {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", r.RLOC, r.Interface, r.State, format.Age(now, &r.ChangedAt), r.Reason))
	}
	if err := format.PrintRows(out, "OWN RLOC\tINTERFACE\tSTATE\tSINCE\tREASON", rows); err != nil {
		return err
	}
	for _, w := range answer.Waiting {
		if _, err := fmt.Fprintln(out, "waiting:", w); err != nil {
			return err
		}
	}
	return nil
}

func joined(list []netip.Addr) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.String()
	}
	return strings.Join(words, " ")
}
