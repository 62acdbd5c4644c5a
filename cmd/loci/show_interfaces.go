// SPDX-License-Identifier: Apache-2.0

package main

// How loci show prints what concerns this host.

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"loci/control"
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
	if err := printRows(out, "INTERFACE\tSIDE\tSTATE\tHOOK\tADDRESSES\tGATEWAYS", rows); err != nil {
		return err
	}
	rows = nil
	now := time.Now()
	for _, r := range answer.RLOCs {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", r.RLOC, r.Interface, r.State, age(now, &r.ChangedAt), r.Reason))
	}
	if err := printRows(out, "OWN RLOC\tINTERFACE\tSTATE\tSINCE\tREASON", rows); err != nil {
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

func printSiblings(out io.Writer, answer api.Siblings) error {
	now := time.Now()
	var rows []string
	for _, s := range answer.Siblings {
		state := "silent"
		if s.Answers {
			state = "answers"
		}
		locators := make([]string, len(s.Locators))
		for i, l := range s.Locators {
			locators[i] = l.RLOC.String()
			if !l.Reachable {
				locators[i] += " unreachable"
			}
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", s.Address, state, age(now, s.HeardAt), coreOf(now, s), strings.Join(locators, ", ")))
	}
	if err := printRows(out, "SIBLING\tSTATE\tHEARD\tCORE\tITS LOCATORS", rows); err != nil {
		return err
	}
	var err error
	switch {
	case answer.ForwardingSibling != "":
		_, err = fmt.Fprintf(out, "this site's packets go by %s since %s: %s%s\n",
			answer.ForwardingSibling, age(now, answer.Since), answer.Reason, reasonInWords[answer.Reason])
	case answer.UnansweredSince != nil:
		_, err = fmt.Fprintf(out, "the core has not answered this router for %s; it keeps its packets: no sibling is known to get through\n", age(now, answer.UnansweredSince))
	}
	return err
}

// reasonInWords is what the reason of a handover says besides its name.
var reasonInWords = map[string]string{
	string(control.SiblingPathUnproven): "; this router's RLOCs are up again, " +
		"and the core has not answered from there yet",
}

// coreOf is what a sibling last said of the core, "-" where it was not asked.
func coreOf(now time.Time, s api.Sibling) string {
	if s.CoreAskedAt == nil {
		return "-"
	}
	said := "does not answer it"
	if s.CoreAnswers {
		said = "answers it"
	}
	said += ", " + age(now, s.CoreAskedAt) + " ago"
	if s.DataAt != nil {
		said += "; data packets " + age(now, s.DataAt) + " ago"
	}
	return said
}
