// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"loci/cmd/loci/format"
	"loci/control"
	"loci/daemon/api"
)

// loci show siblings.

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
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", s.Address, state, format.Age(now, s.HeardAt), coreOf(now, s), strings.Join(locators, ", ")))
	}
	if err := format.PrintRows(out, "SIBLING\tSTATE\tHEARD\tCORE\tITS LOCATORS", rows); err != nil {
		return err
	}
	var err error
	switch {
	case answer.ForwardingSibling != "":
		_, err = fmt.Fprintf(out, "this site's packets go by %s since %s: %s%s\n",
			answer.ForwardingSibling, format.Age(now, answer.Since), answer.Reason, reasonInWords[answer.Reason])
	case answer.UnansweredSince != nil:
		_, err = fmt.Fprintf(out, "the core has not answered this router for %s; it keeps its packets: no sibling is known to get through\n", format.Age(now, answer.UnansweredSince))
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
	said += ", " + format.Age(now, s.CoreAskedAt) + " ago"
	if s.DataAt != nil {
		said += "; data packets " + format.Age(now, s.DataAt) + " ago"
	}
	return said
}
